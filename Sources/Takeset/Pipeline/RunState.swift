import Foundation
import Synchronization

/// What a run does for each take, and what it has done so far. Used by all workers.
final class RunState: Sendable {
  private struct Counts {
    var summary = Run.Summary()
    var outputFailure: OutputFailure?
    var isStopped = false
    var hasChanged = false
  }

  private let run: Run
  private let directory: String
  private let journal: Journal
  private let digest: String
  private let earlier: [String: Journal.Head]
  private let report: @Sendable (Run.Event) -> Void
  private let counts = Mutex(Counts())

  init(
    run: Run, directory: String, journal: Journal, digest: String, report: @escaping @Sendable (Run.Event) -> Void
  ) {
    self.run = run
    self.directory = directory
    self.journal = journal
    self.digest = digest
    self.report = report
    earlier = journal.heads
  }

  var summary: Run.Summary { counts.withLock(\.summary) }
  var outputFailure: OutputFailure? { counts.withLock(\.outputFailure) }
  /// A failure has ended the run; sealed takes stay.
  var isStopped: Bool { counts.withLock(\.isStopped) }
  var hasChanged: Bool { counts.withLock(\.hasChanged) }

  /// Ids of the takes that this run found, and of inputs that never gave a take.
  func seen(_ search: TakeSearch) -> Set<String> {
    Set(search.found.map(\.id) + search.missed.map(\.id).filter { earlier[$0]?.reader == nil })
  }

  // MARK: Opening

  /// Opens a take and its shard; false when there is nothing to write, because it is there already or cannot be had.
  func open(_ job: TakeJob) -> Bool {
    do {
      let reader = job.take.reader
      let inputs = try reader.inputs(of: job.take.location)
      job.inputs = inputs
      let stamp = try inputs.stamp()
      job.stamp = stamp
      if try isUpToDate(job, inputs, stamp) { return false }
      var take = Take(id: job.take.id, location: job.take.location, inputs: inputs, twin: job.take.twin)
      take.keys = run.keys
      let passage = try run.pipeline.open(take, with: reader, passage: &job.passage)
      let identity = ShardIdentity(
        reader: type(of: reader).name, toolVersion: run.tool.version, pipelineDigest: digest)
      do {
        job.shard = try run.pipeline.writer.open(passage.episode, identity: identity, at: shardPath(job.take.id))
      } catch let failure as TakeFailure {
        throw failure
      } catch {
        throw OutputFailure(error, writing: shardPath(job.take.id))
      }
      return true
    } catch {
      end(job, with: error)
      return false
    }
  }

  private func shardPath(_ id: String) -> String { directory + "/" + DatasetIndex.shardPath(id) }

  /// True when this take was made by this pipeline and version from these very inputs, and its shard is untouched.
  private func isUpToDate(_ job: TakeJob, _ inputs: TakeInputs, _ stamp: Digest) throws -> Bool {
    guard var head = earlier[job.take.id], head.pipeline == digest, head.toolVersion == run.tool.version,
      head.reader == type(of: job.take.reader).name, head.outcome != .failed, head.keys == keysDigest(for: job.take.reader),
      // Whether it is the same as the folder beside it has to be seen anew.
      job.take.twin == nil, !head.hadTwin
    else { return false }
    let shard = Self.stamp(of: shardPath(head.id))
    if head.outcome == .written, head.shard != shard {
      // A copied dataset has other times and inodes but the same bytes.
      let recorded = try JSONReader(journal.record(of: head.id)).value()["output"]?["sha256"]?.string
      guard let found = try? SealedFile.digest(of: shardPath(head.id)).digest, found.description == recorded else {
        report(.log("\(head.id): its shard was changed or removed and is made anew"))
        return false
      }
    }
    if head.stamp != stamp.description || run.checksContent {
      try inputs.finishDigests()
      guard head.inputDigest == inputs.digest.description else {
        report(.log("\(head.id): its inputs have changed and it is made anew"))
        return false
      }
    }
    if head.stamp != stamp.description || head.location != job.take.location.path || head.shard != shard {
      // Touched or moved, but the same: the next run need not read it again.
      head.shard = shard
      head.stamp = stamp.description
      head.location = job.take.location.path
      try append(head, journal.record(of: head.id))
    }
    counts.withLock {
      $0.summary.unchanged += 1
      $0.summary.rows += head.framesOut
    }
    return true
  }

  /// The keys that a take of this reader is checked against.
  private func keysDigest(for reader: (any Reader)?) -> String? {
    reader is RealityCamBundle && run.pipeline.transforms.contains { $0 is VerifyHashChain } ? run.keys?.digest.description : nil
  }

  private static func stamp(of path: String) -> String? {
    try? FileStamp.of(path).description
  }

  // MARK: Finishing

  /// Seals a take whose rows are all stored, or gives it up.
  func finish(_ job: TakeJob, isCancelled: () -> Bool) {
    guard let shard = job.shard else { return }
    do {
      if let failure = job.failure { throw failure }
      try job.inputs?.finishDigests(isCancelled: isCancelled)
      if isCancelled() { throw CancellationError() }
      let summary: ShardSummary
      do {
        summary = try shard.seal()
      } catch let failure as TakeFailure {
        throw failure
      } catch {
        throw OutputFailure(error, writing: shardPath(job.take.id))
      }
      var record = TakeRecord(
        id: job.take.id, reader: type(of: job.take.reader).name, outcome: .written,
        findings: findings(of: job) + summary.findings, inputs: job.inputs, passage: job.passage)
      record.shard = (DatasetIndex.shardPath(job.take.id), summary)
      try finish(job, record)
    } catch {
      shard.abandon()
      end(job, with: error)
    }
    job.shard = nil
    job.passage = nil
  }

