import Testing

@testable import Runs

@Suite("Threads of child processes")
struct ThreadShareTests {
  /// The shares of takes of which as many as there are threads run at a time, each for as long as the others.
  private func shares(threads: Int, takes: Int, converted: Int = 0) -> [Int] {
    let share = ThreadShare(threads: threads, takes: takes)
    for _ in 0..<converted { share.open() }
    func begin(_ count: Int) -> [Int] {
      guard count > 0 else { return [] }
      share.open()
      return share.use { [$0] + begin(count - 1) }
    }
    var found: [Int] = []
    while found.count < takes - converted { found += begin(min(threads, takes - converted - found.count)) }
    return found
  }

  @Test func oneTakeUsesAllThreadsHoweverManyOthersAreConverted() {
    #expect(shares(threads: 8, takes: 1) == [8])
    #expect(shares(threads: 8, takes: 1000, converted: 999) == [8])
  }

  @Test func theLastOfAnOddNumberOfTakesUsesTheThreadsThatWouldIdle() { #expect(shares(threads: 2, takes: 3) == [2, 1, 2]) }

  @Test(arguments: [1, 2, 3, 8, 64]) func eachOfManyTakesGetsAThreadAndTogetherTheyHaveFewMore(threads: Int) {
    let found = shares(threads: threads, takes: 10 * threads)
    #expect(found.allSatisfy { $0 >= 1 && $0 <= threads })
    #expect(found.prefix(threads).reduce(0, +) <= 5 * threads)
  }

  @Test func aTakeThatComesWhileOthersRunSharesWithThemOnly() {
    let share = ThreadShare(threads: 4, takes: 10)
    share.open()
    #expect(share.use { _ in share.use { $0 } } == 2)
    #expect(share.use { $0 } == 4)
  }
}
