import Model
import Steps

/// The poses of a scene, ascending in time.
struct SceneTrajectory {
  private var times: [Timestamp] = []
  private var poses: [Pose] = []

  var count: Int { times.count }

  /// - Parameter table: Lines of `t rx ry rz tx ty tz`: seconds, and the world in the camera's axes as a rotation vector and a translation.
  init(_ table: CSVFile, _ file: String, _ notes: FindingCollector) throws {
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
    for place in SensorTimes(found.map(\.time), of: "poses", file: file, notes: notes).order {
      times.append(found[place].time)
      poses.append(found[place].pose)
    }
  }

  /// The pose at a time, between two poses no farther than `limit` nanoseconds; `nil` outside of them.
  func pose(at time: Timestamp, limit: Int64) -> Pose? {
    var (low, high) = (0, times.count)  // the first pose at or after the time
    while low < high {
      let middle = (low + high) / 2
      if times[middle] < time { low = middle + 1 } else { high = middle }
    }
    guard low < times.count else { return nil }
    if times[low] == time { return poses[low] }
    guard low > 0 else { return nil }
    let (before, after) = (time.since(times[low - 1]), times[low].since(time))
    guard before <= limit, after <= limit else { return nil }
    return poses[low - 1].interpolated(to: poses[low], by: Double(before) / (Double(before) + Double(after)))
  }
}
