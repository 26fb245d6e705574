import Foundation
import Model
import Testing

@testable import Transforms

@Suite struct InertialDelayTests {
  /// How far a phone has turned about y after some seconds, in rad.
  private func angle(_ time: Double) -> Double { 0.4 * sin(1.7 * time) + 0.1 * sin(4.3 * time + 1) + 0.03 * sin(9.1 * time) }

  /// Eight seconds of a phone that turns, and an IMU that says so `late` seconds later.
  ///
  /// - Parameter turning: How far it turns, as a factor; the gyroscope has noise of 0.02 rad/s.
  private func episode(late: Double, turning: Double = 1, clock: Clock = .deviceUptime) -> Episode {
    let frames = (0..<480).map { Double($0) / 60 }, readings = (0..<800).map { Double($0) / 100 }
    let poses = frames.map { Pose(position: .zero, quaternion: [0, sin(turning * angle($0) / 2), 0, cos(turning * angle($0) / 2)]) }
    let rates = readings.enumerated().flatMap { index, time -> [Float] in
      let rate = turning * (angle(time + 0.001) - angle(time - 0.001)) / 0.002
      return [0, 0, 0, 0, Float(rate) + 0.02 * Float(index * 7919 % 13 - 6) / 6, 0]
    }
    func stream(_ kind: StreamKind, _ width: Int, _ source: VectorSource, _ times: [Double], _ clock: Clock) -> SampleStream {
      SampleStream(
        spec: StreamSpec(kind: kind, type: .float32, shape: [width], unit: "m", clock: clock), source: source,
        timestamps: times.map { Timestamp(nanoseconds: 81_000_000_000_000 + Int64($0 * 1e9)) }, sourceIndex: times.indices.map { Int64($0) }
      )
    }
    let pose = stream(.pose(.arkit), 7, VectorSource(poses), frames, .deviceUptime)
    return Episode(
      id: "turning", sourceFrames: frames.count,
      frames: Episode.Frames(timestamps: pose.timestamps, sourceIndex: pose.sourceIndex, clock: .deviceUptime),
      streams: [
        .pose: pose, .imu: stream(.inertial, 6, VectorSource(width: 6, values: rates), readings.map { $0 + late }, clock),
      ])
  }

  @Test(arguments: [(0.1, "100 ms later"), (-0.1, "100 ms earlier"), (0.06, "60 ms later")])
  func anIMUOfOtherTimesIsSaid(_ late: Double, _ words: String) throws {
    let finding = try #require(InertialDelay.finding(episode(late: late)))
    #expect(finding.code == .imuImplausible && finding.field == "imu")
    let said = try #require(Int(finding.message.split(separator: " ")[2]))
    #expect(abs(said - Int(abs(late) * 1000)) <= 3 && finding.message.contains(words.split(separator: " ")[2] + " than the poses"))
  }

  @Test(arguments: [0, 0.02, -0.03]) func exposureAndReadingOutAreNoDelay(late: Double) {
    #expect(InertialDelay.finding(episode(late: late)) == nil)
  }

  @Test func whatHardlyTurnsOrIsOnAnotherClockSaysNothing() {
    #expect(InertialDelay.finding(episode(late: 0.1, turning: 0.02)) == nil)
    #expect(InertialDelay.finding(episode(late: 0.1, clock: .phoneUnix)) == nil)
  }
}
