import Foundation

/// Problems of a frame, one bit each.
package struct FrameQuality: OptionSet, Hashable, Sendable {
  package let rawValue: UInt8
  package init(rawValue: UInt8) { self.rawValue = rawValue }

  /// The pose equals those of adjacent frames, three or more in a row: tracking was lost.
  package static let poseRepeated = FrameQuality(rawValue: 1)
  /// The camera would have moved faster than 5 m/s or rotated faster than 10 rad/s since the frame before.
  package static let poseJump = FrameQuality(rawValue: 2)
  /// The pose lies on a line between two others over more than six frames: SLAM filled it in.
  package static let poseInterpolated = FrameQuality(rawValue: 4)
  package static let imageUndecodable = FrameQuality(rawValue: 8)
  package static let depthMissing = FrameQuality(rawValue: 16)
  package static let jointsMissing = FrameQuality(rawValue: 32)

  /// Names of the bits, least significant first.
  package static let names = [
    "pose-repeated", "pose-jump", "pose-interpolated", "image-undecodable", "depth-missing", "joints-missing",
  ]

  /// `nil` for an unknown name.
  package init?(named name: String) {
    guard let bit = Self.names.firstIndex(of: name) else { return nil }
    self.init(rawValue: 1 << UInt8(bit))
  }

  /// A phone that seems to rotate faster than this (rad/s) was not tracked.
  package static let greatestRotation = 10.0

  /// Computes the quality bits that follow from the poses, for each frame.
  ///
  /// `isMetric`: Whether positions are in meters, so that speeds are meaningful.
  /// `ordinals`: Where poses may have been interpolated between keyframes, the number of each in the SLAM program's own count, on
  ///   which it interpolates evenly.
  package static func of(_ poses: [Pose], at times: [Timestamp], isMetric: Bool, ordinals: [Int]? = nil) -> [FrameQuality] {
    var quality = [FrameQuality](repeating: [], count: poses.count)
    mark(runsOf: poses.indices.dropFirst().map { poses[$0] == poses[$0 - 1] }, longerThan: 1, as: .poseRepeated, in: &quality)
    // Motion of each frame since the previous one.
    var moves: [SIMD3<Double>] = [], rotations: [SIMD3<Double>] = []
    for index in poses.indices.dropFirst() {
      let seconds = max(Double(times[index].since(times[index - 1])) / 1e9, 1e-9)
      let step = poses[index].position - poses[index - 1].position
      let rotation = rotationVector(from: poses[index - 1].quaternion, to: poses[index].quaternion)
      let (speed, rate) = (length(step) / seconds, length(rotation) / seconds)
      if isMetric && speed > 5 || rate > greatestRotation { quality[index].insert(.poseJump) }
      let count = ordinals.map { Double(max(1, $0[index] - $0[index - 1])) } ?? 1
      moves.append(step / count)
      rotations.append(rotation / count)
    }
    if ordinals != nil, moves.count > 1 {
      let scale = moves.map(length).max() ?? 0
      let steady = moves.indices.dropFirst().map { index in
        length(moves[index] - moves[index - 1]) <= 1e-6 * scale + 1e-12 && length(rotations[index] - rotations[index - 1]) <= 1e-7
          && length(moves[index]) + length(rotations[index]) > 0
      }
      mark(runsOf: steady, longerThan: 5, as: .poseInterpolated, in: &quality, reach: 2)
    }
    return quality
  }

  /// Findings that summarize the poses' bits.
  package static func findings(_ quality: [FrameQuality], file: String) -> [Finding] {
    [
      (poseRepeated, FindingCode.poseRepeated, "frames with the same pose as their neighbors, as when tracking is lost"),
      (poseJump, .poseJump, "frames to which the camera would have moved faster than 5 m/s or 10 rad/s"),
      (poseInterpolated, .poseInterpolated, "frames whose pose SLAM filled in between others"),
    ].compactMap { bit, code, message in
      let count = quality.count { $0.contains(bit) }
      return count > 0 ? Finding(code, message, file: file, count: count) : nil
    }
  }

  /// Marks the frames of runs of `true` longer than `limit`; element i compares frames i to i + `reach`.
  private static func mark(
    runsOf flags: [Bool], longerThan limit: Int, as bit: FrameQuality, in quality: inout [FrameQuality], reach: Int = 1
  ) {
    var start = 0
    for index in 0...flags.count where index == flags.count || !flags[index] {
      if index - start > limit { for frame in start...(index - 1 + reach) { quality[frame].insert(bit) } }
      start = index + 1
    }
  }

  /// Rotation vector (axis times angle in radians) from one unit quaternion to another.
  package static func rotationVector(from a: SIMD4<Double>, to b: SIMD4<Double>) -> SIMD3<Double> {
    // conjugate(a) * b
    let (av, bv) = (SIMD3(a.x, a.y, a.z), SIMD3(b.x, b.y, b.z))
    var vector = a.w * bv - b.w * av - cross(av, bv)
    var w = a.w * b.w + (av * bv).sum()
    if w < 0 { (vector, w) = (-vector, -w) }
    let sine = length(vector)
    guard sine > 1e-12 else { return vector * 2 }
    return vector * (2 * atan2(sine, w) / sine)
  }

  private static func length(_ vector: SIMD3<Double>) -> Double { (vector * vector).sum().squareRoot() }
}
