import Model
import Steps

/// The poses: their quaternions, their continuity, their scale and their world.
extension Examined {
  /// One problem about episodes in which a count of rows is above 0.
  private func rows(_ count: (PoseMeasurements) -> Int, _ what: String) -> [Problem] {
    let bad = readable.filter { $0.poses.map(count) ?? 0 > 0 }
    guard !bad.isEmpty else { return [] }
    let (found, rows) = (bad.reduce(0) { $0 + ($1.poses.map(count) ?? 0) }, bad.reduce(0) { $0 + $1.rows })
    return [Problem(sentence: "\(found) of \(several(rows, "row")) of \(words(bad.map(\.id))) \(what)", episodes: bad.map(\.id))]
  }

  func withBadNorms() -> [Problem] {
    let worst = readable.compactMap { $0.poses?.worstNorm }.max { abs($0 - 1) < abs($1 - 1) } ?? 1
    return rows(\.badNorms, "have a quaternion whose length is not 1, such as \(short(worst))")
  }

  func withSignFlips() -> [Problem] { rows(\.flips, "have a quaternion of the opposite sign than the row before") }
  func withRepeatedPoses() -> [Problem] { rows(\.repeated, "repeat a pose") }
  func withJumps() -> [Problem] { rows(\.jumps, "jump: the camera would have moved faster than 5 m/s or 10 rad/s") }
  func withInterpolatedPoses() -> [Problem] { rows(\.interpolated, "have a pose that SLAM filled in") }

  func withArbitraryScale() -> [Problem] {
    problem({ $0.poses.map { $0.unit?.isMetric != true } ?? false }) { "\($0) poses in an arbitrary unit" }
  }
  func withPosesOfABody() -> [Problem] { problem({ $0.poses?.body != nil }) { "\($0) the poses of another body than the camera" } }

  /// Episodes that do not all begin at the same pose, within a centimeter and a degree.
  func withOtherOrigins() -> [Problem] {
    let firsts = readable.compactMap { episode in episode.poses?.first.map { (episode.id, $0) } }
    guard let (_, first) = firsts.first else { return [] }
    let others = firsts.filter { length($0.1.position - first.position) > 0.01 || $0.1.normalized.angle(to: first.normalized) > .pi / 180 }
    guard !others.isEmpty else { return [] }
    return [Problem(sentence: "poses are in the world of each recording, and episodes begin at different ones", episodes: [])]
  }

  /// Episodes whose camera stays within a thousandth of a meter, or of the unit of the poses.
  func withoutMotion() -> [Problem] {
    problem({ $0.rows > 1 && $0.poses.map { $0.first != nil && $0.extent < 1e-3 } ?? false }) { "\($0) a camera that never moves" }
  }
}
