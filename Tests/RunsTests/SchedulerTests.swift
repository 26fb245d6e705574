import Evidence
import Foundation
import Model
import Synchronization
import Testing
import TestSupport

@testable import Datasets
@testable import Readers
@testable import Runs
@testable import Steps

/// A shard of numbered blocks that remembers in which order they were prepared and stored.
private final class NumberedShard: ShardWriter {
  let blockCount: Int
  let failing: Set<Int>
  private let storedBlocks = Mutex<[Int]>([])
  private let preparedBlocks = Mutex<[Int]>([])
  private let most = Mutex(0)
  /// How many blocks the farthest one that was prepared was ahead of those that were stored.
  var mostAhead: Int { most.withLock(\.self) }
  var stored: [Int] { storedBlocks.withLock(\.self) }
  var prepared: [Int] { preparedBlocks.withLock(\.self) }

  init(_ count: Int, failing: Set<Int> = []) { (blockCount, self.failing) = (count, failing) }

  func makeWorker() throws -> any ShardWorker { Worker(self) }
  func abandon() {}
  func publish() {}
  func close() throws -> ShardSummary {
    let output = OutputRecord(
      path: "", bytes: 0, samples: blockCount, arrays: [], structureDigest: Digest.of(""), attributesDigest: Digest.of(""))
    return ShardSummary(output: output, findings: [], measures: Measures())
  }

  /// The shard as the only one of its take.
  var sequence: ShardSequence {
    ShardSequence([ShardSequence.Part(blocks: RowBlocks(blocks: (0..<blockCount).map { $0..<($0 + 1) })) { self }])
  }

  private final class Worker: ShardWorker {
    let shard: NumberedShard
    private var isBusy = false
    init(_ shard: NumberedShard) { self.shard = shard }

    func prepare(_ block: Int) throws -> PreparedBlock {
      #expect(!isBusy, "a worker serves one thread")
      isBusy = true
      defer { isBusy = false }
      let ahead = block - shard.stored.count
      shard.most.withLock { $0 = max($0, ahead) }
      // Later blocks are ready sooner.
      usleep(UInt32(200 * (block % 3 == 0 ? 5 : 1)))
      shard.preparedBlocks.withLock { $0.append(block) }
      if shard.failing.contains(block) { throw TakeFailure(.movieCorrupt, "block \(block)") }
      return PreparedBlock(rows: 1, bytes: 10) { [shard] in shard.storedBlocks.withLock { $0.append(block) } }
    }
  }
}

@Suite struct SchedulerTests {
  private func job(_ id: String) -> TakeJob {
    TakeJob(task: TakeTask(id: id, location: TakeLocation(path: "/" + id, isDirectory: false), reader: SlowMotionVideo()))
  }

  /// Runs takes over shards of their own, and gives the ids in the order in which they were finished, with their failures.
  private func run(
    _ shards: [NumberedShard], threads: Int, isCancelled: @escaping @Sendable () -> Bool = { false }
  ) -> (finished: [String], failures: [String: String], blocks: Int, mostOpen: Int) {
    let jobs = shards.indices.map { job("take\($0)") }
    let finished = Mutex<[String]>([]), failures = Mutex<[String: String]>([:]), blocks = Mutex(0), open = Mutex((now: 0, most: 0))
    let byID = Dictionary(uniqueKeysWithValues: zip(jobs.map(\.task.id), shards))
    Scheduler(
      jobs: jobs, threads: threads,
      work: Scheduler.Work(
        open: { job in
          open.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
          job.shards = byID[job.task.id]?.sequence
          return true
        },
        finish: { job in
          open.withLock { $0.now -= 1 }
          finished.withLock { $0.append(job.task.id) }
          if let failure = job.failure { failures.withLock { $0[job.task.id] = "\(failure)" } }
        },
        didStore: { block in blocks.withLock { $0 += block.rows } }, isCancelled: isCancelled)
    ).run()
    return (finished.withLock(\.self), failures.withLock(\.self), blocks.withLock(\.self), open.withLock(\.most))
  }

  @Test(arguments: [1, 2, 5]) func blocksAreStoredInOrderWhateverTheThreads(threads: Int) {
    let shards = [17, 0, 3, 40].map { NumberedShard($0) }
    let result = run(shards, threads: threads)
    for shard in shards { #expect(shard.stored == Array(0..<shard.blockCount)) }
    #expect(Set(result.finished) == ["take0", "take1", "take2", "take3"] && result.finished.count == 4)
    #expect(result.blocks == 60 && result.failures.isEmpty)
    #expect(result.mostOpen <= threads)
  }

  /// The second failing block may be ready first.
  @Test(arguments: [1, 2, 5]) func theFirstFailureInOrderCounts(threads: Int) {
    let shard = NumberedShard(30, failing: [6, 7, 8])
    let other = NumberedShard(5)
    let result = run([shard, other], threads: threads)
    #expect(result.failures == ["take0": "block 6"])
    #expect(shard.stored == Array(0..<6))
    #expect(other.stored == Array(0..<5))
  }

  @Test func noMoreBlocksAreAheadThanTheWindow() {
    let shard = NumberedShard(100)
    #expect(run([shard], threads: 3).blocks == 100)
    #expect((1...3).contains(shard.mostAhead))
  }

  /// A take that is done is gone, and the next one may be in its place in memory.
  @Test func takesThatAreMadeOneByOneNeverShareAWorker() {
    let shards = (0..<300).map { NumberedShard($0 % 4) }
    Scheduler(
      jobs: shards.indices.lazy.map { job("\($0)") }, threads: 4,
      work: Scheduler.Work(
        open: { job in
          job.shards = Int(job.task.id).map { shards[$0].sequence }
          return true
        }, finish: { job in #expect(job.failure == nil) }, didStore: { _ in }, isCancelled: { false })
    ).run()
    for shard in shards { #expect(shard.stored == Array(0..<shard.blockCount) && shard.prepared.sorted() == shard.stored) }
  }

  @Test func aCancelledRunStartsNoMoreTakes() {
    let shards = (0..<20).map { _ in NumberedShard(4) }
    let result = run(shards, threads: 1, isCancelled: { shards[2].stored.count >= 2 })
    #expect(result.finished == ["take0", "take1", "take2"])
    #expect(shards[3].prepared.isEmpty)
  }
}
