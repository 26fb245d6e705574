import Evidence
import Model
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

@Suite struct PoseFrameChangeTests {
  private func change(_ options: JSONValue, _ episode: Episode) throws -> Episode {
    try Options.decode(PoseFrameChange.self, over: options, at: "pose-frame").apply(to: episode)
  }

  /// The camera's right, up and back in its own axes, by the words that files contain.
  private func physical(_ axes: PoseFrame.CameraAxes) throws -> Matrix4 {
    var found: [String: SIMD3<Double>] = [:]
    let units: [Character: SIMD3<Double>] = ["x": [1, 0, 0], "y": [0, 1, 0], "z": [0, 0, 1]]
    let opposites = ["right": "left", "up": "down", "back": "forward", "left": "right", "down": "up", "forward": "back"]
    for word in axes.rawValue.split(separator: ", ").map({ String($0) }) {
      let (unit, direction) = (try #require(units[word.first ?? " "]), String(word.dropFirst(2)))
      found[direction] = unit
      found[try #require(opposites[direction])] = -unit
    }
    return Matrix4(columns: try #require(found["right"]), try #require(found["up"]), try #require(found["back"]))
  }

  // MARK: Axes

  @Test(
    arguments: [PoseFrame.CameraAxes.arkit, .opencv, .ros], [("arkit", PoseFrame.CameraAxes.arkit), ("opencv", .opencv), ("ros", .ros)])
  func theCameraStaysWhereItLooks(from: PoseFrame.CameraAxes, to: (word: String, axes: PoseFrame.CameraAxes)) throws {
    let poses = Pose.random(20, seed: 1)
    var frame = PoseFrame.arkit
    frame.cameraAxes = from
    let changed = try change(["axes": .string(to.word)], .posed(poses, frame: frame))
    #expect(changed.streams[.pose]?.spec.kind.poseFrame?.cameraAxes == to.axes)
    for (before, after) in zip(poses, try changed.poses()) {
      // Right, up and back of the camera in the world, and its position.
      let (old, new) = (Matrix4(before) * (try physical(from)), Matrix4(try #require(after)) * (try physical(to.axes)))
      #expect(old.difference(new) < 1e-6)
    }
  }

  @Test func openglIsAnotherWordForARKitsAxes() throws {
    let episode = Episode.posed(Pose.random(3, seed: 2), frame: .strayScanner)
    #expect(try change(["axes": "opengl"], episode).poses() == change(["axes": "arkit"], episode).poses())
  }

  @Test func axesThatAreNotKnownStayWithAFinding() throws {
    let poses = Pose.random(3, seed: 3)
    let changed = try change(["axes": "arkit"], .posed(poses, frame: .synthetic))
    #expect(changed.findings.map(\.code) == [.axesUnknown] && changed.findings.first?.field == "pose")
    #expect(changed.streams[.pose]?.poseChange == nil && changed.streams[.pose]?.spec.kind.poseFrame == .synthetic)
  }

  // MARK: Body

  @Test func theBodyIsGivenInTheNewAxes() throws {
    let poses = Pose.random(20, seed: 4)
    let body: [Double] = [0.1, -0.2, 0.3, 0.5, -0.5, 0.5, 0.5]
    let changed = try change(["axes": "opencv", "body": .array(body.map { .number($0) })], .posed(poses))
    let offset = Pose(position: [0.1, -0.2, 0.3], quaternion: [0.5, -0.5, 0.5, 0.5])
    // OpenCV's axes are OpenGL's times diag(1, -1, -1).
    let flip = Matrix4(columns: [1, 0, 0], [0, -1, 0], [0, 0, -1])
    for (before, after) in zip(poses, try changed.poses()) {
      #expect(Matrix4(try #require(after)).difference(Matrix4(before) * flip * Matrix4(offset)) < 2e-6)
    }
    #expect(changed.streams[.pose]?.spec.kind.poseFrame?.body == offset)
  }

  @Test func aSecondBodyIsGivenInTheAxesOfTheFirst() throws {
    let poses = Pose.random(5, seed: 5)
    let hand = Matrix4(Pose(position: [1, 0, 0], quaternion: [0, 0, 0.6, 0.8]))
    let finger = Matrix4(Pose(position: [0, 2, 1], quaternion: [0.8, 0, 0, 0.6]))
    let carried = try change(["body": [1, 0, 0, 0, 0, .number(0.6), .number(0.8)]], .posed(poses))
    let twice = try change(["body": [0, 2, 1, .number(0.8), 0, 0, .number(0.6)]], carried)
    for (before, after) in zip(poses, try twice.poses()) {
      #expect(Matrix4(try #require(after)).difference(Matrix4(before) * hand * finger) < 5e-6)
    }
    let body = try #require(twice.streams[.pose]?.spec.kind.poseFrame?.body)
    #expect(Matrix4(body).difference(hand * finger) < 1e-12)
  }

  @Test(arguments: [("opencv", PoseFrame.CameraAxes.opencv), ("ros", .ros)])
  func inOtherAxesTheCameraAndItsBodyStay(axes: (word: String, axes: PoseFrame.CameraAxes)) throws {
    let poses = Pose.random(5, seed: 14)
    let carried = try change(["body": [1, 2, 3, .number(0.6), 0, 0, .number(0.8)]], .posed(poses))
    let after = try change(["axes": .string(axes.word)], carried)
    #expect(try after.findings.isEmpty && after.poses() == carried.poses())
    let frame = try #require(after.streams[.pose]?.spec.kind.poseFrame)
    #expect(frame.cameraAxes == axes.axes)
    // The camera that carries the body: its right, up and back in the world.
    let cameraFromBody = Matrix4(try #require(frame.body)).inverse
    for (before, now) in zip(poses, try after.poses()) {
      let camera = Matrix4(try #require(now)) * cameraFromBody * (try physical(axes.axes))
      #expect(camera.difference(Matrix4(before)) < 5e-6)
    }
  }

  // MARK: World

  @Test func theFirstRowWithAPoseIsTheOrigin() throws {
    let poses: [Pose?] = [nil, nil] + Pose.random(4, seed: 6) + [nil]
    let changed = try change(["origin": "first-frame"], .posed(poses))
    let found = try changed.poses()
    #expect(found.map { $0 == nil } == poses.map { $0 == nil })
    let first = Matrix4(try #require(poses[2]).normalized)
    for (before, after) in zip(poses, found) {
      guard let before, let after else { continue }
      #expect((first * Matrix4(after)).difference(Matrix4(before)) < 2e-6)
    }
    #expect(try #require(found[2]).quaternion.w > 0.999999)
    #expect(changed.streams[.pose]?.spec.kind.poseFrame?.worldAxes == "x right, y up, z back, at the first frame")
  }

  @Test func theMeanPositionIsTheOrigin() throws {
    let poses: [Pose?] = Pose.random(3, seed: 7) + [nil] + Pose.random(2, seed: 8)
    let found = try change(["origin": "mean"], .posed(poses)).poses()
    let positions = found.compactMap { $0?.position }
    #expect(positions.count == 5)
    #expect(length(positions.reduce(.zero, +) / 5) < 1e-6)
    let (a, b) = (try #require(poses[0]), try #require(poses[4]))
    #expect(length((positions[3] - positions[0]) - (b.position - a.position)) < 1e-6)
    #expect(try #require(found[4]).angle(to: b) < 1e-6)
  }

  @Test(arguments: ["first-frame", "mean"]) func withoutAnyPoseTheOriginStays(origin: String) throws {
    let changed = try change(["origin": .string(origin)], .posed([nil, nil]))
    #expect(changed.streams[.pose]?.poseChange == nil)
    #expect(changed.streams[.pose]?.spec.kind.poseFrame == .arkit)
    #expect(try change(["origin": .string(origin)], .posed([])).frames.count == 0)
  }

  @Test func turnsTheWorldSoThatZPointsUpAndBack() throws {
    let poses = Pose.random(5, seed: 9)
    let turned = try change(["up": "z"], .posed(poses))
    // x stays, y becomes z, and z becomes -y.
    let turn = Matrix4(columns: [1, 0, 0], [0, 0, 1], [0, -1, 0])
    for (before, after) in zip(poses, try turned.poses()) {
      #expect(Matrix4(try #require(after)).difference(turn * Matrix4(before)) < 2e-6)
    }
    #expect(turned.streams[.pose]?.spec.kind.poseFrame?.worldAxes.text == "z" + PoseFrame.arkit.worldAxes.text.dropFirst())
    let back = try change(["up": "y"], turned)
    #expect(back.streams[.pose]?.spec.kind.poseFrame == .arkit)
    for (before, after) in zip(poses, try back.poses()) { #expect(Matrix4(try #require(after)).difference(Matrix4(before)) < 2e-6) }
    #expect(try change(["up": "y"], .posed(poses)).streams[.pose]?.poseChange == nil)
    let unknown = try change(["up": "z"], .posed(poses, frame: .slam(unit: .meters)))
    #expect(unknown.findings.map(\.code) == [.axesUnknown] && unknown.streams[.pose]?.poseChange == nil)
  }

  @Test func everythingTogetherIsWTimesTTimesATimesB() throws {
    let poses = Pose.random(6, seed: 10)
    let options: JSONValue = ["axes": "ros", "origin": "mean", "up": "z", "body": [0, 0, 1, 1, 0, 0, 0]]
    let found = try change(options, .posed(poses)).poses()
    // x forward is -z, y left is -x, z up is y; the body is half a turn about x, one meter up.
    let right = Matrix4(columns: [0, 0, -1], [-1, 0, 0], [0, 1, 0]) * Matrix4(Pose(position: [0, 0, 1], quaternion: [1, 0, 0, 0]))
    let turned = poses.map { Matrix4(columns: [1, 0, 0], [0, 0, 1], [0, -1, 0]) * Matrix4($0) * right }
    let mean = turned.reduce(.zero) { $0 + $1.column(3) } / 6
    for (expected, after) in zip(turned, found) {
      var centered = expected
      for axis in 0..<3 { centered.m[4 * axis + 3] -= mean[axis] }
      #expect(Matrix4(try #require(after)).difference(centered) < 3e-6)
    }
  }

  @Test func theFirstFrameIsThatOfTheChangedPoses() throws {
    let poses = Pose.random(6, seed: 15)
    let carried = try change(["up": "z"], .posed(poses))
    let found = try change(["axes": "opencv", "origin": "first-frame", "body": [0, 1, 0, 0, 0, 0, 1]], carried).poses()
    let right = Matrix4(columns: [1, 0, 0], [0, -1, 0], [0, 0, -1]) * Matrix4(Pose(position: [0, 1, 0], quaternion: [0, 0, 0, 1]))
    for (before, after) in zip(poses, found) {
      // The turn of the world before it makes no difference.
      let expected = (Matrix4(poses[0]) * right).inverse * Matrix4(before) * right
      #expect(Matrix4(try #require(after)).difference(expected) < 5e-6)
    }
  }

  @Test func everyStreamOfPosesHasItsOwnFirstFrame() throws {
    var episode = Episode.posed(Pose.random(3, seed: 11))
    episode.streams["wrist_pose"] = Episode.posed([nil] + Pose.random(2, seed: 12)).streams[.pose]
    let changed = try change(["origin": "first-frame"], episode)
    #expect(length(try #require(try changed.poses()[0]).position) < 1e-6)
    #expect(length(try #require(try changed.poses(of: "wrist_pose")[1]).position) < 1e-6)
  }

  @Test func signsContinueAfterTheChange() throws {
    let changed = try change(["axes": "ros", "origin": "first-frame"], .posed(Pose.random(50, seed: 13)))
    let quaternions = try changed.poses().map { try #require($0).quaternion }
    #expect(quaternions[0].w >= 0)
    for (a, b) in zip(quaternions, quaternions.dropFirst()) { #expect((a * b).sum() >= 0) }
  }

  @Test func refusesOptionsThatSayNothingOrTooMuch() {
    for (options, name) in [
      ([:], "axes"), (["origin": "first-frame", "up": "z"], "up"), (["body": [0, 0, 0, 0, 0, 0]], "body"),
      (["body": [0, 0, 0, 0, 0, 0, 2]], "body"), (["body": [0, 0, -1001, 0, 0, 0, 1]], "body"),
    ] as [(JSONValue, String)] {
      let error = #expect(throws: PipelineFileError.self) { try Options.decode(PoseFrameChange.self, over: options, at: "pose-frame") }
      #expect(error?.path == "pose-frame.\(name)")
    }
  }
}
