import Evidence
import Foundation
import Model
import Simulate
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

@Suite struct ResampleTests {
  private func resampled(_ options: JSONValue, _ episode: Episode) throws -> Episode {
    try Options.decode(Resample.self, over: options, at: "resample").apply(to: episode)
  }

  private func stamps(_ milliseconds: [Int64]) -> [Timestamp] { milliseconds.map { Timestamp(nanoseconds: $0 * 1_000_000) } }

  /// Frames with poses at these times; the pose of a frame is at its time in seconds.
  private func posed(_ times: [Timestamp], rate: Double? = 10) -> Episode {
    var episode = Episode.posed(
      times.map { Pose(position: [Double($0.nanoseconds) / 1e9, 0, 0], quaternion: [0, 0, 0, 1]) })
    episode.frames.timestamps = times
    episode.frames.nominalRate = rate
    episode.streams[.pose]?.timestamps = times
    return episode
  }

  private func posed(_ milliseconds: [Int64], rate: Double? = 10) -> Episode { posed(stamps(milliseconds), rate: rate) }

  /// A stream of numbers with its own samples, which are their times in milliseconds.
  private func numbers(_ kind: StreamKind, _ milliseconds: [Int64], for episode: Episode, values: [Float]? = nil) -> SampleStream {
    let times = stamps(milliseconds)
    return SampleStream(
      spec: StreamSpec(kind: kind, type: .float32, shape: [1], unit: "m", clock: .deviceUptime),
      source: VectorSource(width: 1, values: values ?? milliseconds.map { Float($0) }), timestamps: times,
      sourceIndex: times.indices.map { Int64($0) },
      rows: SampleMatching.nearest(in: times, to: episode.frames.timestamps, limit: 50_000_000).map { $0.map { Row($0) } })
  }

  private func milliseconds(_ episode: Episode) -> [Double] { episode.frames.timestamps.map { Double($0.nanoseconds) / 1e6 } }

  // MARK: The grid

  @Test func ticksAreRoundedFromTheExactTime() throws {
    let first: Int64 = 7_000_000_123
    let times = (0...20).map { Timestamp(nanoseconds: first + Int64($0) * 100_000_000) }
    let ticks = try resampled(["rate": 3], posed(times)).frames
    let expected: [Int64] = [0, 333_333_333, 666_666_667, 1_000_000_000, 1_333_333_333, 1_666_666_667, 2_000_000_000]
    #expect(ticks.timestamps.map { $0.nanoseconds - first } == expected)
    #expect(ticks.isResampled && ticks.nominalRate == 3 && ticks.tick == 1)
    // An hour later, no error has added up.
    let hour = posed([0, 3_600_000])
    let late = try resampled(["rate": 30, "max-gap": 4000], hour).frames.timestamps
    #expect(late.count == 108_001 && late[100_001].nanoseconds == 3_333_366_666_667)
  }

  @Test func theLastFramesTimeCountsAndNoneAfterIt() throws {
    #expect(try milliseconds(resampled(["rate": 10], posed([0, 100, 200]))) == [0, 100, 200])
    let early = posed([Timestamp(nanoseconds: 0), Timestamp(nanoseconds: 100_000_000), Timestamp(nanoseconds: 199_999_999)])
    #expect(try milliseconds(resampled(["rate": 10], early)) == [0, 100])
  }

  @Test(
    arguments: [
      (0.05, [50.0, 150, 250]), (0.25, [50, 150, 250]), (0.2, [0, 100, 200, 300]), (0.1000001, [0.0001, 100.0001, 200.0001]),
      (5, [0, 100, 200, 300]),
    ] as [(Double, [Double])]) func thePhaseMovesTheGridInBothDirections(phase: Double, expected: [Double]) throws
  {
    #expect(try milliseconds(resampled(["rate": 10, "phase": .number(phase)], posed([0, 100, 200, 300]))) == expected)
  }

