package import Model
package import Steps

/// Changes what poses refer to: the axes of the camera, the origin and the up axis of the world, or the body that moves.
///
///     - pose-frame: {axes: opencv, origin: first-frame}
///     - pose-frame: {body: [0, 0.05, -0.1, 0, 0, 0, 1]}
///
/// A pose T (body to world) becomes W T A B: A turns the camera's axes, B is the pose of the body in the new axes, and W moves the world.
package struct PoseFrameChange: MemberTransform {
  package static let name = "pose-frame"
  package static let summary = "Changes the camera axes, the world or the body of poses"

  /// The origin of the world: that of the source, the first row's pose, or the mean position.
  package enum Origin: String, OptionChoice {
    case world
    case firstFrame = "first-frame"
    case mean
  }

  @StepOption(
    "camera axes; arkit, opengl: x right, y up, z back; opencv: x right, y down, z forward; ros: x forward, y left, z up; null: as they are"
  )
  var axes: AxesName? = nil
  @StepOption("first-frame: poses as seen from the first row's; mean: the origin is the mean position") var origin = Origin.world
  @StepOption("the world axis that points up, where the source's world is aligned with gravity; null: as it is") var up:
    PoseFrame.WorldAxes.Up? = nil
  @StepOption("pose of the body (a gripper) in the new camera axes: x, y, z, qx, qy, qz, qw; stored poses are then the body's")
  var body: [Double]? = nil
  @StepOption("of a take of several phones, only the streams of this member; null: of all") package var member: String? = nil

  package init() {}

  /// Throws `OptionError` without a change, and for a body whose quaternion is not of length 1.
  package func validate() throws {
    if axes == nil, origin == .world, up == nil, body == nil {
      throw OptionError("axes", "give \"axes\", \"origin\", \"up\" or \"body\"; without any nothing changes")
    }
    if up != nil, origin == .firstFrame { throw OptionError("up", "poses relative to the first frame have no up axis") }
    if let body, Pose(measured: body) == nil || body.prefix(3).contains(where: { abs($0) > Self.farthestBody }) {
      throw OptionError("body", "expected x, y, z within 1000, and qx, qy, qz, qw of length 1, found \(body.count) numbers")
    }
  }

  private static let farthestBody = 1000.0

  /// Changes the frame of every stream of poses; the change applies to each row after interpolation.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    var moved = episode
    for (name, stream) in episode.streams.sorted(by: { $0.key < $1.key }) {
      guard var frame = stream.spec.kind.poseFrame else { continue }
      var change = PoseChange()
      if let target = axes?.cameraAxes, target != frame.cameraAxes {
        if let old = frame.cameraAxes.arkitFromThese, let new = target.arkitFromThese {
          // From new axes to old: through ARKit's.
          let oldFromNew = Pose(position: .zero, quaternion: old).inverse.composed(with: Pose(position: .zero, quaternion: new))
          // A body stays where it is; in other axes of the camera, it is elsewhere.
          if let body = frame.body { frame.body = oldFromNew.inverse.composed(with: body) } else { change.right = oldFromNew }
          frame.cameraAxes = target
        } else {
          moved.findings.append(
            Finding(.axesUnknown, "the camera axes of \(name) are not known, so \(Self.name) does not change them", field: name.rawValue))
        }
      }
      if let offset = body.flatMap(Pose.init(measured:)) {
        change.right = change.right.composed(with: offset)
        frame.body = frame.body.map { $0.composed(with: offset) } ?? offset
      }
      turnUp(&change, &frame, name, &moved)
      if change != PoseChange() { moved.streams[name]?.poseChange = change.after(stream.poseChange) }
      try moveOrigin(&frame, name, &moved)
      // What is changed for one member alone is no world that others are in.
      if let member = stream.spec.member, origin != .world || up != nil && self.member != nil { frame.world = member }
      moved.streams[name]?.spec.kind = .pose(frame)
    }
    return moved
  }

  private func turnUp(_ change: inout PoseChange, _ frame: inout PoseFrame, _ name: StreamName, _ episode: inout Episode) {
    guard let up else { return }
    if frame.worldAxes.up == up { return }
    guard frame.worldAxes.up != nil else {
      episode.findings.append(
        Finding(.axesUnknown, "the world of \(name) is not aligned with gravity, so \(Self.name) cannot turn it", field: name.rawValue))
      return
    }
    // A quarter turn about x takes y to z.
    let half = 0.5.squareRoot()
    change.left = Pose(position: .zero, quaternion: [up == .z ? half : -half, 0, 0, half])
    frame.worldAxes = frame.worldAxes.turned(up)
  }

  private func moveOrigin(_ frame: inout PoseFrame, _ name: StreamName, _ episode: inout Episode) throws {
    guard origin != .world, let stream = episode.streams[name] else { return }
    let change = stream.poseChange
    var rows = RowReader(episode)
    let count = rows.count
    switch origin {
    case .world: return
    case .firstFrame:
      guard let row = try (0..<count).first(where: { try rows.pose(name, at: $0) != nil }), let first = try rows.pose(name, at: row) else {
        return
      }
      episode.streams[name]?.poseChange = PoseChange(left: first.inverse).after(change)
      frame.worldAxes = .first(frame.body == nil ? frame.cameraAxes : nil)
    case .mean:
      var (sum, poses) = (SIMD3<Double>.zero, 0.0)
      for row in 0..<count {
        guard let pose = try rows.pose(name, at: row) else { continue }
        sum += pose.position
        poses += 1
      }
      guard poses > 0 else { return }
      let back = Pose(position: -sum / poses, quaternion: Pose.identity.quaternion)
      episode.streams[name]?.poseChange = PoseChange(left: back).after(change)
      frame.worldAxes.text += "; origin moved to the mean position"
    }
  }
}

extension PoseFrame.WorldAxes.Up: OptionChoice {}
