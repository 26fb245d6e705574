import Foundation
package import Model

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

  package struct ReaderChoice: Codable, Sendable {
    package var name: String
    package var options: JSONValue
  }

  package init(id: String, location: TakeLocation, reader: any Reader, duplicateFolder: TakeLocation? = nil, findings: [Finding] = []) {
    (self.id, self.location, self.duplicateFolder, self.findings) = (id, location, duplicateFolder, findings)
    self.reader = ReaderChoice(name: type(of: reader).name, options: reader.optionValues())
  }

  /// The reader that the task names. Throws `PipelineFileError` if this version does not have it.
  func makeReader() throws -> any Reader { try PipelineFile.reader(reader.name, options: reader.options) }
}

/// The result of a task.
package struct TakeResult: Codable, Sendable {
  package var record: TakeRecord
  /// Digest of the inputs' paths, sizes, times and inodes.
  package var stamp: String?
  package var splitGroup: String?
  /// Digest of the keys file, as in the journal.
  package var keys: String?
  package var seconds: Double
}

/// The conversion of one take into one shard, identical in the threads of a run, in a process of its own and on another machine.
package struct TakeConversion: Sendable {
  package let pipeline: Pipeline
  package let tool: ToolIdentity
  package let context: RunContext
  /// The pipeline's digest.
  let digest: String

  package init(pipeline: Pipeline, tool: ToolIdentity, context: RunContext) {
    (self.pipeline, self.tool, self.context) = (pipeline, tool, context)
    digest = pipeline.digest().description
  }

  /// Converts a take independently of a run. Throws `OutputFailure` when the shard cannot be written, `CancellationError` when it was
  /// cancelled; problems of the take are in the result.
  package func callAsFunction(
    _ task: TakeTask, to path: String, threads: Int = 1, isCancelled: @escaping @Sendable () -> Bool = { false }
  ) throws -> TakeResult {
    let job = TakeJob(task: task)
    // Written by one worker, read after all have stopped.
    nonisolated(unsafe) var result: Result<TakeResult, any Error> = .failure(CancellationError())
    Scheduler(
      jobs: [job], threads: threads,
      work: Scheduler.Work(
        open: { job in
          do {
            try list(job)
            try open(job, at: path)
            return true
          } catch {
            result = Result { try giveUp(job, error) }
            return false
          }
        },
        finish: { job in
          result = Result {
            do { return try seal(job, isCancelled: isCancelled) } catch { return try giveUp(job, error) }
          }
        }, didStore: { _ in }, isCancelled: isCancelled)
    ).run()
    return try result.get()
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

  /// Opens the take and its shard.
  func open(_ job: TakeJob, at path: String) throws {
    guard let reader = job.reader, let inputs = job.inputs else { throw CancellationError() }
    let take = Take(id: job.task.id, location: job.task.location, inputs: inputs, duplicateFolder: job.task.duplicateFolder)
    let trace: TakeTrace
    do {
      trace = try pipeline.open(take, with: reader, in: context)
    } catch let error as FileError {
      throw error.failure()
    }
    job.trace = trace
    let episode = try trace.get()
    let identity = ShardIdentity(reader: type(of: reader).name, toolVersion: tool.version, pipelineDigest: digest)
    do {
      job.shard = try pipeline.writer.open(episode, identity: identity, at: path)
    } catch let failure as TakeFailure {
      throw failure
    } catch {
      throw OutputFailure(error, writing: path)
    }
    job.path = path
  }

  /// Seals the shard of a take whose rows are all stored.
  func seal(_ job: TakeJob, isCancelled: () -> Bool) throws -> TakeResult {
    if let failure = job.failure { throw failure }
    try job.inputs?.finishDigests(isCancelled: isCancelled)
    try job.inputs?.checkUnchanged()
    guard !isCancelled(), let shard = job.shard else { throw CancellationError() }
    let summary: ShardSummary
    do {
      summary = try shard.seal()
    } catch let failure as TakeFailure {
      throw failure
    } catch {
      throw OutputFailure(error, writing: job.path)
    }
    var record = TakeRecord(
      id: job.task.id, reader: job.task.reader.name, outcome: .written, findings: findings(of: job) + summary.findings)
    record.output = summary.output
    return result(job, record)
  }

  /// Ends a take that is not written: rejected by a rule, or failed for a reason. Rethrows errors that the take did not cause.
  func giveUp(_ job: TakeJob, _ error: any Error) throws -> TakeResult {
    job.shard?.abandon()
    job.shard = nil
    if error is OutputFailure || error is CancellationError { throw error }
    // Files that are still being written may look damaged, or like files that a rule rejects.
    var error = error
    do { try job.inputs?.checkUnchanged() } catch let change as TakeFailure where change.code == .changedWhileReading {
      error = change
    } catch {}
    // An error that is neither a rejection nor a failure of the take is a bug in Takeset, and the take's record reports it.
    let failure = error as? TakeFailure ?? TakeFailure(.internal, "\(error)")
    let rejection = error as? Rejection
    try? job.inputs?.finishDigests()
    var record = TakeRecord(
      id: job.task.id, reader: job.task.reader.name, outcome: rejection == nil ? .failed : .rejected,
      reason: rejection?.reason ?? failure.description,
      findings: findings(of: job) + (rejection == nil ? [failure.finding] : []))
    record.variant = rejection?.variant
    return result(job, record)
  }

  private func findings(of job: TakeJob) -> [Finding] { job.task.findings + (job.trace?.episode.findings ?? []) }

  private func result(_ job: TakeJob, _ record: TakeRecord) -> TakeResult {
    var record = record
    if let trace = job.trace { record.add(trace) }
    if let inputs = job.inputs { record.add(inputs) }
    let elapsed = job.startedAt.duration(to: .now)
    let seconds = Double(elapsed.components.seconds) + Double(elapsed.components.attoseconds / 1_000_000_000_000_000) / 1000
    return TakeResult(
      record: record, stamp: job.stamp?.description, splitGroup: job.trace?.episode.splitGroup,
      keys: job.trace?.episode.dependsOnKeys == true ? Self.keysWord(context) : nil, seconds: seconds)
  }

  /// The digest of a run's keys file, as the journal records it.
  static func keysWord(_ context: RunContext) -> String { context.keys?.digest.description ?? "none" }
}
