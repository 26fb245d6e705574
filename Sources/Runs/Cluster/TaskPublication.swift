package import Datasets
import Foundation
package import Model
import Steps

/// Gathers the results of all tasks into a dataset: journal, index and manifest, as a run on one machine writes them.
package struct TaskPublication: Sendable {
  package var directory: String
  package var tool: ToolIdentity
  package var commandLine: [String] = []
  package var recordsHost = false
  /// Labels of takes, and the task of every episode.
  package var labels: LabelFile?
  package var task: String?
  /// The check of shards that another program has written to.
  package var checks = Verification.ExternalChecks.none

  package init(directory: String, tool: ToolIdentity) { (self.directory, self.tool) = (directory, tool) }

  /// The published dataset: takes by outcome, and rows of the written ones.
  package struct Summary: Sendable {
    package var written = 0
    package var rejected = 0
    package var failed = 0
    package var rows = 0
    /// Whether the dataset was complete already.
    package var isUpToDate = false
    package var findings: [Finding] = []

    package init() {}
  }

  /// Publishes the dataset. Throws `TasksMissing` where tasks have no result, `OutputFailure`, `UsageError`, `NoInputs`, `VersionMismatch`.
  package func execute() throws -> Summary {
    let started = Date()
    let list = try TaskList(in: directory, tool: tool)
    let conversion = try list.conversion(tool)
    let output = try OutputDirectory(directory, inputs: [], removesLeftovers: false)
    let results = TaskResults(directory: output.path, conversion: conversion, checks: checks, replaces: list.head.replaces == true)
    var entries: [String: Journal.Entry] = [:]
    var missing: [Int] = []
    do {
      try list.forEach { number, task in
        guard let episodes = try results.episodes(of: task) else { return missing.append(number) }
        for episode in episodes { entries[episode.entry.id.text] = episode.entry }
      }
    } catch let error as FileError {
      throw OutputFailure("\(error)")
    }
    if !missing.isEmpty { throw TasksMissing(numbers: missing, total: list.count, directory: directory) }
    let takes = Set(entries.values.map(\.id.take))
    let unmatched = Dictionary(list.head.unmatched.map { ($0.record.id.take, $0) }) { first, _ in first }
    for input in unmatched.values where !takes.contains(input.record.id.take) {
      entries[input.record.id.text] = Journal.Entry(.init(input.record, location: input.path, conversion))
    }
    let known = takes.union(unmatched.keys)
    let (earlier, hasDamage) = try earlierJournal(output)
    // Takes that the dataset has and that are no longer among the tasks stay.
    let kept = (earlier?.entries.values).map { $0.filter { !known.contains($0.id.take) && conversion.isOwn($0.pipeline) } } ?? []
    let all = (Array(entries.values) + kept).sorted { $0.id < $1.id }

    var summary = Summary()
    for entry in all {
      summary.rows += entry.framesOut
      switch entry.outcome {
      case .written: summary.written += 1
      case .rejected: summary.rejected += 1
      case .failed: summary.failed += 1
      }
    }
    let splitFile = try list.splitFile()
    let vanished = Set(kept.map(\.id.text))
    var labels = LabelCollection(
      of: all, file: labels, task: task, recorded: ManifestFile.labels(in: output.path), vanished: vanished)
    summary.failed += labels.unreadable.count
    let stamp = IndexStamp(
      output.path + "/" + DatasetFiles.index, of: all, pipeline: conversion.pipeline, splitFile: splitFile,
      vanished: kept.map(\.id.text), ignored: list.head.ignored ?? [], labels: labels)
    if let earlier, earlier.entries == Dictionary(uniqueKeysWithValues: all.map { ($0.id.text, $0) }), stamp.isRecorded(in: output.path) {
      summary.isUpToDate = true
      try finish(output)
      return summary
    }
    do {
      try Journal.write(all, to: output.journal) { entry in
        if vanished.contains(entry.id.text) { return try earlier?.record(of: entry.id.text) ?? [] }
        if let input = unmatched[entry.id.text], !takes.contains(entry.id.take) { return input.record.canonicalBytes }
        let episode = try results.episodes(ofTake: entry.id.take)?.first { $0.entry.id == entry.id }
        guard let episode else { throw OutputFailure("the result of \(entry.id.take) vanished while it was published") }
        return episode.record
      }
      let journal = try Journal(path: output.journal)
      var publication = Publication(pipeline: conversion.pipeline, tool: tool, started: started, commandLine: commandLine)
      publication.ignored = list.head.ignored ?? []
      try labels.place(all, in: output.path)
      publication.labels = labels
      (publication.splitFile, publication.recordsHost, publication.vanished) = (splitFile, recordsHost, vanished)
      summary.findings = try publication.write(all, of: journal, to: output.path)
    } catch {
      throw OutputFailure(error, writing: output.path)
    }
    try finish(output)
    // A shard whose line in the journal was damaged may be the only remaining copy of its take.
    if !hasDamage {
      output.removeShards(except: Set(all.filter { $0.outcome == .written }.map(\.id.text)))
    }
    return summary
  }

  private func finish(_ output: OutputDirectory) throws {
    do {
      try TaskList.markPublished(in: output.path)
    } catch {
      throw OutputFailure(error, writing: output.path)
    }
    // Every task is done: what still runs is of no use, and finds its task done.
    output.removeLeftovers()
  }

  private func earlierJournal(_ output: OutputDirectory) throws -> (Journal?, hasDamage: Bool) {
    do {
      guard try Directory.kind(at: output.journal) == .file else { return (nil, false) }
      let hasDamage = try Journal.contents(at: output.journal).damaged > 0
      return (try Journal(path: output.journal), hasDamage)
    } catch {
      throw OutputFailure("cannot read the journal of \(directory): \(error)")
    }
  }
}

/// Tasks that have no result yet: exit code 75.
package struct TasksMissing: Error, CustomStringConvertible {
  package var numbers: [Int]
  var total: Int
  var directory: String

  package var description: String {
    "\(numbers.count) of \(total) tasks have no result, or their shards are missing: \(TaskStatus.ranges(numbers)); "
      + "nothing is published; convert them and publish again"
  }
}
