import Model
import Simulate
import Testing
import TestSupport

@testable import Transforms

@Suite struct AlignTests {
  private func stamps(_ milliseconds: [Int64]) -> [Timestamp] { milliseconds.map { Timestamp(nanoseconds: $0 * 1_000_000) } }

  @Test func takesTheNearestSampleAndOfTwoTheEarlier() {
    let rows = SampleMatching.nearest(in: stamps([0, 20, 40]), to: stamps([-5, 9, 10, 11, 30, 39, 60]), limit: 50_000_000)
    #expect(rows == [0, 0, 0, 1, 1, 2, 2])
  }

  /// The Unix time of the frames of an episode whose IMU is on Unix time, an hour ahead of them.
  private func origin(_ known: Episode.UnixOrigin?, change: (inout Episode) -> Void = { _ in }) throws -> Episode.UnixOrigin? {
    var episode = SyntheticEpisode().episode
    (episode.unixOrigin, episode.captureStart) = (known, Timestamp(nanoseconds: 0))
    change(&episode)
    return try Align().apply(to: episode).unixOrigin
  }

  @Test func unixTimeOfTheFramesIsThatOfTheStreamsOnIt() throws {
    let second = Episode.UnixOrigin(nanoseconds: 3_599_500_000_000, resolution: 1_000_000_000)
    // By `first-imu`, within 30 ms.
    let found = Episode.UnixOrigin(nanoseconds: 3_600_000_000_000, resolution: 30_000_000)
    #expect(try origin(nil) == found && origin(second) == found)
    let exact = Episode.UnixOrigin(nanoseconds: 3_599_999_000_000, resolution: 1_000_000)
    #expect(try origin(exact) == exact)
    // An IMU on another clock, or that is not aligned, tells nothing of it.
    #expect(try origin(second) { $0.streams[.imu]?.spec.clock = .laptop } == second)
    #expect(try origin(second) { $0.unixOrigin?.nanoseconds = 0 }?.resolution == 1_000_000_000)
    // Frames on Unix time need nobody.
    #expect(try origin(second) { $0.frames.clock = .phoneUnix } == second)
  }

  @Test func aStreamOnAnUnknownClockIsPlacedByMotionOnly() throws {
    var episode = SyntheticEpisode().episode
    episode.streams[.imu]?.spec.clock = .unknown
    let aligned = try Align().apply(to: episode)
    #expect(aligned.alignments.first { $0.stream == .imu }?.offset == nil && aligned.streams[.imu]?.spec.clock == .unknown)
    #expect(aligned.streams[.imu]?.timestamps == episode.streams[.imu]?.timestamps)
    #expect(aligned.findings.contains { $0.code == .clockUnaligned && $0.field == "imu" })
  }

  @Test func countsTheToleranceIn() {
    let rows = SampleMatching.nearest(in: stamps([0]), to: stamps([-51, -50, 0, 50, 51]), limit: 50_000_000)
    #expect(rows == [nil, 0, 0, 0, nil])
  }

  @Test func givesNothingWithoutSamples() {
    #expect(SampleMatching.nearest(in: [], to: stamps([1, 2]), limit: 1) == [nil, nil])
  }

  @Test func agreesWithASearchOfAllSamples() {
    var generator = SplitMix(seed: 7)
    for _ in 0..<50 {
      let samples = stamps((0..<40).map { _ in Int64.random(in: 0...500, using: &generator) }.sorted())
      let frames = stamps((0..<40).map { _ in Int64.random(in: -50...550, using: &generator) }.sorted())
      let rows = SampleMatching.nearest(in: samples, to: frames, limit: 20_000_000)
      for (frame, row) in zip(frames, rows) {
        let best = samples.map { abs($0.since(frame)) }.min()!
        if best > 20_000_000 {
          #expect(row == nil)
        } else {
          #expect(abs(samples[row!].since(frame)) == best)
          if samples[row!] > frame { #expect(!samples.contains { frame.since($0) == best }) }
        }
      }
    }
  }

  @Test func interpolatesNumbersBetweenNeighborsOnly() throws {
    let times: [Int64] = [0, 10_000_000, 20_000_000, 30_000_000]
    var episode = SyntheticEpisode(times: times).episode
    episode.streams[.joints] = SampleStream(
      spec: StreamSpec(kind: .vector, type: .float32, shape: [1], unit: "degree", clock: .deviceUptime),
      source: VectorSource(width: 1, values: [10, 20, .nan]), timestamps: stamps([5, 15, 25]), sourceIndex: [0, 1, 2])
    var align = Align()
    align.method = .linear
    let joints = try #require(try align.apply(to: episode).streams[.joints])
    #expect(joints.rows == [nil, Row(0, towards: 1, by: 0.5), Row(1, towards: 2, by: 0.5), nil])
    episode.streams[.joints] = joints
    var rows = RowReader(episode)
    #expect(try rows.values(of: .joints, at: 1) == [15])
    #expect(try rows.values(of: .joints, at: 2)[0].isNaN)
    #expect(try rows.values(of: .joints, at: 0)[0].isNaN)
    // Of a value that was interpolated to the row's time, the time is the row's.
    #expect(joints.delay(of: try #require(joints.rows?[1]), at: stamps([10])[0]) == 0)
  }
}
