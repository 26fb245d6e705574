import Foundation
import Model
import Testing

@testable import Transforms

@Suite struct MotionCorrelationTests {
  private func rate(_ time: Double) -> Double { abs(0.5 + 0.8 * sin(1.7 * time) + 0.4 * sin(4.3 * time + 1) + 0.2 * sin(9.1 * time)) }

  /// Poses at 60 Hz give the mean rate between two of them; the gyroscope at 100 Hz the rate at a moment, on a clock that is `offset`
  /// seconds after, late by up to `jitter`.
  private func series(
    seconds: Double, offset: Double, jitter: Double = 0, noise: Double = 0
  ) -> (poses: MotionCorrelation.Series, gyro: MotionCorrelation.Series) {
    var state: UInt64 = 88_172_645_463_325_252
    func random() -> Double {
      state ^= state << 13
      state ^= state >> 7
      state ^= state << 17
      return Double(state >> 11) * 0x1p-53
    }
    let frames = stride(from: 0, to: seconds, by: 1 / 60.0).map { $0 + 1 / 120 }
    let poses = MotionCorrelation.Series(
      times: frames, values: frames.map { time in (0..<8).reduce(0) { $0 + rate(time + (Double($1) - 3.5) / 480) } / 8 })
    let readings = stride(from: 0, to: seconds, by: 0.01)
    let gyro = MotionCorrelation.Series(
      times: readings.map { $0 - offset + jitter * random() }, values: readings.map { rate($0) + noise * (random() - 0.5) })
    return (poses, gyro)
  }

  @Test(arguments: [-1.234, -0.0171, 0, 0.4, 2.2]) func findsTheOffset(offset: Double) throws {
    let (poses, gyro) = series(seconds: 20, offset: offset)
    let found = try #require(MotionCorrelation(poses: poses, gyro: gyro, guess: 0))
    #expect(abs(Double(found.offset) / 1e9 - offset) < 0.002)
    #expect(found.correlation > 0.99 && found.residual < 5_000_000)
  }

  /// Readings that come up to 20 ms late shift the result by their mean lateness, no more.
  @Test func takesJitterForWhatItIs() throws {
    let (poses, gyro) = series(seconds: 30, offset: 0.3, jitter: 0.020, noise: 0.1)
    let found = try #require(MotionCorrelation(poses: poses, gyro: gyro, guess: 0))
    #expect(abs(Double(found.offset) / 1e9 - 0.3 + 0.010) < 0.005)
  }

  @Test func refusesWhatShowsNothing() {
    let (poses, gyro) = series(seconds: 20, offset: 0)
    func still(_ series: MotionCorrelation.Series) -> MotionCorrelation.Series {
      .init(times: series.times, values: series.values.map { _ in 0.1 })
    }
    #expect(MotionCorrelation(poses: still(poses), gyro: gyro, guess: 0) == nil)
    #expect(MotionCorrelation(poses: poses, gyro: .init(times: gyro.times, values: gyro.values.reversed()), guess: 0) == nil)
    #expect(MotionCorrelation(poses: poses, gyro: gyro, guess: 8) == nil)
    #expect(MotionCorrelation(poses: .init(times: [], values: []), gyro: gyro, guess: 0) == nil)
    // Motion that repeats every half second determines the offset only up to half seconds.
    let beat = stride(from: 0, to: 20, by: 1 / 60.0).map { $0 }
    let regular = MotionCorrelation.Series(times: beat, values: beat.map { 1 + sin(4 * .pi * $0) })
    #expect(MotionCorrelation(poses: regular, gyro: regular, guess: 0) == nil)
  }

