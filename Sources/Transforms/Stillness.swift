import Evidence
import Foundation
import Model

/// The stretches in which the camera of an episode stands still: between two rows, it moves by no more than a distance and turns by no more
/// than an angle.
///
/// Poses are those of the first stream by name that has any; of a take of several phones, all but the head's have to stand still. A row without a
/// pose neither moves nor ends a stillness.
struct Stillness {
  /// The pose of each row, of each camera.
  private let paths: [[Pose?]]
  /// Whether each row has a pose.
  private let hasPose: [Bool]
  /// The greatest distance that is no motion, in the unit of the poses.
  let distance: Double
  /// The greatest angle that is no motion, in degrees.
  let angle: Double
  /// The distance in words: `0.01 m`, or `0.01 units` for poses in an arbitrary unit.
  let distanceWords: String
  /// The square of the tangent of half the angle; `nil` where every angle is allowed.
  private let tangentSquared: Double?

  /// - Throws: `TakeFailure` for an episode without poses.
  init(_ episode: Episode, distance: Double, angle: Double) throws {
    let all = episode.streams.filter { $0.value.spec.kind.poseFrame != nil }.sorted { $0.key < $1.key }
    let acting = all.filter(\.value.spec.isOfActingMember)
    let streams = acting.isEmpty ? Array(all.prefix(1)) : acting
    guard let stream = streams.first?.value else {
      throw TakeFailure(.streamMissing, "poses are needed to find where the camera stands still, and the take has none")
    }
    if let (name, _) = streams.first(where: { $0.value.rows == nil }) {
      throw TakeFailure(.notAligned, "the stream \(name) is not on the frames' timeline; place the step after align")
    }
    var reader = RowReader(episode)
    let paths = try streams.map { name, _ in try (0..<reader.count).map { try reader.pose(name, at: $0) } }
    guard reader.count == 0 || paths.contains(where: { $0.contains { $0 != nil } }) else {
      throw TakeFailure(.streamMissing, "poses are needed to find where the camera stands still, and no frame of the take has one")
    }
    let number = JSONValue.number(distance).canonicalText
    self.init(
      paths, distance: distance, angle: angle,
      distanceWords: stream.spec.kind.poseFrame?.unit == .arbitrary ? "\(number) units" : "\(number) m")
  }

  init(_ paths: [[Pose?]], distance: Double, angle: Double, distanceWords: String = "") {
    (self.paths, self.distance, self.angle, self.distanceWords) = (paths, distance, angle, distanceWords)
    hasPose = (paths.first ?? []).indices.map { row in paths.contains { $0[row] != nil } }
    let tangent = tan(angle / 2 * .pi / 180)
    tangentSquared = angle < 180 ? tangent * tangent : nil
  }

  /// Whether the pose of row `b` is within the distance and the angle of that of row `a`, limits included. True if either has none.
  func isStill(from a: Int, to b: Int) -> Bool { paths.allSatisfy { isStill($0[a], $0[b]) } }

  private func isStill(_ a: Pose?, _ b: Pose?) -> Bool {
    guard let a, let b else { return true }
    if length(b.position - a.position) > distance { return false }
    guard let tangentSquared else { return true }
    // Sine and cosine of half the angle. Unlike the cosine alone, their quotient is exact for small angles.
    let (av, bv) = (SIMD3(a.quaternion.x, a.quaternion.y, a.quaternion.z), SIMD3(b.quaternion.x, b.quaternion.y, b.quaternion.z))
    let sine = a.quaternion.w * bv - b.quaternion.w * av - cross(av, bv)
    let cosine = (a.quaternion * b.quaternion).sum()
    return (sine * sine).sum() <= tangentSquared * cosine * cosine
  }

  /// The last row before the first motion of a camera away from its first pose; `nil` if there is none.
  var lastBeforeMotion: Int? {
    paths.compactMap { poses in
      guard let first = poses.firstIndex(where: { $0 != nil }),
        let moved = poses.indices.first(where: { $0 > first && !isStill(poses[first], poses[$0]) })
      else { return nil }
      return poses[..<moved].lastIndex { $0 != nil }
    }.min()
  }

  /// The first row after the last motion of a camera towards its last pose; `nil` if there is none.
  var firstAfterMotion: Int? {
    paths.compactMap { poses in
      guard let last = poses.lastIndex(where: { $0 != nil }),
        let moved = poses.indices.last(where: { $0 < last && !isStill(poses[last], poses[$0]) })
      else { return nil }
      return poses[(moved + 1)...].firstIndex { $0 != nil }
    }.max()
  }

  /// The rows in which the camera pauses: ranges as long as possible, from the start on and without overlap, in which every pose is within
  /// `distance` and `angle` (degrees) of the first one's, and whose last row is at least `seconds` after the first. A range has at least two
  /// rows, and begins and ends with rows that have poses.
  ///
  /// - Throws: `TakeFailure` for an episode without poses.
  static func pauses(in episode: Episode, longerThan seconds: Double, distance: Double, angle: Double) throws -> [Range<Int>] {
    try Stillness(episode, distance: distance, angle: angle).pauses(at: episode.frames.timestamps, longerThan: seconds)
  }

  func pauses(at times: [Timestamp], longerThan seconds: Double) -> [Range<Int>] {
    var pauses: [Range<Int>] = []
    var start = 0
    while start < hasPose.count, let end = times.last, times[start].advanced(byNanoseconds: seconds * 1e9) <= end {
      // A camera that has no pose at the start is where it is seen first.
      let moved =
        paths.compactMap { poses in
          guard let first = poses[start...].lazy.compactMap(\.self).first else { return nil }
          return poses.indices[(start + 1)...].first { !isStill(first, poses[$0]) }
        }.min() ?? hasPose.count
      let last = hasPose[..<moved].lastIndex(of: true) ?? start
      if hasPose[start], last > start, times[start].advanced(byNanoseconds: seconds * 1e9) <= times[last] {
        pauses.append(start..<(last + 1))
        start = last + 1
      } else {
        start += 1
      }
    }
    return pauses
  }
}