  @Test func oneFrameIsOneRow() throws {
    let one = try resampled(["rate": 50], posed([40], rate: nil))
    #expect(milliseconds(one) == [40] && one.streams[.pose]?.rows == [Row(0)])
    #expect(one.dropped.isEmpty && one.repeated == 0 && one.skippedTicks == 0)
    let none = try resampled(["rate": 50], posed([Int64]()))
    #expect(none.frames.count == 0 && !none.frames.isResampled)
  }

  @Test func rowsThatAreLeftStayResampled() throws {
    let every = try resampled(["rate": 10], posed([0, 100, 200, 300]))
    let few = try Options.decode(Decimate.self, over: ["every": 3], at: "decimate").apply(to: every).frames
    #expect(few.isResampled && few.timestamps == stamps([0, 300]))
  }

  // MARK: Poses

  @Test func posesAreBlendedBetweenTheFramesAround() throws {
    let episode = try resampled(["rate": 40], posed([0, 100, 200]))
    let expected = [Row(0), Row(0, towards: 1, by: 0.25), Row(0, towards: 1, by: 0.5), Row(0, towards: 1, by: 0.75), Row(1)]
    #expect(Array(try #require(episode.streams[.pose]?.rows).prefix(5)) == expected)
    for (row, pose) in try episode.poses().enumerated() { #expect(abs(try #require(pose).position.x - 0.025 * Double(row)) < 1e-7) }
    #expect(try resampled(["rate": 40, "method": ["pose": "nearest"]], posed([0, 100])).streams[.pose]?.rows == [0, 0, 0, 1, 1].rows)
  }

  @Test func besideAMissingPoseThereIsNoneButTheRowStays() throws {
    var episode = posed([0, 100, 200, 300])
    episode.streams[.pose]?.rows?[1] = nil
    let rows = try #require(try resampled(["rate": 20], episode).streams[.pose]?.rows)
    #expect(rows == [Row(0), nil, nil, nil, Row(2), Row(2, towards: 3, by: 0.5), Row(3)])
    episode.streams[.pose]?.rows = Array(repeating: nil, count: 4)
    #expect(try resampled(["rate": 20], episode).streams[.pose]?.rows == Array(repeating: nil, count: 7))
  }

  /// Poses with a latency have times of their own; those around a gap are not interpolated with each other.
  @Test func posesAtOtherTimesThanFramesAreBlendedToo() throws {
    func shifted(_ milliseconds: [Int64], late: Int64) -> Episode {
      var episode = posed(milliseconds)
      let times = stamps(milliseconds.map { $0 - late })
      episode.streams[.pose]?.timestamps = times
      episode.streams[.pose]?.rows = SampleMatching.nearest(in: times, to: episode.frames.timestamps, limit: 200_000_000).map {
        $0.map { Row($0) }
      }
      return episode
    }
    let half = try resampled(["rate": 10], shifted([0, 100, 200, 300], late: 25))
    #expect(half.streams[.pose]?.rows == (0..<3).map { Row($0, towards: $0 + 1, by: 0.25) } + [nil])
    // From sample 1, at -10 ms, to sample 2, at 240 ms, it is further than frames may be apart.
    let gap = try resampled(["rate": 10, "max-gap": .number(0.15)], shifted([0, 100, 350, 450], late: 110))
    #expect(milliseconds(gap) == [0, 100, 400] && gap.streams[.pose]?.rows?[1] == nil)
  }

  // MARK: Gaps

  @Test func ticksAtTheFramesAroundAGapAreRows() throws {
    let episode = try resampled(["rate": 20, "max-gap": .number(0.2), "tolerance": 1], posed([0, 100, 300, 501, 601]))
    // A step of max-gap is none; from 300 to 501 there are ticks at 350, 400, 450 and 500.
    #expect(milliseconds(episode) == [0, 50, 100, 150, 200, 250, 300, 550, 600])
    #expect(episode.skippedTicks == 4)
  }

  @Test func withoutALimitAGapIsOneAndAHalfPeriodsOrTheTolerance() throws {
    func skipped(_ step: Int64, tolerance: Double) throws -> Int {
      let times = [0, 100, 200, 200 + step].map { Timestamp(nanoseconds: $0 * 1_000_000) }
      return try resampled(["rate": 40, "tolerance": .number(tolerance)], posed(times)).skippedTicks
    }
    #expect(try skipped(150, tolerance: 0.05) == 0)
    #expect(try skipped(151, tolerance: 0.05) == 6)
    #expect(try skipped(175, tolerance: 0.175) == 0)
    #expect(try skipped(176, tolerance: 0.175) == 7)
  }

  // MARK: Other streams

  @Test func imagesAreTheNearestSampleWithinTheTolerance() throws {
    var episode = posed([0, 100, 200])
    episode.streams[.image] = SyntheticEpisode(times: [0, 100_000_000, 200_000_000]).episode.streams[.image]
    let rows = try resampled(["rate": 40, "tolerance": .number(0.025)], episode).streams[.image]?.rows
    // At 50 and 150 ms, the images are too far; 25 ms is not.
    #expect(rows == [Row(0), Row(0), nil, Row(1), Row(1), Row(1), nil, Row(2), Row(2)])
    // Of two equally near, the earlier; so is the frame that gives a row its number.
    let wide = try resampled(["rate": 20], episode)
    #expect(wide.streams[.image]?.rows == [0, 0, 1, 1, 2].rows && wide.frames.sourceIndex == [0, 0, 1, 1, 2])
  }

  @Test func framesThatWereDroppedGiveNothing() throws {
    var episode = posed((0..<5).map { $0 * 100 })
    episode.streams[.image] = SyntheticEpisode(times: (0..<5).map { $0 * 100_000_000 }).episode.streams[.image]
    var kept = episode.keeping([0, 2, 4], dropping: "test")
    kept.frames.nominalRate = 5
    let found = try resampled(["rate": 10, "tolerance": .number(0.1)], kept)
    #expect(found.streams[.image]?.rows == [0, 0, 2, 2, 4].rows)
    #expect(found.streams[.pose]?.rows?[1] == Row(0, towards: 2, by: 0.5))
  }

  @Test func numbersAreBlendedBetweenTheirOwnSamples() throws {
    var episode = posed([0, 100, 200])
    episode.streams[.joints] = numbers(.angles, [-5, 35, 75, 105, 195, 220], for: episode, values: [0, 4, .nan, 3, 6, 8])
    let found = try resampled(["rate": 20, "tolerance": .number(0.045)], episode)
    let rows = try #require(found.streams[.joints]?.rows)
    // At 150 the two samples around are 45 ms away: just near enough; at 50, one of them is missing.
    #expect(
      rows == [
        Row(0, towards: 1, by: 0.125), Row(1, towards: 2, by: 0.375), Row(2, towards: 3, by: 25 / 30),
        Row(3, towards: 4, by: 0.5), Row(4, towards: 5, by: 0.2),
      ])
    var reader = RowReader(found)
    let values = try (0..<5).map { try reader.values(of: .joints, at: $0)[0] }
    #expect(values[0] == 0.5 && values[1].isNaN && values[2].isNaN && values[3] == 4.5 && abs(values[4] - 6.4) < 1e-6)
    #expect(try resampled(["rate": 20, "tolerance": .number(0.0449)], episode).streams[.joints]?.rows?[3] == nil)
    #expect(try resampled(["rate": 20, "method": ["joints": "nearest"]], episode).streams[.joints]?.rows == [0, 1, 3, 3, 4].rows)
  }

