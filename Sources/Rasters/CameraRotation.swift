import Foundation
package import Model

extension Episode {
  /// The episode with all images, depth and confidence of a camera rotated clockwise, and its poses along with them: they are then those of
  /// a camera held in the rotated orientation.
  package func rotating(_ camera: CameraName, by rotation: Rotation90) -> Episode {
    var rotated = self
    for (name, stream) in streams where stream.spec.raster?.camera == camera {
      if rotation != .none { rotated.streams[name] = stream.applying(.rotate(rotation)) }
      rotated.streams[name]?.spec.rotationApplied = ((stream.spec.rotationApplied ?? 0) + rotation.rawValue) % 360
    }
    guard rotation != .none, let name = cameras[camera]?.pose, let pose = streams[name], var frame = pose.spec.kind.poseFrame,
      let oldFromNew = frame.oldFromNew(rotation)
    else { return rotated }
    if let body = frame.body {
      // The body stays where it is; in the axes of the rotated camera, it is elsewhere.
      frame.body = oldFromNew.inverse.composed(with: body)
      rotated.streams[name]?.spec.kind = .pose(frame)
    } else {
      rotated.streams[name]?.poseChange = PoseChange(right: oldFromNew).after(pose.poseChange)
    }
    return rotated
  }
}

extension PoseFrame {
  /// The rotation from the axes of a camera whose images were rotated clockwise to its own; `nil` for axes that are not a camera's.
  fileprivate func oldFromNew(_ rotation: Rotation90) -> Pose? {
    guard let arkit = cameraAxes.arkitFromThese else { return nil }
    // In ARKit's axes, z points back: after a rotation to the right, the new right is the old up.
    let half = Double(rotation.rawValue) / 2 * .pi / 180
    let turn = Pose(position: .zero, quaternion: [0, 0, sin(half), cos(half)])
    let axes = Pose(position: .zero, quaternion: arkit)
    return axes.inverse.composed(with: turn).composed(with: axes)
  }
}
