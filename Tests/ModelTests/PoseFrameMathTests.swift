import Foundation
import Model
import Simulate
import Testing
import TestSupport

@Suite struct PoseFrameMathTests {
  /// Poses of any rotation, with quaternions of both signs.
  private func poses(_ count: Int, seed: UInt64) -> [Pose] {
    var generator = SplitMix(seed: seed)
    return (0..<count).map { _ in
      var q = SIMD4<Double>.random(in: -1...1, using: &generator)
      while (q * q).sum() < 0.01 { q = .random(in: -1...1, using: &generator) }
      return Pose(position: .random(in: -3...3, using: &generator), quaternion: q / (q * q).sum().squareRoot())
    }
  }

  @Test func composingIsTheProductOfTheMatrices() {
    for (a, b) in zip(poses(300, seed: 1), poses(300, seed: 2)) {
      #expect(Matrix4(a.composed(with: b)).difference(Matrix4(a) * Matrix4(b)) < 1e-13)
    }
  }

  @Test func aLongChainOfPosesStaysAUnitQuaternion() {
    var pose = Pose.identity
    // Off by 1e-7, as quaternions stored as 32-bit floats are.
    let step = Pose(position: .zero, quaternion: [0.6000001, 0, 0, 0.8])
    for _ in 0..<2000 { pose = pose.composed(with: step) }
    #expect(abs((pose.quaternion * pose.quaternion).sum() - 1) < 1e-14)
  }

  @Test func theInverseUndoesAPoseFromBothSides() {
    for pose in poses(300, seed: 3) {
      #expect((Matrix4(pose.inverse) * Matrix4(pose)).difference(.identity) < 1e-13)
      #expect((Matrix4(pose) * Matrix4(pose.inverse)).difference(.identity) < 1e-13)
    }
  }

  @Test func rotatesVectorsWithoutMovingThem() {
    for (pose, other) in zip(poses(300, seed: 4), poses(300, seed: 5)) {
      let v = other.position
      let matrix = Matrix4(pose)
      let expected = v.x * matrix.column(0) + v.y * matrix.column(1) + v.z * matrix.column(2)
      #expect(length(pose.rotate(v) - expected) < 1e-13)
    }
  }