  func didStore(_ block: PreparedBlock) {
    let bytes = block.rows.reduce(0) { $0 + $1.cells.reduce(0) { $0 + $1.samples.raw.count } }
    report(.progress(rows: block.rows.count, bytes: bytes))
  }

  private func findings(of job: TakeJob) -> [Finding] { job.take.findings + (job.passage?.episode.findings ?? []) }

  /// Ends a take that is not written: rejected by a rule, failed for a reason, or interrupted with the whole run.
  private func end(_ job: TakeJob, with error: any Error) {
    switch error {
    case let failure as OutputFailure: stop(failure)
    case is CancellationError: break
    default:
      // What is not a rejection, a failure of the take or of the output is a mistake of ours, and the take's record says so.
      let failure = error as? TakeFailure ?? TakeFailure("internal", "\(error)")
      let rejection = error as? Rejection
      let isRejected = rejection != nil
      try? job.inputs?.finishDigests()
      var record = TakeRecord(
        id: job.take.id, reader: type(of: job.take.reader).name, outcome: isRejected ? .rejected : .failed,
        reason: isRejected ? "\(error)" : failure.description,
        findings: findings(of: job) + (isRejected ? [] : [failure.finding]), inputs: job.inputs, passage: job.passage)
      record.variant = record.variant ?? rejection?.variant
      do {
        try finish(job, record)
      } catch {
        stop(error as? OutputFailure ?? OutputFailure(error, writing: journal.path))
      }
      if !isRejected, run.stopsAtFailure { counts.withLock { $0.isStopped = true } }
    }
  }

  /// The entry of an input that gave no take.
  func fail(_ missed: TakeSearch.Missed) {
    if earlier[missed.id]?.reader != nil {
      // A take of that name was there once. It has vanished from the inputs, and its episode is kept.
      report(.log("\(missed.path): \(missed.failure.message); the episode that was made from it is kept"))
      return counts.withLock { $0.summary.failed += 1 }
    }
    // The record names no place outside the dataset; the log does.
    report(.log("\(missed.path): \(missed.failure.message)"))
    let record = TakeRecord(
      id: missed.id, reader: nil, outcome: .failed, reason: missed.failure.description, findings: [missed.failure.finding])
    var head = head(record, location: missed.path, seconds: 0)
    head.reader = nil
    do {
      try append(head, record.canonicalBytes)
      count(record, seconds: 0, hasChanged: earlier[missed.id].map { $0.outcome != .failed } ?? true)
    } catch {
      stop(error as? OutputFailure ?? OutputFailure(error, writing: journal.path))
    }
  }

  private func finish(_ job: TakeJob, _ record: TakeRecord) throws {
    let elapsed = job.startedAt.duration(to: .now)
    let seconds = Double(elapsed.components.seconds) + Double(elapsed.components.attoseconds / 1_000_000_000_000_000) / 1000
    var head = head(record, location: job.take.location.path, seconds: seconds)
    head.stamp = job.stamp?.description
    head.splitGroup = job.passage?.episode.splitGroup
    head.keys = keysDigest(for: job.take.reader)
    head.hadTwin = job.take.twin != nil
    if record.outcome == .written {
      head.shard = Self.stamp(of: shardPath(head.id))
    } else {
      // The manifest and the directory agree: an older shard of a take that no longer converts is not left behind.
      unlink(shardPath(head.id))
    }
    let bytes = record.canonicalBytes
    let isSame =
      try earlier[head.id].map { $0.outcome == head.outcome && head.outcome != .written } ?? false
      && journal.record(of: head.id) == bytes
    try append(head, bytes)
    count(record, seconds: seconds, hasChanged: !isSame)
  }

  private func head(_ record: TakeRecord, location: String, seconds: Double) -> Journal.Head {
    Journal.Head(
      id: record.id, location: location, pipeline: digest, toolVersion: run.tool.version, outcome: record.outcome,
      reader: record.reader, stamp: nil, inputDigest: record.inputs?.digest.description, shard: nil,
      framesIn: record.framesIn, framesOut: record.framesOut, splitGroup: nil, seconds: seconds)
  }

  private func append(_ head: Journal.Head, _ record: [UInt8]) throws {
    do {
      try journal.append(head, record: record)
    } catch {
      throw OutputFailure(error, writing: journal.path)
    }
  }

  private func count(_ record: TakeRecord, seconds: Double, hasChanged: Bool) {
    counts.withLock { counts in
      if hasChanged { counts.hasChanged = true }
      counts.summary.rows += record.framesOut
      switch record.outcome {
      case .written: counts.summary.written += 1
      case .rejected: counts.summary.rejected += 1
      case .failed: counts.summary.failed += 1
      }
    }
    report(
      .finished(
        id: record.id, outcome: record.outcome, reason: record.reason, rows: record.framesOut, seconds: seconds))
  }

  private func stop(_ failure: OutputFailure) {
    counts.withLock {
      $0.outputFailure = $0.outputFailure ?? failure
      $0.isStopped = true
    }
  }
}
