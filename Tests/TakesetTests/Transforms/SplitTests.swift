import Media
import Model
import Simulate
import TestSupport
import Testing

@testable import Takeset

@Suite struct SplitTests {
  private func split(_ valid: Double, _ test: Double = 0, seed: Int = 0) -> Split {
    var split = Split()
    (split.valid, split.test, split.seed) = (valid, test, seed)
    return split
  }

  @Test func neverDividesAGroup() {
    let groups = (0..<60).map { "day-\($0 % 12)" }
    let parts = split(0.2, 0.2).assign(groups)
    for group in Set(groups) {
      #expect(Set(zip(groups, parts).filter { $0.0 == group }.map(\.1)).count == 1)
    }
    #expect((10...14).contains(parts.count { $0 == .valid }))
    #expect((10...14).contains(parts.count { $0 == .test }))
  }

  @Test func givesAShareAboveZeroAtLeastOneGroupAndLeavesOneToTrainOn() {
    #expect(Set(split(0.01).assign(["a", "b"])) == [.train, .valid])
    #expect(split(0.9).assign(["a"]) == [.train])
    #expect(split(0.4, 0.4).assign(["a", "b"]).contains(.train))
  }

  @Test func givesNothingToAShareOfZero() { #expect(Set(split(0).assign(["a", "b", "c"])) == [.train]) }

  @Test func dependsOnTheSeedAndNotOnTheOrder() {
    let groups = (0..<40).map { "g\($0)" }
    let parts = Dictionary(uniqueKeysWithValues: zip(groups, split(0.5).assign(groups)))
    let reversed = Dictionary(uniqueKeysWithValues: zip(groups.reversed(), split(0.5).assign(groups.reversed())))
    #expect(parts == reversed)
    #expect(parts != Dictionary(uniqueKeysWithValues: zip(groups, split(0.5, seed: 1).assign(groups))))
  }
}
