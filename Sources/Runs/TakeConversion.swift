package import Datasets
package import Evidence
import Foundation
package import Model
import Rasters
package import Steps

/// The task of converting one take, as plain data that a child process or another machine can receive.
package struct TakeTask: Codable, Sendable {
  package var id: String
  package var location: TakeLocation
  /// The reader with all its options.
  package var reader: ReaderChoice
  /// The folder next to an archive with the archive's name, if it is a take too.
  package var duplicateFolder: TakeLocation?
  /// Findings of the search, such as another take with the same name.
  package var findings: [Finding] = []

  /// The reader that recognized the take, with its options: plain data, which a child process can receive.
  package struct ReaderChoice: Codable, Sendable {
    package var name: String
    package var options: JSONValue
  }

  package init(id: String, location: TakeLocation, reader: any Reader, duplicateFolder: TakeLocation? = nil, findings: [Finding] = []) {
    (self.id, self.location, self.duplicateFolder, self.findings) = (id, location, duplicateFolder, findings)
    self.reader = ReaderChoice(name: type(of: reader).name, options: reader.optionValues())
  }

  /// The group of a joined take; `nil` for any other.
  var joinedGroup: JoinedGroup? { reader.name == JoinedTake.name ? JoinedGroup(reader.options) : nil }

  /// The reader that the task names. Throws `PipelineFileError` if this version does not have it.
  func makeReader() throws -> any Reader { try PipelineFile.reader(reader.name, options: reader.options) }
}

/// The result of a task.
package struct TakeResult: Codable, Sendable {
  package var record: TakeRecord
  /// Digest of the inputs' paths, sizes, times and inodes.
  package var stamp: String?
  /// The origin by which a split may group the take.
  package var origin: TakeOrigin?
  package var recording: String?
  /// Digest of the keys file, as in the journal.
  package var keys: String?
  package var seconds: Double
  /// Number of episodes of the take, if a step has split it.
  package var parts: Int?
  /// Frames that count in the totals for this episode: those of its take for the first, none for the others.
  package var framesIn: Int
  /// Rows that repeat the frame of an earlier row.
  package var framesRepeated: Int
  /// What steps in Python have printed; `nil` where they printed nothing.
  package var said: String?

  /// Whether the counts that totals are made of are such as a take can have, so that sums over any number of takes are numbers.
  var hasPlausibleCounts: Bool {
    let counts = [framesIn, framesRepeated, record.framesIn, record.framesOut, parts ?? 1, record.id.part ?? 0]
    return (counts + [Int(clamping: record.output?.bytes ?? 0)]).allSatisfy(TakeRecord.isPlausibleCount)
  }
}

