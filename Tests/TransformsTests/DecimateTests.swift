import Media
import Model
import Simulate
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

@Suite struct DecimateTests {
  private func rows(_ milliseconds: [Int64], rate: Double) -> [Int] {
    Decimate.rows(of: milliseconds.map { Timestamp(nanoseconds: $0 * 1_000_000) }, at: rate)
  }

  @Test func keepsEveryNthFrameFromTheFirst() throws {
    var decimate = Decimate()
    decimate.every = 4
    let episode = try decimate.apply(to: SyntheticEpisode().episode)
    #expect(episode.frames.sourceIndex == [0, 4])
    #expect(episode.streams[.pose]?.rows == [0, 4].rows)
    #expect(episode.dropped == [Episode.Dropped(reason: "decimated", count: 4)])
  }

  /// Of every floor(frame rate / rate) frames the last, counted by the measured rate to the nearest whole one.
  @Test(arguments: [
    (120.0, 30.0, [3, 7, 11]), (240, 30, [7, 15, 23]), (119.98, 30, [3, 7, 11]), (60, 25, [1, 3, 5]), (30, 60, [0, 1, 2]),
  ])
  func countsAsTheAppDoes(frames: Double, rate: Double, expected: [Int64]) throws {
    var decimate = Decimate()
    decimate.rate = rate
    decimate.rule = .counter
    let episode = SyntheticEpisode(times: (0..<48).map { Int64((Double($0) * 1e9 / frames).rounded()) }).episode
    #expect(try Array(decimate.apply(to: episode).frames.sourceIndex.prefix(3)) == expected)
    decimate.rate = nil
    #expect(throws: OptionError.self) { try decimate.validate() }
  }

  @Test func keepsTheFrameNearestToEachTick() {
    // Ticks at 0, 100, 200, 300.
    #expect(rows([0, 40, 90, 130, 210, 260, 300], rate: 10) == [0, 2, 4, 6])
  }

  @Test func keepsEachFrameOnceAcrossAHole() {
    #expect(rows([0, 100, 900, 1000], rate: 10) == [0, 1, 2, 3])
  }

  @Test func keepsTheEarlierOfTwoEquallyNear() {
    #expect(rows([0, 50, 150, 200], rate: 10) == [0, 1, 3])
  }

  @Test func agreesWithASearchOfAllFrames() {
    var generator = SplitMix(seed: 7)
    for _ in 0..<50 {
      // Frames ascend, so no two are at the same time.
      let times = [0] + Set((0..<60).map { _ in Int64.random(in: 1...2_000_000, using: &generator) }).sorted()
      let stamps = times.map { Timestamp(nanoseconds: $0 * 1000) }
      let found = Decimate.rows(of: stamps, at: 30)
      var expected: Set<Int> = []
      var tick = 0.0
      while tick * 1e9 / 30 <= Double(times.last!) * 1000 {
        let time = tick * 1e9 / 30
        expected.insert(times.indices.min { abs(Double(times[$0]) * 1000 - time) < abs(Double(times[$1]) * 1000 - time) }!)
        tick += 1
      }
      // The grid may run half a period on past the last frame, which then stays.
      #expect(found.filter { $0 != times.count - 1 } == expected.sorted().filter { $0 != times.count - 1 })
      #expect(found == found.sorted())
    }
  }
}
