import Foundation
import Model
import Testing

@Suite struct FrameQualityTests {
  private func poses(_ x: [Double]) -> [Pose] { x.map { Pose(position: [$0, 0, 0], quaternion: [0, 0, 0, 1]) } }
  private func times(_ count: Int) -> [Timestamp] { (0..<count).map { Timestamp(nanoseconds: Int64($0) * 16_666_667) } }

  @Test func marksThreeEqualPosesAndNotTwo() {
    let quality = FrameQuality.of(poses([0, 0.01, 0.01, 0.02, 0.03, 0.03, 0.03, 0.05]), at: times(8), isMetric: true)
    #expect(quality.map { $0.contains(.poseRepeated) } == [false, false, false, false, true, true, true, false])
  }

  @Test func marksJumpsOnlyWhereLengthsMeanSomething() {
    let path = poses([0, 0.01, 1, 1.01])
    #expect(
      FrameQuality.of(path, at: times(4), isMetric: true).map { $0.contains(.poseJump) } == [false, false, true, false])
    #expect(FrameQuality.of(path, at: times(4), isMetric: false).allSatisfy { !$0.contains(.poseJump) })
    var rotated = poses([0, 0, 0])
    rotated[1].quaternion = [0, 0.3, 0, 0.9539392014169456]
    #expect(FrameQuality.of(rotated, at: times(3), isMetric: false).map { $0.contains(.poseJump) } == [false, true, true])
  }

  @Test func marksStretchesOfConstantVelocity() {
    let steady: [Double] = (0..<10).map { 0.04 + 0.01 * Double($0) }
    let path = poses([0, 0.01, 0.03] + steady + [0.2, 0.21])
    let quality = FrameQuality.of(path, at: times(15), isMetric: false, ordinals: Array(0..<15)).map { $0.contains(.poseInterpolated) }
    #expect(quality.indices.filter { quality[$0] } == Array(2..<13))
  }

  @Test func rotationVectorsHaveAxisAndAngle() {
    let half = 0.35 / 2
    let turn = FrameQuality.rotationVector(from: [0, 0, 0, 1], to: [0, -sin(half), 0, -cos(half)])
    // The negative of a quaternion is the same rotation.
    #expect(abs(turn.y - 0.35) < 1e-12 && turn.x == 0 && turn.z == 0)
  }
}
