import Model
import Synchronization

/// The shards of a take's episodes, written one after the other as if they were one: a shard is opened for its first block and closed after
/// its last, so that few files are open at a time, and all are put in place together.
///
/// `@unchecked Sendable`: `state` has a lock; `summaries` are used while storing, one call at a time, and once all blocks are stored.
///
///     let shards = ShardSequence(parts)
///     let worker = shards.makeWorker()
///     for block in 0..<shards.blockCount {
///       try shards.prefetch?.fetch(block)
///       try worker.prepare(block).store()
///       shards.prefetch?.release(block)
///     }
///     let summaries = try shards.seal()
package final class ShardSequence: @unchecked Sendable {
  /// The shard of one episode, which is opened only when its first block is prepared.
  package struct Part: Sendable {
    package var blocks: RowBlocks
    /// Opens the shard.
    var open: @Sendable () throws -> any ShardWriter

    package init(blocks: RowBlocks, open: @escaping @Sendable () throws -> any ShardWriter) { (self.blocks, self.open) = (blocks, open) }
  }

  private struct State {
    var shards: [(any ShardWriter)?]
    var isAbandoned = false
  }

  package let blockCount: Int
  package let prefetch: Prefetch?
  private let parts: [Part]
  /// The number of the first block of each part.
  private let starts: [Int]
  private let state: Mutex<State>
  private var summaries: [ShardSummary?]

  package init(_ parts: [Part]) {
    self.parts = parts
    var starts: [Int] = []
    var count = 0
    for part in parts {
      starts.append(count)
      count += part.blocks.blocks.count
    }
    (self.starts, blockCount) = (starts, count)
    prefetch = Prefetch(parts.map(\.blocks))
    state = Mutex(State(shards: parts.map { _ in nil }))
    summaries = parts.map { _ in nil }
  }

  /// Opens the first shard, so that an output that cannot be written is noticed before anything is read.
  package func begin() throws { if !parts.isEmpty { _ = try shard(0) } }

  /// Makes a worker for one thread.
  package func makeWorker() -> Worker { Worker(self) }

  /// The part that has a block.
  private func part(of block: Int) -> Int { (starts.firstIndex { $0 > block } ?? starts.count) - 1 }

  private func shard(_ part: Int) throws -> any ShardWriter {
    try state.withLock { state in
      if let shard = state.shards[part] { return shard }
      if state.isAbandoned { throw CancellationError() }
      let shard = try parts[part].open()
      state.shards[part] = shard
      return shard
    }
  }

  /// Closes a part after its last block was stored.
  private func didStore(_ block: Int, of part: Int) throws {
    if block - starts[part] == parts[part].blocks.blocks.count - 1 { try close(part) }
  }

  private func close(_ part: Int) throws { summaries[part] = try shard(part).close() }

  /// Closes what is left, and puts every shard in place.
  package func seal() throws -> [ShardSummary] {
    for part in parts.indices where summaries[part] == nil { try close(part) }
    for part in parts.indices { try shard(part).publish() }
    return summaries.compactMap(\.self)
  }

  /// Removes the unfinished files.
  package func abandon() {
    state.withLock { state in
      state.isAbandoned = true
      state.shards.forEach { $0?.abandon() }
    }
  }

  /// Prepares blocks of any part on one thread.
  package final class Worker {
    private let sequence: ShardSequence
    private var current: (part: Int, worker: any ShardWorker)?

    init(_ sequence: ShardSequence) { self.sequence = sequence }

    /// Prepares a block, numbered across all shards. Throws `CancellationError` once the sequence was abandoned.
    package func prepare(_ block: Int) throws -> PreparedBlock {
      let part = sequence.part(of: block)
      var worker = current.flatMap { $0.part == part ? $0.worker : nil }
      if worker == nil { worker = try sequence.shard(part).makeWorker() }
      guard let worker else { throw CancellationError() }
      current = (part, worker)
      var prepared = try worker.prepare(block - sequence.starts[part])
      let store = prepared.store
      let sequence = sequence
      prepared.store = {
        try store()
        try sequence.didStore(block, of: part)
      }
      return prepared
    }
  }
}
