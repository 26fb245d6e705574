import Evidence
import Foundation
import Model
import Simulate
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

@Suite struct RotateTests {
  private func rotate(_ degrees: JSONValue, _ episode: Episode) throws -> Episode {
    try Options.decode(Rotate.self, over: ["degrees": degrees], at: "rotate").apply(to: episode)
  }

  private let size = ImageSize(width: 8, height: 6)

  /// An episode of poses with images and depth of a phone whose image is not symmetrical.
  private func seen(_ poses: [Pose?], _ frame: PoseFrame = .arkit) -> Episode {
    var episode = Episode.posed(poses, frame: frame)
    let rasters = SyntheticEpisode(times: poses.indices.map { Int64($0) * 100_000_000 }).episode.streams
    episode.streams[.image] = rasters[.image]
    episode.streams[.depth] = rasters[.depth]
    episode.streams[.depth]?.rows = poses.indices.map { Row($0 / 2) }
    let intrinsics = Intrinsics(fx: 9, fy: 7, cx: 4.25, cy: 2.5)
    episode.cameras[.phone] = Camera(size: size, intrinsicsTrack: IntrinsicsTrack(intrinsics), pose: .pose)
    return episode
  }

  /// Where a point of the world is in the image of a row.
  private func pixel(of point: SIMD3<Double>, row: Int, in episode: Episode) throws -> (u: Double, v: Double) {
    let stream = try #require(episode.streams[.image])
    let intrinsics = try #require(episode.intrinsics(of: stream, at: Row(row)))
    let pose = try #require(try episode.poses()[row])
    let frame = try #require(episode.streams[.pose]?.spec.kind.poseFrame)
    // Of a body that the camera carries, to the camera.
    let inCamera = (Matrix4(frame.body ?? .identity) * Matrix4(pose).inverse).m
    func coordinate(_ axis: Int) -> Double {
      inCamera[4 * axis] * point.x + inCamera[4 * axis + 1] * point.y + inCamera[4 * axis + 2] * point.z + inCamera[4 * axis + 3]
    }
    var along: [String: Double] = [:]
    for (axis, word) in frame.cameraAxes.rawValue.split(separator: ", ").enumerated() {
      along[String(word.dropFirst(2))] = coordinate(axis)
    }
    let right = try #require(along["right"] ?? along["left"].map { -$0 })
    let down = try #require(along["down"] ?? along["up"].map { -$0 })
    let forward = try #require(along["forward"] ?? along["back"].map { -$0 })
    return (intrinsics.fx * right / forward + intrinsics.cx, intrinsics.fy * down / forward + intrinsics.cy)
  }

  /// Turned about the axis that points back, in degrees: a camera rolled to the left.
  private func rolled(_ degrees: Double) -> Pose {
    Pose(position: .zero, quaternion: [0, 0, sin(degrees / 360 * .pi), cos(degrees / 360 * .pi)])
  }

  // MARK: By degrees