  // MARK: Counts

  @Test func agreesWithASearchOfAllFrames() throws {
    var generator = SplitMix(seed: 3)
    for _ in 0..<60 {
      let times = Set((0..<30).map { _ in Int64.random(in: 0...1500, using: &generator) }).sorted()
      let episode = posed(times, rate: 20)
      let rate = Int64.random(in: 5...60, using: &generator)
      let found = try resampled(["rate": .integer(rate), "max-gap": .number(0.1)], episode)
      var (ticks, nearest, skipped) = ([Int64](), [Int](), 0)
      for k in 0...120 {
        let tick = times[0] * 1_000_000 + Int64((Double(k) * 1e9 / Double(rate)).rounded(.toNearestOrEven))
        guard tick <= times[times.count - 1] * 1_000_000 else { break }
        let (before, after) = (times.last { $0 * 1_000_000 <= tick } ?? 0, times.first { $0 * 1_000_000 >= tick } ?? 0)
        if after - before > 100 {
          skipped += 1
          continue
        }
        ticks.append(tick)
        nearest.append(times.indices.min { abs(times[$0] * 1_000_000 - tick) < abs(times[$1] * 1_000_000 - tick) } ?? 0)
      }
      #expect(found.frames.timestamps.map(\.nanoseconds) == ticks)
      #expect(found.frames.sourceIndex == nearest.map { Int64($0) })
      #expect(found.skippedTicks == skipped)
      #expect(found.repeated == nearest.count - Set(nearest).count)
      let unused = times.count - Set(nearest).count
      #expect(found.dropped == (unused > 0 ? [Episode.Dropped(reason: "resampled", count: unused)] : []))
    }
  }

