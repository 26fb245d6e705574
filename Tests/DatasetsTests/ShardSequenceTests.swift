import Evidence
import Foundation
import Model
import Synchronization
import Testing

@testable import Datasets
@testable import Readers
@testable import Runs
@testable import Steps

/// What happened to several shards, in order.
private final class Log: Sendable {
  private let entries = Mutex<[String]>([])
  var all: [String] { entries.withLock(\.self) }
  func add(_ entry: String) { entries.withLock { $0.append(entry) } }
  /// The entries since the last call.
  func taken() -> [String] {
    entries.withLock { entries in
      defer { entries = [] }
      return entries
    }
  }
}

/// A shard that logs what is asked of it.
private final class LoggingShard: ShardWriter {
  private struct Failure: Error {}
  private let name: String
  private let log: Log
  private let failsToClose: Bool

  init(_ name: String, _ log: Log, failsToClose: Bool) { (self.name, self.log, self.failsToClose) = (name, log, failsToClose) }

  func makeWorker() throws -> any ShardWorker {
    log.add("worker \(name)")
    return Worker(name, log)
  }

  func close() throws -> ShardSummary {
    log.add("close \(name)")
    if failsToClose { throw Failure() }
    let output = OutputRecord(path: name, bytes: 0, samples: 0, arrays: [], structureDigest: Digest.of(""), attributesDigest: Digest.of(""))
    return ShardSummary(output: output, findings: [], measures: Measures())
  }
  func publish() { log.add("publish \(name)") }
  func abandon() { log.add("abandon \(name)") }

  private final class Worker: ShardWorker {
    private let name: String
    private let log: Log
    init(_ name: String, _ log: Log) { (self.name, self.log) = (name, log) }
    func prepare(_ block: Int) throws -> PreparedBlock {
      log.add("prepare \(name)\(block)")
      return PreparedBlock(rows: 1, bytes: 2) { [name, log] in
        if name == "x", block == 1 { throw Failure() }
        log.add("store \(name)\(block)")
      }
    }
  }
}

@Suite struct ShardSequenceTests {
  private let log = Log()

  private struct NoFile: Error {}

  /// Parts named a, b, c and so on, with these numbers of blocks.
  private func sequence(_ counts: [Int], failsToOpen: String = "", failsToClose: String = "") -> ShardSequence {
    let names = counts.indices.map { String(UnicodeScalar(UInt8(97 + $0))) }
    return ShardSequence(
      zip(names, counts).map { [log] name, count in
        ShardSequence.Part(blocks: RowBlocks(blocks: (0..<count).map { $0..<($0 + 1) })) {
          if name == failsToOpen { throw NoFile() }
          log.add("open \(name)")
          return LoggingShard(name, log, failsToClose: name == failsToClose)
        }
      })
  }

  private func write(_ sequence: ShardSequence, blocks: Range<Int>? = nil) throws {
    let worker = sequence.makeWorker()
    for block in blocks ?? 0..<sequence.blockCount { try worker.prepare(block).store() }
  }

  @Test func aShardIsOpenedForItsFirstBlockAndClosedAfterItsLast() throws {
    let sequence = sequence([2, 1, 2])
    #expect(sequence.blockCount == 5 && log.taken() == [])
    try sequence.begin()
    #expect(log.taken() == ["open a"])
    let worker = sequence.makeWorker()
    #expect(log.taken() == [])
    try worker.prepare(0).store()
    #expect(log.taken() == ["worker a", "prepare a0", "store a0"])
    try worker.prepare(1).store()
    #expect(log.taken() == ["prepare a1", "store a1", "close a"])
    try worker.prepare(2).store()
    #expect(log.taken() == ["open b", "worker b", "prepare b0", "store b0", "close b"])
    try worker.prepare(3).store()
    try worker.prepare(4).store()
    #expect(log.taken() == ["open c", "worker c", "prepare c0", "store c0", "prepare c1", "store c1", "close c"])
    #expect(try sequence.seal().map(\.output.path) == ["a", "b", "c"])
    #expect(log.taken() == ["publish a", "publish b", "publish c"])
  }

  @Test func blocksPreparedEarlyCloseNothing() throws {
    let sequence = sequence([2, 2])
    let (first, second) = (sequence.makeWorker(), sequence.makeWorker())
    let blocks = try [first.prepare(0), second.prepare(1), first.prepare(2), second.prepare(3)]
    #expect(!log.taken().contains { $0.hasPrefix("close") || $0.hasPrefix("store") })
    for block in blocks { try block.store() }
    #expect(log.taken() == ["store a0", "store a1", "close a", "store b0", "store b1", "close b"])
    #expect(blocks.allSatisfy { $0.rows == 1 && $0.bytes == 2 })
  }

  @Test func aWorkerServesAShardOfWhichItHasBlocks() throws {
    let sequence = sequence([1, 1])
    let (first, second) = (sequence.makeWorker(), sequence.makeWorker())
    _ = try (first.prepare(0), second.prepare(0), first.prepare(1), first.prepare(1), first.prepare(0))
    #expect(log.taken().filter { !$0.hasPrefix("prepare") } == ["open a", "worker a", "worker a", "open b", "worker b", "worker a"])
  }

