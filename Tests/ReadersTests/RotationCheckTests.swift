import Foundation
import Model
import Testing

@testable import Readers

@Suite struct RotationCheckTests {
  /// Two seconds of a phone that turns about y, in rad/s: as its poses say and as its gyroscope says.
  ///
  /// - Parameters:
  ///   - shaking: By what the gyroscope alternates at 100 Hz.
  ///   - handling: How fast it turns in the four seconds after the last pose; `nil` for no readings there.
  private func episode(poses: Double, gyroscope: Float, shaking: Float = 0, handling: Float? = nil, clock: Clock = .deviceUptime) -> Episode
  {
    let frames = (0..<120).map { Timestamp(nanoseconds: Int64($0) * 16_666_667) }
    let readings = (0..<(handling == nil ? 200 : 600)).map { Timestamp(nanoseconds: Int64($0) * 10_000_000) }
    let rates = readings.indices.map { index in
      (index < 200 ? gyroscope : handling ?? 0) + (index % 2 == 0 ? shaking : -shaking)
    }
    let turned = frames.map { time -> Pose in
      let half = poses * Double(time.nanoseconds) / 2e9
      return Pose(position: [0, 0, 0], quaternion: [0, sin(half), 0, cos(half)])
    }
    func stream(_ kind: StreamKind, _ width: Int, _ source: VectorSource, _ times: [Timestamp], _ clock: Clock) -> SampleStream {
      SampleStream(
        spec: StreamSpec(kind: kind, type: .float32, shape: [width], unit: "m", clock: clock), source: source, timestamps: times,
        sourceIndex: times.indices.map { Int64($0) })
    }
    return Episode(
      id: "turning", sourceFrames: frames.count,
      frames: Episode.Frames(timestamps: frames, sourceIndex: frames.indices.map { Int64($0) }, clock: .deviceUptime),
      streams: [
        .pose: stream(.pose(.arkit), 7, VectorSource(turned), frames, .deviceUptime),
        .imu: stream(.inertial, 6, VectorSource(width: 6, values: rates.flatMap { [0, 0, 0, 0, $0, 0] }), readings, clock),
      ])
  }

  @Test(arguments: [(0.5, 0.5), (0.5, 1.5), (0.01, 0.15)] as [(Double, Float)])
  func aPhoneMayShakeFasterThanPosesFollow(_ poses: Double, _ gyroscope: Float) {
    #expect(RotationCheck.findings(episode(poses: poses, gyroscope: gyroscope)).isEmpty)
  }

  @Test func shakingThatComesToNothingIsNoRotation() {
    #expect(RotationCheck.findings(episode(poses: 0.05, gyroscope: 0.05, shaking: 1)).isEmpty)
  }

  @Test(arguments: [Clock.deviceUptime, .phoneUnix])
  func whatAnIMUMeasuresBesideThePosesSaysNothingOfThem(_ clock: Clock) {
    #expect(RotationCheck.findings(episode(poses: 0.1, gyroscope: 0.1, handling: 3, clock: clock)).isEmpty)
  }

  @Test(arguments: [(0.5, 28.6), (1, 0.0175), (0, 0.5)] as [(Double, Float)])
  func anotherUnitIsSaid(_ poses: Double, _ gyroscope: Float) {
    let found = RotationCheck.findings(episode(poses: poses, gyroscope: gyroscope))
    #expect(found.map(\.code) == [.imuImplausible] && found.first?.field == "imu")
  }
}