  @Test func qualityAndSegmentsFollowTheNearestFrame() throws {
    var episode = posed([0, 100, 200])
    (episode.frames.quality, episode.frames.segment) = ([[], .poseRepeated, []], [0, 0, 1])
    let frames = try resampled(["rate": 25], episode).frames
    #expect(frames.sourceIndex == [0, 0, 1, 1, 2, 2])
    #expect(frames.quality == [[], [], .poseRepeated, .poseRepeated, [], []] && frames.segment == [0, 0, 0, 0, 1, 1])
  }

  @Test func betweenFramesBetweenWhichTrackingJumpedIsNoTick() throws {
    var episode = posed([0, 100, 200])
    episode.frames.quality = [[], [.poseJump, .poseRepeated], []]
    let found = try resampled(["rate": 25], episode)
    #expect(milliseconds(found) == [0, 120, 160, 200] && found.skippedTicks == 2)
    #expect(found.frames.quality == [[], [.poseJump, .poseRepeated], [], []])
    // A tick at the frame before or after is that frame.
    #expect(try milliseconds(resampled(["rate": 10], episode)) == [0, 100, 200])
  }

  @Test func aJumpToAFrameThatIsNearestToNoTickIsThatOfTheNextRow() throws {
    var episode = posed([0, 100, 200, 300, 400])
    episode.frames.quality = [[], [], [], .poseJump, []]
    let frames = try resampled(["rate": 5], episode).frames
    #expect(frames.sourceIndex == [0, 2, 4] && frames.quality == [[], [], .poseJump])
  }

  // MARK: What it refuses

  @Test func aMethodForAStreamThatIsNotThereIsAFinding() throws {
    let found = try resampled(["rate": 10, "method": ["joints": "nearest", "pose": "slerp"]], posed([0, 100]))
    #expect(found.findings.map(\.code) == [.optionUnused] && found.findings.first?.field == "joints")
  }

  @Test func refusesStreamsThatAreNotAlignedAndEndlessGrids() throws {
    let unaligned = #expect(throws: TakeFailure.self) { try resampled(["rate": 10], SyntheticEpisode().episode) }
    #expect(unaligned?.code == .notAligned && unaligned?.message.contains("put the step align before") == true)
    let endless = #expect(throws: TakeFailure.self) { try resampled(["rate": 10_000], posed([0, 1_000_000])) }
    #expect(endless?.code == .limit)
    for (options, name) in [
      ([:], "rate"), (["rate": 1, "method": ["pose": "linear"]], "method"), (["rate": 1, "method": ["camera_depth": "linear"]], "method"),
      (["rate": 1, "method": ["joints": "slerp"]], "method"), (["rate": 0], "rate"), (["rate": .number(9e-7)], "rate"),
    ] as [(JSONValue, String)] {
      let error = #expect(throws: PipelineFileError.self) { try Options.decode(Resample.self, over: options, at: "resample") }
      #expect(error?.path == "resample.\(name)")
    }
  }
}