  /// Poses that rotate about one axis at `rate`, and joints whose four angles move as fast as the phone rotates, times 60.
  private func armEpisode(offset: Double, seconds: Double = 30) -> Episode {
    func angle(_ time: Double) -> Double { 0.5 * time - 0.47 * cos(1.7 * time) - 0.093 * cos(4.3 * time + 1) - 0.022 * cos(9.1 * time) }
    let frames = (0..<Int(seconds * 60)).map { Double($0) / 60 }
    let stamps = frames.map { Timestamp(nanoseconds: 81_000_000_000_000 + Int64($0 * 1e9)) }
    let poses = frames.map { Pose(position: .zero, quaternion: [0, sin(angle($0) / 2), 0, cos(angle($0) / 2)]) }
    let readings = (0..<Int(seconds * 50)).map { 0.01 + Double($0) / 50 }
    let values = readings.flatMap { time in (0..<4).map { Float(60 * angle(time)) + Float($0) } }
    let epoch = 1_771_446_000.0
    let episode = Episode(
      id: "arm", sourceFrames: stamps.count,
      frames: Episode.Frames(timestamps: stamps, sourceIndex: stamps.indices.map { Int64($0) }, clock: .deviceUptime),
      streams: [
        "pose": SampleStream(
          spec: StreamSpec(kind: .pose(.arkit), type: .float32, shape: [7], unit: "m", clock: .deviceUptime),
          source: VectorSource(poses), timestamps: stamps, sourceIndex: stamps.indices.map { Int64($0) },
          rows: stamps.indices.rows),
        "joints": SampleStream(
          spec: StreamSpec(kind: .angles, type: .float32, shape: [4], unit: "degree", clock: .phoneUnix),
          source: VectorSource(width: 4, values: values),
          timestamps: readings.map { Timestamp(nanoseconds: Int64((epoch + $0 - offset) * 1e9)) },
          sourceIndex: readings.indices.map { Int64($0) }),
      ])
    return episode
  }

  /// Tracking that is lost and found again elsewhere: the poses jump, the gyroscope does not.
  @Test(arguments: [[], [12.0], [3.2, 12.0, 21.7]]) func aJumpOfTheTrackingIsNoMotion(jumps: [Double]) throws {
    let offset = 0.4
    var episode = armEpisode(offset: offset)
    func angle(_ time: Double) -> Double { 0.5 * time - 0.47 * cos(1.7 * time) - 0.093 * cos(4.3 * time + 1) - 0.022 * cos(9.1 * time) }
    let poses = (0..<1800).map { index -> Pose in
      let time = Double(index) / 60
      let turn = angle(time) + 0.4 * Double(jumps.count { $0 < time })
      return Pose(position: .zero, quaternion: [0, sin(turn / 2), 0, cos(turn / 2)])
    }
    episode.streams[.pose]?.source = VectorSource(poses)
    let readings = (0..<2990).map { 0.005 + Double($0) / 100 }
    let rates = readings.flatMap { time -> [Float] in [0, 0, 0, 0, Float((angle(time + 0.001) - angle(time - 0.001)) / 0.002), 0] }
    episode.streams[.imu] = SampleStream(
      spec: StreamSpec(kind: .inertial, type: .float32, shape: [6], unit: "m/s^2, rad/s", clock: .phoneUnix),
      source: VectorSource(width: 6, values: rates),
      timestamps: readings.map { Timestamp(nanoseconds: Int64((1_771_446_000 + $0 - offset) * 1e9)) },
      sourceIndex: readings.indices.map { Int64($0) })
    let found = try #require(try MotionCorrelation(episode))
    #expect(abs(Double(found.offset) / 1e9 - (81_000.0 - 1_771_446_000 + offset)) < 0.002 && found.correlation > 0.98)
  }

  /// Without an IMU, and when asked: by when joints moved and the phone rotated.
  @Test(arguments: [0.0, 0.731, -1.4]) func joinsJointsByTheirActivity(offset: Double) throws {
    let episode = armEpisode(offset: offset)
    var align = Align()
    #expect(try align.apply(to: episode).alignments.first { $0.stream == "joints" }?.method == "unaligned+nearest")
    align.correlateJoints = true
    let alignment = try #require(try align.apply(to: episode).alignments.first { $0.stream == "joints" })
    #expect(alignment.method == "activity-correlation+nearest")
    let expected = 81_000.0 - 1_771_446_000 + offset
    #expect(abs(Double(alignment.offset ?? 0) / 1e9 - expected) < 0.01)
  }

  @Test func jointsThatMoveByThemselvesAreNotJoined() throws {
    var episode = armEpisode(offset: 0)
    let values = (0..<1500).flatMap { index in (0..<4).map { Float(20 * sin(Double(index) * 0.11 + Double($0))) } }
    episode.streams[.joints]?.source = VectorSource(width: 4, values: values)
    var align = Align()
    align.correlateJoints = true
    #expect(try align.apply(to: episode).alignments.first { $0.stream == "joints" }?.method == "unaligned+nearest")
  }
}