  /// A point of the scene is where the rotated image shows it.
  @Test(
    arguments: [90, 180, 270],
    [(PoseFrame.CameraAxes.arkit, false), (.opencv, false), (.ros, false), (.arkit, true), (.opencv, true), (.ros, true)])
  func pointsStayOnTheirPixels(degrees: Int, frame kind: (axes: PoseFrame.CameraAxes, hasBody: Bool)) throws {
    let (axes, hasBody) = kind
    var frame = PoseFrame.arkit
    frame.cameraAxes = axes
    if hasBody { frame.body = Pose(position: [0.1, -0.2, 0.5], quaternion: [0.5, 0.5, -0.5, 0.5]) }
    let before = seen(Pose.random(5, seed: 1), frame)
    let after = try rotate(.integer(Int64(degrees)), before)
    #expect(after.streams[.pose]?.spec.kind.poseFrame?.cameraAxes == axes)
    // The body is where it was, whichever way its camera is held.
    if hasBody { #expect(try after.poses() == before.poses()) }
    var generator = SplitMix(seed: 2)
    for row in 0..<5 {
      for _ in 0..<5 {
        let point = SIMD3<Double>.random(in: -9...9, using: &generator)
        let (u, v) = try pixel(of: point, row: row, in: before)
        guard abs(u) < 50, abs(v) < 50 else { continue }
        let expected = degrees == 90 ? (6 - v, u) : degrees == 180 ? (8 - u, 6 - v) : (v, 8 - u)
        let found = try pixel(of: point, row: row, in: after)
        #expect(abs(found.u - expected.0) < 1e-3 && abs(found.v - expected.1) < 1e-3)
      }
    }
  }

  @Test func degreesAddUpAndTheWholeTurnIsTheStart() throws {
    let poses = Pose.random(3, seed: 3)
    let three = try rotate(270, seen(poses))
    #expect(three.streams[.image]?.spec.rotationApplied == 270 && three.streams[.depth]?.spec.rotationApplied == 270)
    let again = try rotate(180, three)
    #expect(again.streams[.image]?.spec.rotationApplied == 90 && again.streams[.image]?.spec.shape == [8, 6, 3])
    let whole = try rotate(270, again)
    #expect(whole.streams[.image]?.spec.rotationApplied == 0 && whole.streams[.image]?.spec.shape == [6, 8, 3])
    for (before, after) in zip(poses, try whole.poses()) { #expect(Matrix4(try #require(after)).difference(Matrix4(before)) < 2e-6) }
  }

  @Test func aCameraWithoutPosesRotatesAlone() throws {
    var episode = seen(Pose.random(2, seed: 5))
    episode.cameras[.phone]?.pose = nil
    let rotated = try rotate(90, episode)
    #expect(rotated.streams[.pose]?.poseChange == nil && rotated.streams[.depth]?.spec.shape == [4, 3, 1])
  }

  // MARK: Upright

  @Test(arguments: [
    (0.0, 0), (30, 0), (44, 0), (46, 270), (90, 270), (134, 270), (136, 180), (180, 180), (-46, 90), (-90, 90), (-134, 90), (-44, 0),
  ]) func uprightTurnsUpToTheTop(roll: Double, degrees: Int) throws {
    let rotated = try rotate("upright", seen([rolled(roll), rolled(roll)]))
    #expect(rotated.streams[.image]?.spec.rotationApplied == degrees)
    // The camera's up in the world is then within 45 degrees of the world's.
    for pose in try rotated.poses() { #expect(Matrix4(try #require(pose)).column(1).y > 0.7) }
    if degrees == 0 { #expect(rotated.streams[.image]?.source is CountingSource && rotated.streams[.pose]?.poseChange == nil) }
  }

  /// A camera of OpenCV's axes in a world whose z is up, upright and rolled to the right.
  @Test func uprightKnowsOtherAxesAndWorlds() throws {
    var frame = PoseFrame.strayScanner
    frame.worldAxes = "z up, gravity-aligned"
    // Looking along y: right is x, down is -z.
    let level = Pose(position: .zero, quaternion: [-0.5.squareRoot(), 0, 0, 0.5.squareRoot()])
    #expect(Matrix4(level).difference(Matrix4(columns: [1, 0, 0], [0, 0, -1], [0, 1, 0])) < 1e-12)
    #expect(try rotate("upright", seen([level], frame)).streams[.image]?.spec.rotationApplied == 0)
    // Rolled to the right by a quarter, clockwise as seen from behind: its right points down, and up is at the left edge.
    let right = level.composed(with: Pose(position: .zero, quaternion: [0, 0, 0.5.squareRoot(), 0.5.squareRoot()]))
    #expect(length(Matrix4(right).column(0) - [0, 0, -1]) < 1e-12)
    let rotated = try rotate("upright", seen([right], frame))
    #expect(rotated.streams[.image]?.spec.rotationApplied == 90)
    #expect(length(Matrix4(try #require(try rotated.poses()[0])).column(1) - [0, 0, -1]) < 1e-6)
  }

  /// A camera of ROS's axes, x forward, y left, z up, level and rolled about x.
  @Test(arguments: [(0.0, 0), (90, 90), (180, 180), (-90, 270)]) func uprightKnowsROSsAxes(roll: Double, degrees: Int) throws {
    var frame = PoseFrame.arkit
    (frame.cameraAxes, frame.worldAxes) = (.ros, "z up")
    let rolled = Pose(position: .zero, quaternion: [sin(roll / 360 * .pi), 0, 0, cos(roll / 360 * .pi)])
    let rotated = try rotate("upright", seen([rolled], frame))
    #expect(rotated.streams[.image]?.spec.rotationApplied == degrees)
    #expect(length(Matrix4(try #require(try rotated.poses()[0])).column(2) - [0, 0, 1]) < 1e-6)
  }

  @Test func uprightIsAnAverageOverTheRowsWithPoses() throws {
    let rolls: [Double?] = [nil, 90, 0, 10, -10, nil]
    let rotated = try rotate("upright", seen(rolls.map { $0.map { rolled($0) } }))
    #expect(rotated.streams[.image]?.spec.rotationApplied == 0)
    let most = try rotate("upright", seen([nil, rolled(90), rolled(80), rolled(0)]))
    #expect(most.streams[.image]?.spec.rotationApplied == 270)
  }

  @Test func uprightOfABodyIsThatOfItsCamera() throws {
    var frame = PoseFrame.arkit
    // The gripper is a quarter turn to the left of a camera that is level.
    frame.body = rolled(90)
    let rotated = try rotate("upright", seen([rolled(90)], frame))
    #expect(rotated.streams[.image]?.spec.rotationApplied == 0)
    // Turned upside down, it is turned back.
    #expect(try rotate("upright", rotate(180, rotated)).streams[.image]?.spec.rotationApplied == 0)
  }

  @Test func whatPosesCannotTellStaysWithAFinding() throws {
    /// Pitched down, in degrees.
    func pitched(_ degrees: Double) -> Pose {
      Pose(position: .zero, quaternion: [sin(-degrees / 360 * .pi), 0, 0, cos(-degrees / 360 * .pi)])
    }
    // The sine of 14.5 degrees is 0.25.
    #expect(try rotate("upright", seen([pitched(75)])).findings.isEmpty)
    var missing = seen([rolled(0)])
    missing.cameras[.phone]?.pose = nil
    let unknown = [
      seen([pitched(76)]), seen([rolled(0), rolled(180)]), seen([nil, nil]), seen([rolled(0)], .slam(unit: .meters)),
      seen([rolled(0)], .synthetic), missing,
    ]
    for (number, episode) in unknown.enumerated() {
      let rotated = try rotate("upright", episode)
      #expect(rotated.findings.map(\.code) == [.rotationUnknown] && rotated.findings.first?.field == "camera", "case \(number)")
      #expect(rotated.streams[.image]?.spec.rotationApplied == nil && rotated.streams[.pose]?.poseChange == nil, "case \(number)")
    }
  }

  @Test func everyCameraIsTurnedByItself() throws {
    var episode = seen([rolled(90)])
    let wrist = Raster(camera: "wrist", size: size, covering: size)
    episode.streams["wrist_image"] = episode.streams[.image]
    episode.streams["wrist_image"]?.spec.raster = wrist
    episode.streams["wrist_pose"] = Episode.posed([rolled(180)]).streams[.pose]
    episode.cameras["wrist"] = Camera(size: size, pose: "wrist_pose")
    episode.streams["scene_image"] = episode.streams[.image]
    episode.streams["scene_image"]?.spec.raster = Raster(camera: "scene", size: size, covering: size)
    let rotated = try rotate("upright", episode)
    func degrees(_ name: StreamName) -> Int? { rotated.streams[name]?.spec.rotationApplied }
    #expect(degrees(.image) == 270 && degrees(.depth) == 270 && degrees("wrist_image") == 180 && degrees("scene_image") == nil)
    #expect(rotated.findings.map(\.field) == ["scene"])
    for name in ["pose", "wrist_pose"] as [StreamName] {
      #expect(length(Matrix4(try #require(try rotated.poses(of: name)[0])).column(1) - [0, 1, 0]) < 1e-6)
    }
  }

  // MARK: Options

  @Test func refusesOtherAngles() {
    for options in [[:], ["degrees": 0], ["degrees": 45], ["degrees": 360], ["degrees": -90], ["degrees": "up"]] as [JSONValue] {
      #expect(throws: PipelineFileError.self) { try Options.decode(Rotate.self, over: options, at: "rotate") }
    }
    #expect(Rotate.Degrees(json: 270)?.json == 270 && Rotate.Degrees(json: "upright")?.json == "upright")
  }
}
