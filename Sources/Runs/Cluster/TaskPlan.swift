package import Datasets
import Evidence
import Foundation
import Model
package import Steps

/// Writes the list of tasks of a batch.
package struct TaskPlan: Sendable {
  package var inputs: [String]
  package var output: String
  package var pipeline: Pipeline
  package var tool: ToolIdentity
  package var keys: DeviceKeys?
  package var splitFile: SplitFile?
  package var replaces = false
  package var followsLinks = false

  package init(inputs: [String], output: String, pipeline: Pipeline, tool: ToolIdentity) {
    (self.inputs, self.output, self.pipeline, self.tool) = (inputs, output, pipeline, tool)
  }

  /// The tasks that were written. `notices` are sentences about places that are not read.
  package struct Summary: Sendable {
    package var tasks: Int
    /// Inputs in which there is no take.
    package var unmatched: Int
    package var notices: [String]
  }

  /// Finds the takes, gives them their ids, and writes `tasks.json`. Takes of an earlier list, or of the dataset in the directory, keep
  /// their ids. Throws `UsageError`, `NoInputs`, `OutputFailure`.
  package func write() throws -> Summary {
    let path = Directory.absolute(output)
    let conversion = TakeConversion(pipeline: pipeline, tool: tool, context: RunContext(keys: keys))
    let earlier = try earlierEntries(path, conversion)
    let search = TakeSearch(inputs: inputs, pipeline: pipeline, followsLinks: followsLinks, registry: TakeIDRegistry(earlier))
    try search.refuse(pipeline)
    try splitFile?.check(search.found.map(\.id))
    if !replaces { try earlier.refuseAdditions(to: search.found.map(\.id), of: output) }
    let directory = try OutputDirectory(output, inputs: inputs, removesLeftovers: false)
    // The lock is held until the list is written.
    defer { withExtendedLifetime(directory) {} }
    let head = TaskList.Head(
      toolVersion: tool.version, pipeline: pipeline.canonical(), pipelineDigest: conversion.digest, keys: keys?.text,
      split: splitFile?.text, splitName: splitFile?.file,
      unmatched: search.unmatched.map { TaskList.UnmatchedInput(path: $0.path, record: $0.record) }, ignored: search.ignored.findings,
      replaces: replaces ? true : nil, count: search.found.count)
    do {
      try Directory.create(directory.path + "/" + DatasetFiles.results)
      if let folder = pipeline.folder { try TaskSteps(of: pipeline).copy(from: folder, to: directory.path) }
      try TaskList.write(head, search.found.map(\.task), to: directory.path + "/" + DatasetFiles.tasks)
    } catch let mistake as UsageError {
      throw mistake
    } catch {
      throw OutputFailure(error, writing: output, isResumed: false)
    }
    return Summary(tasks: search.found.count, unmatched: search.unmatched.count, notices: search.notices)
  }

  /// The list that is there, unless it is damaged or another version's: then its takes may get other ids.
  private func earlierList(_ path: String) throws -> TaskList? {
    guard try Directory.kind(at: path + "/" + DatasetFiles.tasks) == .file else { return nil }
    do { return try TaskList(in: path, tool: tool) } catch is UsageError { return nil } catch is VersionMismatch { return nil }
  }

  private func earlierEntries(_ path: String, _ conversion: TakeConversion) throws -> [String: Journal.Entry] {
    var entries: [String: Journal.Entry] = [:]
    do {
      entries = try Journal.contents(at: path + "/" + DatasetFiles.journal).entries
      if let list = try earlierList(path) {
        try list.forEach { _, task in
          if entries[task.id] != nil { return }
          var entry = Journal.Entry.Contents(
            id: EpisodeID(take: task.id), location: task.location.path, pipeline: list.head.pipelineDigest,
            toolVersion: list.head.toolVersion, outcome: .failed, reader: task.reader.name)
          entry.group = task.joinedGroup?.text
          entries[task.id] = Journal.Entry(entry)
        }
      }
    } catch {
      throw OutputFailure("cannot read what is in \(output): \(error)")
    }
    if !replaces, let other = entries.values.first(where: { !conversion.isOwn($0.pipeline) }) {
      throw PipelineDifferences.refusal(
        of: output, at: path, pipeline,
        "belongs to another pipeline (\(other.pipeline.prefix(12)), this one is \(conversion.digest.prefix(12)))")
    }
    return entries
  }
}