  @Test func axesAreTheColumnsOfTheMatrix() {
    for pose in poses(100, seed: 6) {
      let (axes, matrix) = (pose.axes, Matrix4(pose))
      for (axis, column) in [(axes.x, 0), (axes.y, 1), (axes.z, 2)] { #expect(length(axis - matrix.column(column)) < 1e-13) }
    }
  }

  @Test(arguments: [0, 1e-12, 1e-8, 1e-4, 0.3, 1, 2, 3, Double.pi - 1e-6]) func theRotationVectorIsAxisTimesAngle(angle: Double) {
    for pose in poses(50, seed: 7) {
      let axis = pose.position / length(pose.position)
      let v = axis * sin(angle / 2)
      var turn = Pose(position: .zero, quaternion: [v.x, v.y, v.z, cos(angle / 2)])
      #expect(Matrix4(turn).difference(Matrix4(axis: axis, angle: angle)) < 1e-13)
      #expect(length(turn.rotationVector - axis * angle) < 1e-14 + 1e-12 * angle)
      // The negative is the same rotation.
      turn.quaternion = -turn.quaternion
      #expect(length(turn.rotationVector - axis * angle) < 1e-14 + 1e-12 * angle)
    }
  }

  @Test func theRotationVectorIsNoLongerThanHalfATurn() {
    for pose in poses(300, seed: 8) {
      let v = pose.rotationVector
      let angle = length(v)
      #expect(angle <= .pi + 1e-12)
      #expect(Matrix4(axis: v / angle, angle: angle).difference(Matrix4(Pose(position: .zero, quaternion: pose.quaternion))) < 1e-12)
    }
    // 200 degrees about z are -160.
    let turned = Pose(position: .zero, quaternion: [0, 0, sin(100 * .pi / 180), cos(100 * .pi / 180)])
    #expect(length(turned.rotationVector - [0, 0, -160 * .pi / 180]) < 1e-12)
    let half = Pose(position: .zero, quaternion: [0, 1, 0, 0])
    #expect(length(half.rotationVector - [0, .pi, 0]) < 1e-12)
  }

  @Test func theAngleBetweenTwoRotationsDependsOnNeitherOrderNorSign() {
    for (a, b) in zip(poses(100, seed: 9), poses(100, seed: 10)) {
      // The trace of the rotation between them is 1 + 2 cos.
      let between = (Matrix4(a.inverse) * Matrix4(b)).m
      let expected = acos(min(max((between[0] + between[5] + between[10] - 1) / 2, -1), 1))
      #expect(abs(a.angle(to: b) - expected) < 1e-7)
      #expect(abs(b.angle(to: a) - a.angle(to: b)) < 1e-12)
      #expect(abs(a.angle(to: Pose(position: b.position, quaternion: -b.quaternion)) - a.angle(to: b)) < 1e-12)
      #expect(a.angle(to: Pose(position: .zero, quaternion: -a.quaternion)) < 1e-12)
    }
  }

  @Test func normalizingChangesTheLengthAlone() {
    for pose in poses(100, seed: 11) {
      let scaled = Pose(position: pose.position, quaternion: pose.quaternion * 1.007)
      #expect(scaled.normalized.position == pose.position)
      let difference = scaled.normalized.quaternion - pose.quaternion
      #expect((difference * difference).sum() < 1e-30)
    }
  }

  // MARK: Changes of frame

  @Test func aChangeMultipliesFromBothSides() {
    let all = poses(90, seed: 12)
    for index in stride(from: 0, to: 90, by: 3) {
      let (left, pose, right) = (all[index], all[index + 1], all[index + 2])
      let changed = PoseChange(left: left, right: right)(pose)
      #expect(Matrix4(changed).difference(Matrix4(left) * Matrix4(pose) * Matrix4(right)) < 1e-12)
    }
  }

  @Test func aChangeAfterAnotherIsOneThenTheOther() {
    let all = poses(100, seed: 13)
    for index in stride(from: 0, to: 100, by: 5) {
      let first = PoseChange(left: all[index], right: all[index + 1])
      let second = PoseChange(left: all[index + 2], right: all[index + 3])
      let both = Matrix4(second.left) * Matrix4(first.left) * Matrix4(all[index + 4]) * Matrix4(first.right) * Matrix4(second.right)
      #expect(Matrix4(second.after(first)(all[index + 4])).difference(both) < 1e-12)
      #expect(second.after(nil) == second)
    }
  }

  /// The words of the axes, which files contain, say what the rotations must be.
  @Test(arguments: [PoseFrame.CameraAxes.arkit, .opencv, .ros]) func theRotationsOfCameraAxesDoWhatTheirWordsSay(
    axes: PoseFrame.CameraAxes
  ) throws {
    // ARKit's own axes: x right, y up, z back.
    let directions: [String: SIMD3<Double>] = [
      "right": [1, 0, 0], "left": [-1, 0, 0], "up": [0, 1, 0], "down": [0, -1, 0], "back": [0, 0, 1], "forward": [0, 0, -1],
    ]
    let words = axes.rawValue.split(separator: ", ").map { $0.split(separator: " ").map(String.init) }
    #expect(words.map(\.first) == ["x", "y", "z"])
    let matrix = Matrix4(Pose(position: .zero, quaternion: try #require(axes.arkitFromThese)))
    for (column, word) in words.enumerated() {
      #expect(length(matrix.column(column) - (try #require(directions[word[1]]))) < 1e-15, "\(word)")
    }
    #expect(length(cross(matrix.column(0), matrix.column(1)) - matrix.column(2)) < 1e-15, "axes are right-handed")
  }

  @Test func arbitraryAxesAreNoCameras() { #expect(PoseFrame.CameraAxes.arbitrary.arkitFromThese == nil) }
}
