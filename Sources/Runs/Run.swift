package import Datasets
import Evidence
import Foundation
package import Model
package import Steps
import Synchronization

/// A batch run: converts every take found among the inputs into the output directory, or records why it could not.
///
///     let run = Run(inputs: ["takes"], output: "dataset", pipeline: try PipelineFile.defaultPipeline(), tool: tool)
///     let summary = try run.execute { event in log(event) }
package struct Run: Sendable {
  package var inputs: [String]
  package var output: String
  package var pipeline: Pipeline
  package var tool: ToolIdentity
  package var jobs = 1
  /// Whether links to directories among the inputs are followed.
  package var followsLinks = false
  package var stopsAtFailure = false
  package var replaces = false
  package var prunes = false
  /// Whether inputs are compared by content rather than by size, time and inode.
  package var checksContent = false
  /// The check of shards that another program has written to, against their records.
  package var checks = Verification.ExternalChecks.none
  /// Public keys of devices, for checking the signatures of bundles.
  package var keys: DeviceKeys?
  /// An explicit split, in place of the pipeline's rule.
  package var splitFile: SplitFile?
  /// Labels of takes, and the task of every episode.
  package var labels: LabelFile?
  package var task: String?
  /// Converts some of the takes in child processes; `nil` converts all of them in this one.
  package var isolation: Isolation?
  package var commandLine: [String] = []
  /// Whether the manifest's `run` names the host and the user.
  package var recordsHost = false
  /// Whether to count the warnings of takes that are already in the dataset, too.
  package var countsEarlierWarnings = false
  /// Set for one batch of a watch.
  var watched: Watched?

  /// A batch of a watch: its inputs are only the takes to convert now.
  struct Watched: Sendable {
    /// Locked as long as the watch runs.
    var directory: OutputDirectory
    /// Whether a take at this location is among the inputs of the watch.
    var isStanding: @Sendable (String) -> Bool
    /// Says when takes were recorded, of those that are known already.
    var timing: UnixSpan.Reading?
  }

  /// The isolation of takes from the run.
  package struct Isolation: Sendable {
    package var policy = IsolationPolicy.auto
    package var limits = IsolationLimits()
    /// The program and the arguments by which it calls `ConversionChild.run`.
    package var command: [String]
    package init(command: [String]) { self.command = command }
  }

  package init(inputs: [String], output: String, pipeline: Pipeline, tool: ToolIdentity) {
    self.inputs = inputs
    self.output = output
    self.pipeline = pipeline
    self.tool = tool
  }

  /// A progress report of a run; sent from several threads.
  package enum Event: Sendable {
    case found(takes: Int)
    /// A take is being converted.
    case started(id: String)
    /// A take is already in the dataset.
    case unchanged(id: String)
    /// Steps in Python have printed something while an episode was converted.
    case said(id: String, text: String)
    case log(String)
    /// Rows and bytes stored since the last event.
    case progress(rows: Int, bytes: Int)
    /// An episode is finished; a take that a step has split has several, and the last one ends it.
    case finished(
      id: String, take: String, outcome: TakeRecord.Outcome, reason: String?, findings: [Finding], rows: Int, seconds: Double,
      endsTake: Bool)
  }

  /// The counts of a finished run, in takes or episodes.
  package struct Summary: Sendable {
    package var written = 0
    package var rejected = 0
    package var failed = 0
    /// Written takes with a finding above `info`.
    package var withWarnings = 0
    /// Takes whose output already existed and is kept.
    package var unchanged = 0
    package var pruned = 0
    /// Episodes that are kept although their inputs are gone.
    package var orphaned = 0
    package var rows = 0
    package var isCancelled = false
    package var isUpToDate = false
    /// Findings about the dataset as a whole.
    package var findings: [Finding] = []
    package init(isCancelled: Bool = false) { self.isCancelled = isCancelled }
  }

  /// Runs to the end, or until `isCancelled` returns true. Throws `UsageError`, `NoInputs` or `OutputFailure`.
  package func execute(
    isCancelled: @escaping @Sendable () -> Bool = { false }, report: @escaping @Sendable (Event) -> Void
  ) throws -> Summary {
    let started = Date()
    let conversion = TakeConversion(pipeline: pipeline, tool: tool, context: RunContext(keys: keys))
    // Before anything is created, and again if another run has finished in the meantime: earlier entries determine ids.
    let path = Directory.absolute(output)
    var (earlier, search) = try look(path, conversion, isCancelled)
    if isCancelled() { return Summary(isCancelled: true) }
    let directory = try watched?.directory ?? OutputDirectory(output, inputs: inputs)
    if !earlier.isCurrent(at: directory.journal) { (earlier, search) = try look(path, conversion, isCancelled) }
    if isCancelled() { return Summary(isCancelled: true) }
    search.notices.forEach { report(.log($0)) }
    if earlier.damaged > 0 {
      report(
        .log(
          "\(DatasetFiles.journal): \(earlier.damaged) damaged \(earlier.damaged == 1 ? "line is" : "lines are") ignored; \(earlier.damaged == 1 ? "its take is" : "their takes are") rebuilt"
        ))
    }
    let journal: Journal
    do {
      journal = try Journal(path: directory.journal, known: earlier)
    } catch {
      throw OutputFailure(error, writing: directory.journal)
    }
    let results = RunResults(
      journal, conversion, directory: directory.path, stopsAtFailure: stopsAtFailure, countsEarlierWarnings: countsEarlierWarnings,
      report: report)
    // What a watch has found and is gone or cannot be read a moment later is found again; it is no failure.
    let unmatched = watched == nil ? search.unmatched : []
    if watched != nil { for input in search.unmatched { report(.log("\(input.path.onOneLine): \(input.failure.message)")) } }
    report(.found(takes: search.found.count + unmatched.count))
    for input in unmatched { results.fail(input) }

    let cancelled: @Sendable () -> Bool = { isCancelled() || results.isStopped }
    let upToDate = UpToDateCheck(
      journal: journal, earlier: results.earlierByTake, conversion: conversion, directory: directory.path, checksContent: checksContent,
      replaces: replaces, prunes: prunes, checks: checks)
    try convert(search, conversion, upToDate, results, directory.path, cancelled)

    if let failure = results.outputFailure { throw failure }
    var summary = results.summary
    summary.isCancelled = isCancelled()
    if summary.isCancelled { return summary }
    if watched != nil, journal.entries.isEmpty {
      summary.isUpToDate = true
      return summary
    }
    var seen = results.seen(search)
    if let watched {
      let standing = journal.entries.values.filter { entry in
        (entry.joinedGroup?.paths(in: entry.location) ?? [entry.location]).contains(where: watched.isStanding)
      }
      seen.formUnion(standing.map(\.id.take))
    }
    var gone = results.isStopped ? [] : vanished(search, seen, upToDate, directory, conversion, report)
    summary.pruned = gone.count
    gone += results.obsolete.subtracting(gone)
    let removed = Set(gone)
    // A watch looks at parts of the inputs.
    let ignored = watched == nil ? search.ignored.findings : []
    let orphans = journal.entries.values.filter { !seen.contains($0.id.take) && !removed.contains($0.id.text) }
    if watched == nil { summary.orphaned = orphans.count { $0.outcome == .written } }
    let entries = journal.entries.values.filter { conversion.isOwn($0.pipeline) && !removed.contains($0.id.text) }
    let folders = Dictionary(search.found.compactMap { take in take.labelFiles.map { (take.location.path, $0) } }) { first, _ in first }
    let labels = LabelCollection(
      of: entries, file: labels, task: task, recorded: ManifestFile.labels(in: directory.path), vanished: Set(orphans.map(\.id.text)),
      folders: folders)
    let stamp = IndexStamp(
      directory.index, of: entries, pipeline: pipeline, splitFile: splitFile, vanished: orphans.map(\.id.text), ignored: ignored,
      labels: labels)
    for sentence in labels.unreadable { report(.log(sentence)) }
    summary.failed += labels.unreadable.count
    summary.isUpToDate =
      !results.hasChanged && gone.isEmpty && earlier.damaged == 0 && stamp.isRecorded(in: directory.path)
    if !summary.isUpToDate {
      if !earlier.entries.isEmpty, try exists(directory.index), (try? ManifestFile.isAsWritten(in: directory.path)) != true {
        let loss = "labels that takeset label has set may be gone with it"
        report(.log("\(DatasetFiles.manifest) is missing or damaged, and is written again; \(loss)"))
      }
      // Takes to remove first leave the journal, the index and the manifest; their shards are removed last: a leftover file is harmless.
      do {
        try journal.compact(removing: removed)
      } catch {
        throw OutputFailure(error, writing: directory.journal)
      }
      summary.findings = try publish(directory, journal, conversion, seen, ignored, labels, started)
    }
    // A shard whose journal line was damaged may be the only remaining copy of its take.
    if earlier.damaged == 0, !results.isStopped { sweep(directory, journal, removed) }
    return summary
  }

  /// Reads what earlier runs have written to the output, and finds the takes among the inputs. Throws what they are refused for.
  private func look(
    _ output: String, _ conversion: TakeConversion, _ isCancelled: @escaping @Sendable () -> Bool
  ) throws -> (Journal.Contents, TakeSearch) {
    let earlier: Journal.Contents
    do {
      earlier = try Journal.contents(at: output + "/" + DatasetFiles.journal)
    } catch {
      throw OutputFailure("cannot read the journal of \(self.output): \(error)")
    }
    let search = TakeSearch(
      inputs: inputs, pipeline: pipeline, followsLinks: followsLinks, registry: TakeIDRegistry(earlier.entries),
      timing: timing(conversion, isCancelled), isCancelled: isCancelled)
    // One take that a pipeline cannot convert is no reason to end a watch; it fails.
    if watched == nil { try search.refuse(pipeline) }
    try splitFile?.check(search.found.map(\.id))
    try refuseOtherOutput(output, earlier, conversion)
    if watched == nil, !replaces { try earlier.entries.refuseAdditions(to: search.found.map(\.id), of: self.output) }
    return (earlier, search)
  }

  /// Says when takes were recorded; a child process opens those that a child process converts.
  func timing(_ conversion: TakeConversion, _ isCancelled: @escaping @Sendable () -> Bool) -> UnixSpan.Reading {
    if let known = watched?.timing { return known }
    guard pipeline.join?.by == .time, let isolation else { return { try UnixSpan(of: $0) } }
    let isolate = IsolatedConversion(conversion, command: isolation.command, limits: isolation.limits)
    return { task in isolation.policy.applies(to: task) ? try isolate.span(of: task, isCancelled) : try UnixSpan(of: task) }
  }

  private func convert(
    _ search: TakeSearch, _ conversion: TakeConversion, _ upToDate: UpToDateCheck, _ results: RunResults, _ directory: String,
    _ isCancelled: @escaping @Sendable () -> Bool
  ) throws {
    // Made one after the other: a task holds all options of its reader.
    let jobs = search.found.lazy.map { TakeJob(task: $0.task, reader: $0.reader) }
    let isolated = isolation.map { isolation in
      search.found.count { isolation.policy.applies(to: $0.location, readBy: type(of: $0.reader).name) }
    }
    let share = ThreadShare(threads: max(1, self.jobs), takes: isolated ?? 0)
    let isolate = isolation.map { IsolatedConversion(conversion, command: $0.command, limits: $0.limits) }
    if isolated ?? 0 > 0, let shortcoming = IsolatedConversion.shortcoming { results.log(shortcoming) }
    Scheduler(
      jobs: jobs, threads: max(1, self.jobs),
      work: Scheduler.Work(
        open: { job in
          do {
            let isIsolated = isolation?.policy.applies(to: job.task) == true
            if isIsolated { share.open() }
            try conversion.list(job)
            switch try upToDate.verdict(job, isCancelled: isCancelled, log: results.log) {
            case .fresh(let entries):
              results.keep(entries)
              return false
            case .kept(let reason):
              results.keep(job.task.id, despite: reason)
              return false
            case .stale(let reason):
              if let reason { results.log("\(job.task.id): \(reason), and it is rebuilt") }
              Self.loadLibraryVersions
            }
            results.start(job.task.id)
            if let isolate, isIsolated {
              let outcome = Result { try share.use { try isolate(job, in: directory, threads: $0, isCancelled: isCancelled) } }
              if let converted = try? outcome.get() { results.didConvert(converted) }
              results.finish(job, outcome)
              return false
            }
            try conversion.open(job, in: directory)
            return true
          } catch {
            if !isCancelled(), !(error is CancellationError), let kept = upToDate.additions(to: job.task.id) {
              results.keep(job.task.id, despite: "\(error), but \(kept)")
            } else {
              results.finish(job, Result { try conversion.giveUp(job, error, isCancelled: isCancelled) })
            }
            return false
          }
        },
        finish: { job in
          results.finish(
            job,
            Result {
              do { return try conversion.seal(job, isCancelled: isCancelled) } catch {
                return try conversion.giveUp(job, error, isCancelled: isCancelled)
              }
            })
        },
        didStore: { results.didStore($0) }, isCancelled: isCancelled)
    ).run()
  }

  /// Refuses to write into another pipeline's output unless it is to be replaced.
  private func refuseOtherOutput(_ path: String, _ earlier: Journal.Contents, _ conversion: TakeConversion) throws {
    do {
      guard try !TaskList.hasUnpublished(in: path) else {
        throw UsageError(
          """
          \(output) has tasks for a cluster that are not published yet; convert them and run takeset publish \(output), or, \
          to give them up, remove \(DatasetFiles.tasks) and \(DatasetFiles.results) there
          """)
      }
    } catch let error as FileError {
      throw OutputFailure("\(error)", code: error.code)
    }
    // Beside a manifest it is a journal that was damaged.
    if earlier.isForeign, try !exists(path + "/" + DatasetFiles.manifest) {
      throw UsageError("\(path)/\(DatasetFiles.journal) is not a journal of Takeset, and stays; give another --output, or move it away")
    }
    guard !replaces else { return }
    if let other = earlier.entries.values.first(where: { !conversion.isOwn($0.pipeline) }) {
      throw PipelineDifferences.refusal(
        of: output, at: path, pipeline,
        "holds the output of another pipeline (\(other.pipeline.prefix(12)), this one is \(conversion.digest.prefix(12)))")
    }
    if earlier.unchecked > 0 {
      throw UsageError(
        "\(output) was written by an earlier version of Takeset, in format 1; give another --output, or --replace to rebuild it")
    }
    if earlier.entries.isEmpty, earlier.damaged == 0 {
      for name in [DatasetFiles.index, DatasetFiles.manifest] where try exists(path + "/" + name) {
        throw UsageError("\(output) holds a \(name) that is not recorded in a journal; give another --output, or --replace to overwrite it")
      }
      // A run that was killed before its first line has left sound shards at most.
      let episodes = path + "/" + DatasetFiles.episodes
      let members = try exists(episodes) ? Directory.members(of: episodes) : []
      for member in members where !SealedFile.isTemporary(member.name) {
        let id = URL(name: member.name).deletingPathExtension().lastPathComponent
        guard member.kind == .file, WrittenShard.isShard(episodes + "/" + member.name, of: id) else {
          throw UsageError("\(output)/\(DatasetFiles.episodes) holds \(member.name.onOneLine), which is no episode; give another --output")
        }
      }
    }
  }

  private func exists(_ path: String) throws -> Bool {
    do { return try Directory.kind(at: path) != nil } catch { throw OutputFailure("\(error)") }
  }

  /// Ids of the takes to remove: those that are no longer among the inputs, if pruning was requested, those of a replaced pipeline, and
  /// those whose files belong to another take now.
  private func vanished(
    _ search: TakeSearch, _ seen: Set<String>, _ upToDate: UpToDateCheck, _ directory: OutputDirectory, _ conversion: TakeConversion,
    _ report: (Event) -> Void
  ) -> [String] {
    if prunes, !search.unmatched.isEmpty {
      report(.log("nothing is pruned, because an input could not be read: takes that seem to be gone may only be unreachable"))
    }
    var kept: Set<String> = []
    var parts: Set<EpisodeID> = []
    let owners = search.owners
    /// Whether all that an episode was made of is in a take that was written since: a movie that was converted before the rest of its take had
    /// arrived, and would be in the dataset twice.
    func isPart(_ entry: Journal.Entry) -> Bool {
      let paths = entry.joinedGroup?.paths(in: entry.location) ?? [entry.location]
      guard let owner = paths.first.flatMap({ owners[$0] }), paths.allSatisfy({ owners[$0] == owner }) else { return false }
      // A take that could have been of two groups, and is of one now.
      if entry.joinedGroup != nil, entry.outcome != .written { return true }
      guard let whole = try? inputDigests(of: owner, upToDate.journal),
        let part = try? TakeRecord(json: upToDate.journal.record(of: entry.id.text)).inputs.map(\.digest)
      else { return false }
      return !part.isEmpty && whole.isSuperset(of: part)
    }
    func reason(_ entry: Journal.Entry) -> String {
      parts.contains(entry.id) ? "is part of another take now" : "is no longer among the inputs"
    }
    let gone = upToDate.journal.entries.values.filter { entry in
      // An entry for an unmatched input is obsolete once that input is no longer given, and so is a take whose input and episode
      // are both gone.
      if seen.contains(entry.id.take) { return false }
      let shard = directory.path + "/" + DatasetFiles.shard(of: entry.id.text)
      let hasLostShard = entry.outcome == .written && TakeIDRegistry.isGone(shard)
      if isPart(entry) { parts.insert(entry.id) }
      guard
        prunes && search.unmatched.isEmpty || !conversion.isOwn(entry.pipeline) || entry.reader == nil || hasLostShard
          || parts.contains(entry.id)
      else { return false }
      guard !kept.contains(entry.id.take) else { return false }
      guard let additions = upToDate.additions(to: entry.id.take) else { return true }
      kept.insert(entry.id.take)
      report(.log("\(entry.id.take): it \(reason(entry)), but \(additions)"))
      return false
    }
    for entry in gone.sorted(by: { $0.id < $1.id }) { report(.log("\(entry.id): removed because it \(reason(entry))")) }
    return gone.map(\.id.text).sorted()
  }

  /// The digests of the files that a take's episodes were made of; none unless all are written.
  private func inputDigests(of take: String, _ journal: Journal) throws -> Set<Digest> {
    let entries = journal.entries.values.filter { $0.id.take == take }
    guard entries.allSatisfy({ $0.outcome == .written }) else { return [] }
    return Set(try entries.flatMap { try TakeRecord(json: journal.record(of: $0.id.text)).inputs.map(\.digest) })
  }

  /// Removes shards that belong to no take in the journal: those of pruned takes, also from a run that was killed before this step.
  private func sweep(_ directory: OutputDirectory, _ journal: Journal, _ removed: Set<String>) {
    for id in removed { unlink(directory.path + "/" + DatasetFiles.shard(of: id)) }
    directory.removeShards(except: Set(journal.entries.values.filter { $0.outcome == .written }.map(\.id.text)))
  }

  /// Writes `dataset.h5` and `manifest.json` from the journal, and returns the findings about the dataset as a whole.
  private func publish(
    _ directory: OutputDirectory, _ journal: Journal, _ conversion: TakeConversion, _ seen: Set<String>, _ ignored: [Finding],
    _ labels: LabelCollection, _ started: Date
  ) throws -> [Finding] {
    // After an interrupted --replace, the remaining entries still belong to the other pipeline.
    let entries = journal.entries.values.filter { conversion.isOwn($0.pipeline) }
    var publication = Publication(pipeline: pipeline, tool: tool, started: started, commandLine: commandLine)
    (publication.splitFile, publication.ignored) = (splitFile, ignored)
    (publication.jobs, publication.recordsHost) = (jobs, recordsHost)
    publication.vanished = Set(entries.filter { !seen.contains($0.id.take) }.map(\.id.text))
    publication.labels = labels
    try publication.labels.place(entries, in: directory.path)
    return try publication.write(entries, of: journal, to: directory.path)
  }

  /// Loads the versions of the libraries for the manifest, once and in the background: querying all of them takes 10 ms.
  private static let loadLibraryVersions: Void = DispatchQueue.global().async { _ = ToolIdentity.libraries }
}
