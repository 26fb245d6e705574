import Model
import Steps

extension Trajectory {
  /// The poses of a scene.
  ///
  /// - Parameter table: Lines of `t rx ry rz tx ty tz`: seconds, and the world in the camera's axes as a rotation vector and a translation.
  init(scene table: CSVFile, _ file: String, _ notes: FindingCollector) throws {
    var found: [(time: Timestamp, pose: Pose)] = []
    var unreadable = 0
    table.forEachLine { line in
      let numbers = (1...6).compactMap { line.number($0) }.filter(\.isFinite)
      guard let time = line.seconds(0), numbers.count == 6, line.fields.count == 7,
        let rotation = Pose(rotationVector: SIMD3(numbers[0], numbers[1], numbers[2]))
      else { return unreadable += 1 }
      let pose = Pose(position: SIMD3(numbers[3], numbers[4], numbers[5]), quaternion: rotation.quaternion).inverse
      guard pose.floats.allSatisfy(\.isFinite) else { return unreadable += 1 }
      found.append((time, pose))
    }
    if unreadable > 0 { notes.add(.posesUnreadable, "lines that are not seven numbers are skipped", file: file, count: unreadable) }
    guard !found.isEmpty else { throw TakeFailure(.posesMissing, "no line is t rx ry rz tx ty tz", file: file) }
    self.init(found, file: file, notes)
  }
}
