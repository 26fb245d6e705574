import Model
import Steps

/// The poses: their quaternions, their continuity, their scale and their world.
extension Examined {
  /// One problem about episodes in which a count of rows is above 0.
  private func rows(_ count: (PoseMeasurements) -> Int, _ what: String) -> [Problem] {
    func found(_ episode: EpisodeMeasurements) -> Int { episode.allPoses.map { count($0.poses) }.reduce(0, +) }
    let bad = readable.filter { found($0) > 0 }
    guard !bad.isEmpty else { return [] }
    let count = bad.map(found).reduce(0, +), rows = bad.map { $0.rows * $0.allPoses.count }.reduce(0, +)
    return [
      Problem(
        sentence:
          "\(count) of \(several(rows, bad.contains { $0.allPoses.count > 1 } ? "pose" : "row")) of \(words(bad.map(\.id))) \(what)",
        episodes: bad.map(\.id))
    ]
  }

  func withBadNorms() -> [Problem] {
    let norms: [Double] = readable.flatMap { episode in episode.allPoses.map { $0.poses.worstNorm } }
    let worst = norms.max { abs($0 - 1) < abs($1 - 1) } ?? 1
    return rows(\.badNorms, "have a quaternion whose length is not 1, such as \(short(worst))")
  }

  func withSignFlips() -> [Problem] { rows(\.flips, "have a quaternion of the opposite sign than the row before") }
  func withRepeatedPoses() -> [Problem] { rows(\.repeated, "repeat a pose") }
  func withJumps() -> [Problem] { rows(\.jumps, "jump: the camera would have moved faster than 5 m/s or 10 rad/s") }
  func withInterpolatedPoses() -> [Problem] { rows(\.interpolated, "have a pose that SLAM filled in") }

  func withArbitraryScale() -> [Problem] {
    problem({ $0.allPoses.contains { $0.poses.unit?.isMetric != true } }) { "\($0) poses in an arbitrary unit" }
  }
  func withPosesOfABody() -> [Problem] {
    problem({ $0.allPoses.contains { $0.poses.body != nil } }) { "\($0) the poses of another body than the camera" }
  }

  /// Episodes that do not all begin at the same pose, within a centimeter and a degree.
  func withOtherOrigins() -> [Problem] {
    let byName = Dictionary(
      grouping: readable.flatMap { $0.allPoses.compactMap { all in all.poses.first.map { (name: all.name, pose: $0) } } }, by: \.name)
    let differ = byName.values.contains { firsts in
      firsts.contains {
        length($0.pose.position - firsts[0].pose.position) > 0.01
          || $0.pose.normalized.angle(to: firsts[0].pose.normalized) > .pi / 180
      }
    }
    guard differ else { return [] }
    return [Problem(sentence: "poses are in the world of each recording, and episodes begin at different ones", episodes: [])]
  }

  /// Episodes whose camera stays within a thousandth of a meter, or of the unit of the poses.
  func withoutMotion() -> [Problem] {
    problem({ $0.rows > 1 && $0.allPoses.contains { $0.poses.first != nil && $0.poses.extent < 1e-3 } }) {
      "\($0) a camera that never moves"
    }
  }
}
