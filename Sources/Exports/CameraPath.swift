import Model

/// The path of an episode's camera: its pose in each row, and at times between rows.
///
/// A row's image or depth map may have been taken at another time than the row: after `resample`, and where a frame has the nearest depth map.
struct CameraPath: Sendable {
  /// Camera-to-world poses of the rows, OpenCV's camera axes.
  private let poses: [Pose?]
  private let times: [Timestamp]
  /// Rows before a gap.
  private let gaps: Set<Int>

  /// `nil` without poses. Throws `ExportRefusal` for poses that are not a camera's.
  init?(_ episode: ExportedEpisode) throws {
    guard let poses = try episode.cameraPoses(.opencv) else { return nil }
    self.poses = poses
    times = episode.episode.frames.timestamps
    gaps = Set(episode.episode.frames.gaps.map(\.row))
  }

  /// The pose at the time of a row's sample: the row's own if the times are equal, otherwise interpolated between the two rows around that
  /// time. `nil` where one of these has no pose, across a gap, and before the first and after the last row.
  func pose(at time: Timestamp, of row: Int) -> Pose? {
    var earlier = row
    while earlier > 0, times[earlier] > time { earlier -= 1 }
    while earlier + 1 < times.count, times[earlier + 1] <= time { earlier += 1 }
    if time == times[earlier] { return poses[earlier] }
    guard earlier + 1 < times.count, times[earlier] < time, !gaps.contains(earlier), let a = poses[earlier], let b = poses[earlier + 1]
    else { return nil }
    return a.interpolated(to: b, by: Double(time.since(times[earlier])) / Double(times[earlier + 1].since(times[earlier])))
  }
}