/// The conversion of one take into shards, one for each of its episodes, identical in the threads of a run, in a process of its own and on
/// another machine.
package struct TakeConversion: Sendable {
  package let pipeline: Pipeline
  package let tool: ToolIdentity
  package var context: RunContext
  /// The digest of the steps and options that the pipeline applies to takes.
  let digest: String
  /// The digest of the whole pipeline.
  let pipelineDigest: String

  package init(pipeline: Pipeline, tool: ToolIdentity, context: RunContext) {
    (self.pipeline, self.tool, self.context) = (pipeline, tool, context)
    (digest, pipelineDigest) = (pipeline.conversionDigest().description, pipeline.digest().description)
  }

  /// Whether an episode with this digest in the journal is of this pipeline: Takeset 0.3.0 kept there that of the whole pipeline.
  func isOwn(_ digest: String) -> Bool { digest == self.digest || digest == pipelineDigest }

  /// Converts a take independently of a run, into shards in `directory`. Throws `OutputFailure` when a shard cannot be written,
  /// `CancellationError` when it was cancelled; problems of the take are in the results, of which there is one for each episode.
  package func callAsFunction(
    _ task: TakeTask, in directory: String, threads: Int = 1, isCancelled: @escaping @Sendable () -> Bool = { false }
  ) throws -> [TakeResult] {
    let job = TakeJob(task: task)
    // Written by one worker, read after all have stopped.
    nonisolated(unsafe) var results: Result<[TakeResult], any Error> = .failure(CancellationError())
    Scheduler(
      jobs: [job], threads: threads,
      work: Scheduler.Work(
        open: { job in
          do {
            try list(job)
            try open(job, in: directory)
            return true
          } catch {
            results = Result { try giveUp(job, error, isCancelled: isCancelled) }
            return false
          }
        },
        finish: { job in
          results = Result {
            do { return try seal(job, isCancelled: isCancelled) } catch { return try giveUp(job, error, isCancelled: isCancelled) }
          }
        }, didStore: { _ in }, isCancelled: isCancelled)
    ).run()
    return try results.get()
  }

  // MARK: Phases, for a scheduler of many takes

  /// Lists the take's files.
  func list(_ job: TakeJob) throws {
    let reader = try job.reader ?? job.task.makeReader()
    job.reader = reader
    do {
      let inputs = try reader.inputs(of: job.task.location)
      job.inputs = inputs
      job.stamp = try inputs.stamp()
    } catch let error as FileError {
      throw error.failure()
    }
  }

  /// Opens the take and its first shard. Throws the obstacle of a take that has no episode to write.
  func open(_ job: TakeJob, in directory: String) throws {
    guard let reader = job.reader, let inputs = job.inputs else { throw CancellationError() }
    let take = Take(id: job.task.id, location: job.task.location, inputs: inputs, duplicateFolder: job.task.duplicateFolder)
    do {
      job.traces = try pipeline.open(take, with: reader, in: context)
    } catch let error as FileError {
      throw error.failure()
    }
    if let labels = LabelFile.archived(inputs) {
      for index in job.traces.indices {
        job.traces[index].episode.details[LabelDetails.archive] = labels(job.traces[index].episode.id)
      }
    }
    let obstacles = job.traces.compactMap(\.obstacle)
    // A failure of one episode is one of the take; a rejection of one leaves the others.
    if let failure = obstacles.first(where: { !($0 is Rejection) }) { throw failure }
    if job.traces.allSatisfy({ $0.parts == nil }), let obstacle = obstacles.first { throw obstacle }
    let identity = ShardIdentity(reader: type(of: reader).name, toolVersion: tool.version, pipelineDigest: digest)
    let writer = pipeline.writer
    job.directory = directory
    let episodes = job.traces.filter { $0.obstacle == nil }.map(\.episode)
    job.bytesNeeded = { episodes.reduce(0) { $0 + writer.bytesNeeded(by: $1) } }
    do {
      let shards = ShardSequence(
        episodes.map { episode in
          ShardSequence.Part(blocks: writer.blocks(episode)) {
            try writer.open(episode, identity: identity, at: directory + "/" + DatasetFiles.shard(of: episode.id.text))
          }
        })
      job.shards = shards
      try shards.begin()
    } catch let failure as TakeFailure {
      throw failure
    } catch {
      throw OutputFailure(error, writing: directory, needing: job.bytesNeeded())
    }
  }

  /// Seals the shards of a take whose rows are all stored.
  func seal(_ job: TakeJob, isCancelled: () -> Bool) throws -> [TakeResult] {
    if let failure = job.failure { throw failure }
    try finishSteps(of: job)
    try pipeline.checkStepFiles()
    try job.inputs?.finishDigests(isCancelled: isCancelled)
    try job.inputs?.checkUnchanged()
    guard !isCancelled(), let shards = job.shards else { throw CancellationError() }
    var summaries: ArraySlice<ShardSummary>
    do {
      summaries = try shards.seal()[...]
    } catch let failure as TakeFailure {
      throw failure
    } catch {
      throw OutputFailure(error, writing: job.directory, needing: job.bytesNeeded())
    }
    // What is said of the episode may read images that steps have made.
    defer { job.traces.first?.source.stepLease?.end() }
    return job.traces.map { trace in
      if let rejection = trace.obstacle { return result(job, record(job, trace, outcomeOf: rejection), trace) }
      let summary = summaries.popFirst()
      var record = TakeRecord(
        id: trace.episode.id, reader: job.task.reader.name, outcome: .written,
        findings: job.task.findings + trace.episode.findings + (summary?.findings ?? [])
          + [DepthPlausibility.finding(trace.episode), GeometryAgreement.finding(trace.episode)].compactMap(\.self))
      (record.output, record.measures) = (summary?.output, summary?.measures)
      return result(job, record, trace)
    }
  }

  /// Calls the steps in Python for the rows that nothing has asked for, and records what they say of the episode.
  private func finishSteps(of job: TakeJob) throws {
    for index in job.traces.indices where job.traces[index].obstacle == nil {
      var labels: [String: JSONValue] = [:]
      for pass in job.traces[index].episode.stepPasses {
        try pass.finish()
        labels.merge(pass.labels) { $1 }
      }
      if !labels.isEmpty { job.traces[index].episode.details[LabelDetails.steps] = .object(labels) }
    }
  }

  /// Ends a take that is not written: rejected by a rule, or failed for a reason. Rethrows errors that the take did not cause.
  func giveUp(_ job: TakeJob, _ error: any Error, isCancelled: () -> Bool) throws -> [TakeResult] {
    job.shards?.abandon()
    job.shards = nil
    if error is OutputFailure || error is CancellationError { throw error }
    // Files that are still being written may look damaged, or like files that a rule rejects.
    var error = error
    do {
      try job.inputs?.checkUnchanged()
    } catch let change as TakeFailure where change.code == .changedWhileReading {
      error = change
    } catch {
      // A file that is gone or may not be read ends the take for the reason that it has already.
    }
    do {
      try job.inputs?.finishDigests(isCancelled: isCancelled)
    } catch let error as CancellationError {
      throw error
    } catch {
      // A file that cannot be read is not among the inputs of the record.
    }
    let trace = job.traces.first?.beforeSplit
    return [result(job, record(job, trace, outcomeOf: error), trace)]
  }

  /// The record of an episode that is not written.
  private func record(_ job: TakeJob, _ trace: TakeTrace?, outcomeOf error: any Error) -> TakeRecord {
    // An error that is neither a rejection nor a failure of the take is a bug in Takeset, and the take's record reports it.
    let failure = error as? TakeFailure ?? TakeFailure(.internal, "\(error)")
    let rejection = error as? Rejection
    var record = TakeRecord(
      id: trace?.episode.id ?? EpisodeID(take: job.task.id), reader: job.task.reader.name, outcome: rejection == nil ? .failed : .rejected,
      reason: rejection?.reason ?? failure.description,
      findings: job.task.findings + (trace?.episode.findings ?? []) + (rejection == nil ? [failure.finding] : []))
    record.variant = rejection?.variant
    return record
  }

  private func result(_ job: TakeJob, _ record: TakeRecord, _ trace: TakeTrace?) -> TakeResult {
    var record = record
    if let trace { record.add(trace) }
    if let inputs = job.inputs {
      // A take of many episodes shares one list, which can be long.
      let files = job.files ?? TakeRecord.inputs(inputs)
      job.files = files
      (record.inputs, record.inputDigest) = (files, inputs.digest)
    }
    let elapsed = job.startedAt.duration(to: .now)
    let seconds = Double(elapsed.components.seconds) + Double(elapsed.components.attoseconds / 1_000_000_000_000_000) / 1000
    let episode = trace?.episode
    // A take of many episodes shows one recording.
    if job.recording == nil, let trace { job.recording = RecordingDigest.word(for: trace.source) }
    // Frames of the take, and repeats from before it was split, count for its first episode only.
    let isFirst = (episode?.id.part ?? 0) == 0
    return TakeResult(
      record: record, stamp: job.stamp?.description, origin: trace.map { TakeOrigin($0.source) }, recording: job.recording,
      keys: episode?.dependsOnKeys == true ? Self.keysWord(context) : nil, seconds: seconds, parts: trace?.parts,
      framesIn: isFirst ? record.framesIn : 0,
      framesRepeated: (episode?.repeated ?? 0) - (isFirst ? 0 : trace?.repeatedBeforeSplit ?? 0),
      said: trace?.source.stepLease?.takeSaid())
  }

  /// The digest of a run's keys file, as the journal records it.
  static func keysWord(_ context: RunContext) -> String { context.keys?.digest.description ?? "none" }
}
