import Foundation
import Model
import Testing

@testable import Readers

@Suite struct RotationCheckTests {
  /// Two seconds of a phone that turns about y, in rad/s: as its poses say and as its gyroscope says.
  private func episode(poses: Double, gyroscope: Float) -> Episode {
    let frames = (0..<120).map { Timestamp(nanoseconds: Int64($0) * 16_666_667) }
    let readings = (0..<200).map { Timestamp(nanoseconds: Int64($0) * 10_000_000) }
    let turned = frames.map { time -> Pose in
      let half = poses * Double(time.nanoseconds) / 2e9
      return Pose(position: [0, 0, 0], quaternion: [0, sin(half), 0, cos(half)])
    }
    func stream(_ kind: StreamKind, _ width: Int, _ source: VectorSource, _ times: [Timestamp]) -> SampleStream {
      SampleStream(
        spec: StreamSpec(kind: kind, type: .float32, shape: [width], unit: "m", clock: .deviceUptime), source: source, timestamps: times,
        sourceIndex: times.indices.map { Int64($0) })
    }
    return Episode(
      id: "turning", sourceFrames: frames.count,
      frames: Episode.Frames(timestamps: frames, sourceIndex: frames.indices.map { Int64($0) }, clock: .deviceUptime),
      streams: [
        .pose: stream(.pose(.arkit), 7, VectorSource(turned), frames),
        .imu: stream(
          .inertial, 6, VectorSource(width: 6, values: readings.indices.flatMap { _ in [0, 0, 0, 0, gyroscope, 0] }), readings),
      ])
  }

  @Test(arguments: [(0.5, 0.5), (0.5, 1.5), (0.01, 0.15)] as [(Double, Float)])
  func aPhoneMayShakeFasterThanPosesFollow(_ poses: Double, _ gyroscope: Float) {
    #expect(RotationCheck.findings(episode(poses: poses, gyroscope: gyroscope)).isEmpty)
  }

  @Test(arguments: [(0.5, 28.6), (1, 0.0175), (0, 0.5)] as [(Double, Float)])
  func anotherUnitIsSaid(_ poses: Double, _ gyroscope: Float) {
    let found = RotationCheck.findings(episode(poses: poses, gyroscope: gyroscope))
    #expect(found.map(\.code) == [.imuImplausible] && found.first?.field == "imu")
  }
}
