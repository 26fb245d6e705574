import Datasets
import Foundation
import Steps
import Synchronization

/// The results of a run so far: appends them to the journal, counts them and reports events. Shared by all workers.
final class RunResults: Sendable {
  private struct Counts {
    var summary = Run.Summary()
    var outputFailure: OutputFailure?
    var isStopped = false
    var hasChanged = false
    /// Ids of episodes that their take no longer has.
    var obsolete: Set<String> = []
  }

  private let journal: Journal
  private let earlier: [String: Journal.Entry]
  /// The entries of each take, from before the run.
  let earlierByTake: [String: [Journal.Entry]]
  private let conversion: TakeConversion
  private let directory: String
  private let stopsAtFailure: Bool
  private let countsEarlierWarnings: Bool
  private let report: @Sendable (Run.Event) -> Void
  private let counts = Mutex(Counts())

  init(
    _ journal: Journal, _ conversion: TakeConversion, directory: String, stopsAtFailure: Bool, countsEarlierWarnings: Bool,
    report: @escaping @Sendable (Run.Event) -> Void
  ) {
    (self.journal, self.conversion, self.directory, self.stopsAtFailure) = (journal, conversion, directory, stopsAtFailure)
    (self.countsEarlierWarnings, self.report) = (countsEarlierWarnings, report)
    earlier = journal.entries
    earlierByTake = Dictionary(grouping: earlier.values, by: \.id.take)
  }

  var summary: Run.Summary { counts.withLock(\.summary) }
  var outputFailure: OutputFailure? { counts.withLock(\.outputFailure) }
  /// Whether a failure has ended the run; sealed takes stay.
  var isStopped: Bool { counts.withLock(\.isStopped) }
  var hasChanged: Bool { counts.withLock(\.hasChanged) }

  /// Ids of episodes in the journal that their take no longer has.
  var obsolete: Set<String> { counts.withLock(\.obsolete) }

  /// Ids of the takes that this run found, of those where it could not look, and of unmatched inputs that never held a take.
  func seen(_ search: TakeSearch) -> Set<String> {
    let unreachable = search.unmatched.filter { $0.failure.isOfMachine }.map(\.path)
    let hidden = earlier.values.filter { entry in
      unreachable.contains { entry.location == $0 || entry.location.hasPrefix($0 + "/") }
    }
    let others = search.unmatched.map(\.id).filter { earlier[$0]?.reader == nil }
    return Set(search.found.map(\.id) + hidden.map(\.id.take) + others)
  }

  func start(_ id: String) { report(.started(id: id)) }

  /// Records a take that the dataset already holds.
  func keep(_ entries: [Journal.Entry]) {
    report(.unchanged(id: entries.first?.id.take ?? ""))
    // A record that cannot be read stops the publication.
    let warnings =
      countsEarlierWarnings ? entries.count { (try? TakeRecord(json: journal.record(of: $0.id.text)))?.hasWarnings ?? false } : 0
    counts.withLock {
      $0.summary.withWarnings += warnings
      $0.summary.unchanged += 1
      $0.summary.rows += entries.reduce(0) { $0 + $1.framesOut }
    }
  }

  /// Counts a take as failed that should have been converted again, but whose episodes stay.
  func keep(_ take: String, despite reason: String) {
    report(.log("\(take): \(reason)"))
    counts.withLock {
      $0.summary.failed += 1
      if stopsAtFailure { $0.isStopped = true }
    }
  }

  func log(_ line: String) { report(.log(line)) }

  func didStore(_ block: PreparedBlock) { report(.progress(rows: block.rows, bytes: block.bytes)) }

  /// Reports the rows of a take that a child process has stored.
  func didConvert(_ results: [TakeResult]) {
    let rows = results.reduce(0) { $0 + $1.record.framesOut }
    report(.progress(rows: rows, bytes: Int(clamping: results.reduce(0) { $0 + ($1.record.output?.bytes ?? 0) })))
  }