  /// Takes of vectors alone have no blocks: everything is written when the shard is closed.
  @Test(arguments: [[0], [0, 0, 0], [0, 2, 0], [1, 0, 0, 1], [0, 0, 1], [1, 0]]) func partsWithoutBlocksAreWrittenToo(counts: [Int]) throws
  {
    let sequence = sequence(counts)
    try sequence.begin()
    try write(sequence)
    let names = ["a", "b", "c", "d"].prefix(counts.count)
    #expect(try sequence.seal().map(\.output.path) == Array(names))
    let log = log.all
    for (name, count) in zip(names, counts) {
      #expect(log.filter { $0 == "open \(name)" || $0 == "close \(name)" } == ["open \(name)", "close \(name)"])
      #expect(log.count { $0.hasPrefix("store \(name)") } == count)
    }
    // All are closed before the first is put in place.
    #expect(log.suffix(counts.count) == names.map { "publish \($0)" }[...])
    #expect(log.lastIndex { $0.hasPrefix("close") } ?? 0 < log.firstIndex { $0.hasPrefix("publish") } ?? 0)
  }

  @Test func withoutPartsThereIsNothingToDo() throws {
    let sequence = sequence([])
    try sequence.begin()
    #expect(sequence.blockCount == 0 && sequence.prefetch == nil)
    #expect(try sequence.seal().isEmpty && log.all.isEmpty)
  }

  // MARK: Failures

  @Test func anOutputThatCannotBeWrittenIsNoticedAtTheStart() throws {
    #expect(throws: NoFile.self) { try sequence([1, 1], failsToOpen: "a").begin() }
    let later = sequence([1, 1], failsToOpen: "b")
    try later.begin()
    let worker = later.makeWorker()
    try worker.prepare(0).store()
    #expect(throws: NoFile.self) { try worker.prepare(1) }
    // A part without blocks is opened when the shards are sealed.
    let sealed = sequence([1, 0], failsToOpen: "b")
    try write(sealed)
    #expect(throws: NoFile.self) { try sealed.seal() }
    #expect(!log.all.contains { $0.hasPrefix("publish") })
  }

  @Test func aShardThatFailsToCloseKeepsAllFromTheirPlaces() throws {
    let sequence = sequence([1, 1], failsToClose: "b")
    let worker = sequence.makeWorker()
    try worker.prepare(0).store()
    let last = try worker.prepare(1)
    #expect(throws: (any Error).self) { try last.store() }
    #expect(log.all.suffix(2) == ["store b0", "close b"])
    sequence.abandon()
    #expect(log.all.suffix(2) == ["abandon a", "abandon b"] && !log.all.contains { $0.hasPrefix("publish") })
  }

  @Test func aBlockThatIsNotStoredClosesNothing() throws {
    let log = log
    let sequence = ShardSequence([
      ShardSequence.Part(blocks: RowBlocks(blocks: [0..<1, 1..<2])) { LoggingShard("x", log, failsToClose: false) }
    ])
    let worker = sequence.makeWorker()
    try worker.prepare(0).store()
    let block = try worker.prepare(1)
    #expect(throws: (any Error).self) { try block.store() }
    #expect(!log.all.contains("close x"))
  }

  @Test func abandoningRemovesWhatIsOpenAndOpensNoMore() throws {
    let sequence = sequence([1, 1, 1])
    try sequence.begin()
    let worker = sequence.makeWorker()
    try worker.prepare(0).store()
    _ = try worker.prepare(1)
    _ = log.taken()
    sequence.abandon()
    #expect(log.taken() == ["abandon a", "abandon b"])
    #expect(throws: CancellationError.self) { try worker.prepare(2) }
    #expect(throws: CancellationError.self) { try sequence.makeWorker().prepare(2) }
    #expect(!log.all.contains("open c"))
  }

  // MARK: Threads

  @Test(arguments: [1, 2, 6]) func manyThreadsOpenAndCloseEachShardOnceAndInOrder(threads: Int) {
    let counts = [3, 0, 1, 5, 0, 2]
    let sequence = sequence(counts)
    let job = TakeJob(task: TakeTask(id: "t", location: TakeLocation(path: "/t", isDirectory: false), reader: SlowMotionVideo()))
    let summaries = Mutex<[String]>([])
    Scheduler(
      jobs: [job], threads: threads,
      work: Scheduler.Work(
        open: { job in
          job.shards = sequence
          return true
        },
        finish: { _ in
          let sealed = (try? sequence.seal()) ?? []
          summaries.withLock { $0 = sealed.map(\.output.path) }
        }, didStore: { _ in }, isCancelled: { false })
    ).run()
    let names = ["a", "b", "c", "d", "e", "f"]
    #expect(summaries.withLock(\.self) == names)
    let log = log.all
    #expect(log.filter { $0.hasPrefix("open") }.sorted() == names.map { "open \($0)" })
    #expect(log.filter { $0.hasPrefix("publish") } == names.map { "publish \($0)" })
    // Stores and closes of parts with blocks, in the order of the rows.
    let expected = zip(names, counts).flatMap { name, count in
      (0..<count).map { "store \(name)\($0)" } + (count > 0 ? ["close \(name)"] : [])
    }
    #expect(log.filter { $0.hasPrefix("store") || ["close a", "close c", "close d", "close f"].contains($0) } == expected)
  }
}
