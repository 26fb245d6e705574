import Model
import Simulate
import Testing

@testable import Transforms

@Suite struct SampleMatchingTests {
  private func stamps(_ nanoseconds: [Int64]) -> [Timestamp] { nanoseconds.map { Timestamp(nanoseconds: $0) } }

  private func blended(_ samples: [Int64], at times: [Int64], limit: Int64) -> [Row?] {
    SampleMatching.blended(stamps(samples), at: stamps(times), limit: limit)
  }

  // MARK: Nearest

  @Test func aLimitOfZeroTakesSamplesAtThatTimeOnly() {
    #expect(SampleMatching.nearest(in: stamps([0, 5, 9]), to: stamps([-1, 0, 4, 5, 6, 9]), limit: 0) == [nil, 0, nil, 1, nil, 2])
  }

  @Test func ofSamplesAtOneTimeTheFirstIsTaken() {
    #expect(SampleMatching.nearest(in: stamps([0, 10, 10, 20]), to: stamps([9, 10, 10]), limit: 5) == [1, 1, 1])
  }

  @Test func timesAtTheEndsOfTheRangeAreOnlyFar() {
    let ends = stamps([.min, .max])
    #expect(SampleMatching.nearest(in: ends, to: ends, limit: 0) == [0, 1])
    #expect(SampleMatching.nearest(in: stamps([.min]), to: stamps([.max]), limit: 1_000_000_000) == [nil])
    #expect(SampleMatching.nearest(in: stamps([.max]), to: stamps([.min]), limit: 1_000_000_000) == [nil])
  }

  // MARK: Blended

  @Test func aSampleAtThatTimeIsUsedUnchanged() {
    // Whatever is around it: nothing, or a neighbor beyond the limit.
    #expect(blended([0, 100, 200], at: [0, 100, 200], limit: 10) == [Row(0), Row(1), Row(2)])
    #expect(blended([7], at: [7], limit: 0) == [Row(0)])
    #expect(blended([0, 10, 10, 20], at: [10], limit: 50) == [Row(1)])
  }

  @Test func bothNeighborsMustBeWithinTheLimit() {
    #expect(blended([0, 100], at: [49, 50, 51], limit: 50) == [nil, Row(0, towards: 1, by: 0.5), nil])
    #expect(blended([0, 100], at: [49, 51], limit: 51) == [Row(0, towards: 1, by: 0.49), Row(0, towards: 1, by: 0.51)])
    #expect(blended([0, 100], at: [1, 99], limit: 98) == [nil, nil])
  }

  @Test func nothingIsExtrapolated() {
    #expect(blended([10, 20], at: [9, 10, 20, 21], limit: 50) == [nil, Row(0), Row(1), nil])
    #expect(blended([10], at: [9, 11], limit: 50) == [nil, nil])
    #expect(blended([], at: [0], limit: 50) == [nil])
  }

  @Test func weighsByTime() {
    #expect(
      blended([0, 40, 140], at: [10, 30, 50, 130], limit: 1000)
        == [Row(0, towards: 1, by: 0.25), Row(0, towards: 1, by: 0.75), Row(1, towards: 2, by: 0.1), Row(1, towards: 2, by: 0.9)])
  }

  @Test func betweenSamplesAtOneTimeAndTheNextTheLastIsBlended() {
    // After the two at 10 comes the one at 20.
    #expect(blended([0, 10, 10, 20], at: [5, 15], limit: 50) == [Row(0, towards: 1, by: 0.5), Row(2, towards: 3, by: 0.5)])
  }

  @Test func weightsAreExactOnAPhonesClock() {
    // Fifty days of uptime, and a nanosecond more.
    let base: Int64 = 4_320_000_000_000_001
    #expect(blended([base, base + 3], at: [base + 1], limit: 5) == [Row(0, towards: 1, by: 1 / 3)])
    let weight = SampleMatching.weight(of: stamps([base + 8_333_333])[0], from: stamps([base])[0], to: stamps([base + 33_333_332])[0])
    #expect(weight == 0.25)
  }

  @Test func agreesWithASearchOfAllSamples() {
    var generator = SplitMix(seed: 11)
    for _ in 0..<100 {
      let samples = (0..<12).map { _ in Int64.random(in: 0...120, using: &generator) }.sorted()
      let times = (0..<20).map { _ in Int64.random(in: -20...140, using: &generator) }.sorted()
      let limit = Int64.random(in: 0...30, using: &generator)
      for (time, row) in zip(times, blended(samples, at: times, limit: limit)) {
        let (before, after) = (samples.lastIndex { $0 < time }, samples.firstIndex { $0 > time })
        if let exact = samples.firstIndex(of: time) {
          #expect(row == Row(exact))
        } else if let before, let after, time - samples[before] <= limit, samples[after] - time <= limit {
          let weight = Double(time - samples[before]) / Double(samples[after] - samples[before])
          #expect(row == Row(before, towards: after, by: Float(weight)))
        } else {
          #expect(row == nil, "\(time) among \(samples), within \(limit)")
        }
      }
    }
  }
}
