import Model
import Synchronization
import Testing

@testable import Readers

@Suite struct ForwardFeedTests {
  /// Counts, and notes in which order samples were read.
  private final class Log: Sendable {
    let reads = Mutex<[Int]>([])
    let opened = Mutex(0)
  }

  private struct Reader: ForwardReader {
    let log: Log
    mutating func read(_ index: Int) throws -> Int {
      log.reads.withLock { $0.append(index) }
      if index == 99 { throw TakeFailure(.movieCorrupt, "no") }
      return index * 10
    }
  }

  private func feed(_ log: Log) -> ForwardPrefetcher<Reader> {
    ForwardPrefetcher(sampleBytes: 8) {
      log.opened.withLock { $0 += 1 }
      return Reader(log: log)
    }
  }

  @Test func readsEachSampleOnce() throws {
    let log = Log()
    let feed = feed(log)
    try feed.fetch([0, 1, 2])
    #expect(try [2, 0, 1, 1].map { try feed.sample($0) } == [20, 0, 10, 10])
    // The next block shares the last sample.
    try feed.fetch([2, 3])
    feed.release([0, 1, 2])
    #expect(try feed.sample(2) == 20)
    feed.release([2, 3])
    #expect(log.reads.withLock(\.self) == [0, 1, 2, 3])
    try feed.fetch([3, 4])
    #expect(log.reads.withLock(\.self) == [0, 1, 2, 3, 4])
    #expect(log.opened.withLock(\.self) == 1)
  }

  @Test func readsOnWhenItIsFinished() throws {
    let log = Log()
    let feed = feed(log)
    try feed.fetch([0])
    try feed.finish()
    #expect(try feed.sample(1) == 10)
    #expect(log.opened.withLock(\.self) == 1)
  }

  @Test func readsWhatNobodyFetched() throws {
    let log = Log()
    let feed = feed(log)
    #expect(try feed.sample(7) == 70)
    #expect(try feed.sample(7) == 70)
    #expect(log.reads.withLock(\.self) == [7])
  }

  @Test func startsAgainAfterAnError() throws {
    let log = Log()
    let feed = feed(log)
    #expect(throws: TakeFailure.self) { try feed.fetch([98, 99]) }
    #expect(try feed.sample(5) == 50)
    #expect(log.opened.withLock(\.self) == 2)
  }
}
