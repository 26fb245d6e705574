import Model

/// Poses in ascending time, and what is between them.
struct Trajectory {
  let times: [Timestamp]
  let poses: [Pose]

  /// - Parameter poses: Each with its time, in any order; of several with one time, the first is kept.
  /// - Parameter file: The file that they are from, for messages.
  init(_ found: [(time: Timestamp, pose: Pose)], file: String, _ notes: FindingCollector) {
    let order = SensorTimes(found.map(\.time), of: "poses", file: file, notes: notes).order
    (times, poses) = (order.map { found[$0].time }, order.map { found[$0].pose })
  }

  /// The pose at a time: a measured one, or one between two poses no farther than `limit` nanoseconds, with linear positions and slerp; `nil` elsewhere.
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