  /// Records the results of a take, or an error that no take caused.
  func finish(_ job: TakeJob, _ results: Result<[TakeResult], any Error>) {
    do {
      let results = try results.get()
      if let failure = results.first(where: { $0.record.isUnreadable })?.record, hasSound(job.task.id) {
        // What is safe stays: the next run may be able to read the inputs again.
        return keep(job.task.id, despite: "\(failure.reason ?? "its files cannot be read"); its existing episode is kept")
      }
      for (index, result) in results.enumerated() {
        if let said = result.said { report(.said(id: result.record.id.text, text: said)) }
        try add(result, of: job.task, isLast: index == results.count - 1)
      }
      // Episodes that an earlier conversion of the take had, and this one has not.
      let gone = Set(earlierByTake[job.task.id, default: []].map(\.id.text)).subtracting(results.map(\.record.id.text))
      if !gone.isEmpty {
        counts.withLock {
          $0.obsolete.formUnion(gone)
          $0.hasChanged = true
        }
      }
      if results.contains(where: { $0.record.outcome == .failed }), stopsAtFailure { counts.withLock { $0.isStopped = true } }
    } catch is CancellationError {
      return
    } catch {
      stop(OutputFailure(error, writing: journal.path))
    }
  }

  /// Whether all episodes of a take are in the dataset, as this pipeline and an earlier run have written them.
  private func hasSound(_ take: String) -> Bool {
    let entries = earlierByTake[take] ?? []
    return entries.contains { $0.outcome == .written }
      && entries.allSatisfy { entry in
        conversion.isOwn(entry.pipeline)
          && (entry.outcome != .written
            || entry.shard != nil && entry.shard == UpToDateCheck.stamp(of: directory + "/" + DatasetFiles.shard(of: entry.id.text)))
      }
  }

  private func add(_ result: TakeResult, of task: TakeTask, isLast: Bool) throws {
    let record = result.record
    let shard = directory + "/" + DatasetFiles.shard(of: record.id.text)
    var entry = Journal.Entry(.init(result, of: task, conversion))
    if record.outcome == .written { entry.shard = UpToDateCheck.stamp(of: shard) }
    let bytes = record.canonicalBytes
    let isSame =
      try earlier[entry.id.text].map { $0.outcome == entry.outcome && entry.outcome != .written } ?? false
      && journal.record(of: entry.id.text) == bytes
    try append(entry, bytes)
    // The journal records first that the take has no shard; then its older shard is removed.
    if record.outcome != .written { unlink(shard) }
    count(record, seconds: result.seconds, hasChanged: !isSame, isLast: isLast)
  }

  /// Records an unmatched input as failed.
  func fail(_ input: TakeSearch.Unmatched) {
    if earlier[input.id]?.reader != nil {
      // A take with that id existed once. It has vanished from the inputs, and its episode is kept.
      report(.log("\(input.path.onOneLine): \(input.failure.message); its existing episode is kept"))
      return counts.withLock { $0.summary.failed += 1 }
    }
    // The record names no path outside the dataset; the log does.
    report(.log("\(input.path.onOneLine): \(input.failure.message)"))
    let record = input.record
    do {
      try append(Journal.Entry(.init(record, location: input.path, conversion)), record.canonicalBytes)
      count(record, seconds: 0, hasChanged: earlier[input.id].map { $0.outcome != .failed } ?? true)
    } catch {
      stop(OutputFailure(error, writing: journal.path))
    }
  }

  private func append(_ entry: Journal.Entry, _ record: [UInt8]) throws {
    do {
      try journal.append(entry, record: record)
    } catch {
      throw OutputFailure(error, writing: journal.path, needing: 1000 + Double(record.count))
    }
  }

  private func count(_ record: TakeRecord, seconds: Double, hasChanged: Bool, isLast: Bool = true) {
    counts.withLock { counts in
      if hasChanged { counts.hasChanged = true }
      counts.summary.rows += record.framesOut
      switch record.outcome {
      case .written:
        counts.summary.written += 1
        if record.hasWarnings { counts.summary.withWarnings += 1 }
      case .rejected: counts.summary.rejected += 1
      case .failed: counts.summary.failed += 1
      }
    }
    report(
      .finished(
        id: record.id.text, take: record.id.take, outcome: record.outcome, reason: record.reason, findings: record.findings,
        rows: record.framesOut, seconds: seconds, endsTake: isLast))
  }

  func stop(_ failure: OutputFailure) {
    counts.withLock {
      $0.outputFailure = $0.outputFailure ?? failure
      $0.isStopped = true
    }
  }
}
