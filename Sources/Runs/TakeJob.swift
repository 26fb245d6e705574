import Datasets
import Evidence
import Model
import Steps

/// One take and its progress through a run. The scheduler's lock guards all mutable state, except what a phase gives to the one
/// worker that entered it.
///
/// `@unchecked Sendable`: the scheduler's lock guards it.
final class TakeJob: @unchecked Sendable {
  enum Phase { case waiting, opening, writing, finishing, done }

  /// A unit of work for this take.
  enum Task {
    case open
    case prepare(block: Int)
    case finish
  }

  let task: TakeTask
  var phase = Phase.waiting
  var startedAt = ContinuousClock.now

  // Set by `TakeConversion` as it proceeds.
  var reader: (any Reader)?
  var inputs: TakeInputs?
  var stamp: Digest?
  /// One for each episode; empty until the take is open.
  var traces: [TakeTrace] = []
  /// The shards of the episodes that are written.
  var shards: ShardSequence?
  /// The files of the take with their digests, once they are all read.
  var files: [TakeRecord.Input]?
  /// The word for the poses of the take.
  var recording: String?
  /// The directory that shards are written to.
  var directory = ""
  /// The bytes, at most, of the shards; called when they cannot be written.
  var bytesNeeded: () -> Double? = { nil }
  /// The error that ended the take early.
  var failure: (any Error)?

  private var nextBlock = 0
  private var inFlight = 0
  private(set) var stored = 0
  private var ready: [Int: Result<PreparedBlock, any Error>] = [:]
  private var isStoring = false
  private var isFetching = false

  init(task: TakeTask, reader: (any Reader)? = nil) { (self.task, self.reader) = (task, reader) }

  /// The next task, if one is available now; called under the lock.
  func claim(window: Int, isCancelled: Bool) -> Task? {
    switch phase {
    case .waiting:
      if isCancelled { return nil }
      phase = .opening
      startedAt = .now
      return .open
    case .writing:
      let blocks = shards?.blockCount ?? 0
      let isOver = failure != nil || isCancelled || stored == blocks
      if isOver {
        guard inFlight == 0, !isStoring else { return nil }
        phase = .finishing
        return .finish
      }
      guard nextBlock < blocks, nextBlock < stored + window, !isFetching else { return nil }
      defer { nextBlock += 1 }
      isFetching = shards?.prefetch != nil
      inFlight += 1
      return .prepare(block: nextBlock)
    case .opening, .finishing, .done: return nil
    }
  }

  /// Allows the next block to be fetched; called under the lock.
  func didFetch() { isFetching = false }

  /// Adds a prepared block; called under the lock.
  ///
  /// A failed block waits in order, too: of several failures the first in order counts, regardless of timing.
  func add(_ result: Result<PreparedBlock, any Error>, block: Int) {
    inFlight -= 1
    ready[block] = result
  }

  /// The next block in order for the caller to store, unless another worker is storing; called under the lock.
  func takeReady() -> Result<PreparedBlock, any Error>? {
    guard !isStoring, failure == nil, let block = ready.removeValue(forKey: stored) else { return nil }
    isStoring = true
    return block
  }

  /// Records that a block was stored, or failed to be; called under the lock.
  func didStore(_ result: Result<Void, any Error>) {
    isStoring = false
    switch result {
    case .success: stored += 1
    case .failure(let error): failure = failure ?? error
    }
  }

  /// Releases everything that was needed to convert the take; called under the lock.
  func release() {
    phase = .done
    (inputs, traces, shards, files) = (nil, [], nil, nil)
    bytesNeeded = { nil }
    ready = [:]
  }
}
