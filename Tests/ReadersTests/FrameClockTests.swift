import Model
import Simulate
import Steps
import Testing

@testable import Readers

/// Frames of a video and a list of times, either of which may lack some.
@Suite struct FrameClockTests {
  /// Times of a camera at 30 Hz with up to 1 ms of jitter.
  private func times(_ count: Int, _ random: inout SplitMix) -> [Int64] {
    (0..<count).map { Int64($0) * 33_333_333 + Int64.random(in: 0...1_000_000, using: &random) }
  }

  @Test func everyFrameHasItsTimeWhateverTheOtherListLacks() {
    var random = SplitMix(seed: 1)
    for _ in 0..<300 {
      let all = times(200, &random)
      // A list that lacks the first frames fits as well after a shift, so both have these.
      let unlisted = Set((0..<Int.random(in: 0...5, using: &random)).map { _ in Int.random(in: 1..<199, using: &random) })
      let unwritten = Set((0..<Int.random(in: 0...5, using: &random)).map { _ in Int.random(in: 1..<199, using: &random) })
      let listed = all.indices.filter { !unlisted.contains($0) }
      let written = all.indices.filter { !unwritten.contains($0) }
      let clock = FrameClock(
        listed: listed.map { Timestamp(nanoseconds: 81_000_000_000_000 + all[$0]) }, presented: written.map { all[$0] - all[written[0]] })
      let found = clock.positions.map { $0.map { listed[$0] } }
      #expect(
        !clock.isAmbiguous && found == written.map { unlisted.contains($0) ? nil : $0 },
        "unlisted \(unlisted.sorted()), unwritten \(unwritten.sorted())")
    }
  }

  @Test func exactTimesAreThoseOfTheList() {
    var random = SplitMix(seed: 1)
    let all = times(60, &random)
    let listed: [Timestamp?] = all.enumerated().map { $0 == 0 || $0 == 20 ? nil : Timestamp(nanoseconds: $1) }
    let clock = FrameClock.exact(listed: listed, presented: all.map { ($0 + 500_000) / 1_000_000 * 1_000_000 })
    #expect(clock.positions == all.indices.map { listed[$0] == nil ? nil : $0 })
    for (position, time) in zip(clock.positions, clock.times) { if let position { #expect(time == listed[position]) } }
  }

  @Test func timesThatAreNobodysGiveWayToTheNumber() {
    var random = SplitMix(seed: 1)
    let all = times(60, &random)
    let clock = FrameClock.exact(
      listed: all.map { Timestamp(nanoseconds: $0) }, presented: all.indices.map { Int64($0) * 41_666_667 })
    #expect(clock.positions == all.indices.map { $0 } && clock.times == all.map { Timestamp(nanoseconds: $0) })
  }

  @Test func gapsOfTheSensorDoNotShiftAVideoOfAConstantRate() {
    var random = SplitMix(seed: 2)
    for gaps in [[25], [9, 39], [1], [58]] {
      // The sensor misses a frame after each of these; the encoder wrote all others at one distance.
      let listed = (0..<60).map { frame in
        Int64(frame + gaps.count { $0 < frame }) * 33_333_333 + Int64.random(in: 0...500_000, using: &random)
      }
      let clock = FrameClock.exact(listed: listed.map { Timestamp(nanoseconds: $0) }, presented: (0..<60).map { Int64($0) * 33_333_333 })
      #expect(clock.positions == (0..<60).map { $0 } && clock.times.map(\.nanoseconds) == listed, "\(gaps)")
    }
  }

  @Test func aFrameTooManyAndOneTooFewAreFoundByTime() {
    var random = SplitMix(seed: 1)
    let all = times(60, &random)
    // Frame 10 is not in the video, frame 50 not in the list.
    let (listed, written) = (all.indices.filter { $0 != 50 }, all.indices.filter { $0 != 10 })
    let clock = FrameClock.exact(listed: listed.map { Timestamp(nanoseconds: all[$0]) }, presented: written.map { all[$0] })
    #expect(clock.positions.map { $0.map { listed[$0] } } == written.map { $0 == 50 ? nil : $0 })
  }

  @Test func emptyListsHaveNoPositions() {
    #expect(FrameClock.exact(listed: [nil, nil], presented: [0, 1]).positions.isEmpty)
    #expect(FrameClock(listed: [], presented: [0]).positions.isEmpty && FrameClock(listed: [nil], presented: []).positions.isEmpty)
  }

  /// Times of a constant rate, listed in whole milliseconds: nothing tells which frames are missing, unless the video's own times begin later.
  @Test func evenTimesFitAtAnyShiftWhereFramesAreMissingAtAnEnd() {
    let all = (0..<60).map { Int64($0) * 16_666_667 }
    let listed: [Timestamp?] = all.map { Timestamp(nanoseconds: ($0 + 500_000) / 1_000_000 * 1_000_000) }
    for (kept, isCut) in [(0..<60, false), (5..<60, true), (0..<55, true), (3..<57, true)] {
      let clock = FrameClock(listed: listed, presented: kept.map { all[$0] - all[kept.lowerBound] })
      #expect(clock.isAmbiguous == isCut, "\(kept)")
    }
    let late = FrameClock(listed: listed, presented: all[5...].map(\.self))
    #expect(!late.isAmbiguous && late.positions == (5..<60).map { $0 })
    let short = FrameClock(listed: Array(listed[..<50]), presented: all)
    #expect(short.isAmbiguous)
  }

  @Test func onlyAGapThatBothHaveTellsWhichFramesAreMissing() {
    let all = (0..<90).map { Int64($0) * 33_333_333 }
    let kept = (0..<85).filter { $0 != 40 && $0 != 41 }
    let clock = FrameClock(listed: all.map { Timestamp(nanoseconds: $0 + 7_000_000_000) }, presented: kept.map { all[$0] })
    #expect(clock.isAmbiguous)
    let (listed, presented) = (all.indices.filter { $0 != 20 }, (0..<85).filter { $0 != 20 })
    let gaps = FrameClock(listed: listed.map { Timestamp(nanoseconds: all[$0]) }, presented: presented.map { all[$0] })
    #expect(!gaps.isAmbiguous && gaps.positions == (0..<84).map { $0 })
  }

  @Test(arguments: [-500, -300, -100, 100, 300]) func aClockThatIsSetIsRefused(_ milliseconds: Int64) {
    let all = (0..<120).map { Int64($0) * 16_666_667 }
    func listed(_ at: Int) -> [Timestamp?] {
      all.indices.map { Timestamp(nanoseconds: 1_771_446_000_000_000_000 + all[$0] + ($0 < at ? 0 : milliseconds * 1_000_000)) }
    }
    for at in [3, 60, 110] {
      let error = #expect(throws: TakeFailure.self) {
        try ListedTimes.refuseStep(listed(at), presented: all, named: "rgbTimes", file: "a.json", tolerance: FrameClock.tolerance)
      }
      #expect(error?.code == .clockSet && error?.message.contains("at its time \(at + 1) of 120") == true)
    }
  }

  @Test func aLineThatIsWrongAndFramesThatAreMissingAreNoStepOfTheClock() throws {
    let all = (0..<120).map { Int64($0) * 16_666_667 }
    var listed: [Timestamp?] = all.map { Timestamp(nanoseconds: $0) }
    listed[40] = Timestamp(nanoseconds: all[20])
    listed[70] = nil
    for presented in [all, [], all.filter { !(30..<50).contains($0 / 16_666_667) }] {
      try ListedTimes.refuseStep(listed, presented: presented, named: "rgbTimes", file: "a.json", tolerance: FrameClock.tolerance)
    }
  }
}
