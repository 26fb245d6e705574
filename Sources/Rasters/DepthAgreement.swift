package import Model

/// Whether depth maps, poses and intrinsics agree: points of one map, moved into the camera of another, must be as far away as that one measures.
///
/// With right conventions, phones are off by 2 to 25 mm; with a wrong axis or a wrong quarter turn, by 3 to 100 times as much. So the check also
/// looks whether a usual mistake explains the maps better.
package enum DepthAgreement {
  /// A depth map with the pose and the intrinsics of its row.
  package struct View {
    /// Camera to world, with ARKit's axes of the camera (x right, y up, z back), meters.
    package var pose: Pose
    /// Intrinsics in pixels of the map.
    package var intrinsics: Intrinsics
    package var size: ImageSize
    /// Rows of the map; 0 where there is no value.
    package var meters: [Float]

    package init(pose: Pose, intrinsics: Intrinsics, size: ImageSize, meters: [Float]) {
      (self.pose, self.intrinsics, self.size, self.meters) = (pose, intrinsics, size, meters)
    }
  }

  /// A mistake that the poses may contain: another meaning than the declared one.
  package enum Mistake: String, CaseIterable, Sendable {
    case none
    case right = "the poses are those of the images before they were rotated by 90 degrees clockwise"
    case half = "the poses are those of the images before they were rotated by 180 degrees"
    case left = "the poses are those of the images before they were rotated by 90 degrees counterclockwise"
    case flipped = "y and z of the camera are the other way, as between OpenCV's and OpenGL's axes"
    case inverse = "the poses are world to camera"
    case ray = "depth is measured along the ray of each pixel, not along the camera's axis"
    case thousandth = "positions are a thousandth, or depth a thousand times, as large"
    case hundredth = "positions are a hundredth, or depth a hundred times, as large"
    case tenth = "positions are a tenth, or depth ten times, as large"
    case halved = "positions are half, or depth twice, as large"
    case doubled = "positions are twice, or depth half, as large"
    case tenfold = "positions are ten times, or depth a tenth, as large"
    case hundredfold = "positions are a hundred times, or depth a hundredth, as large"
    case thousandfold = "positions are a thousand times, or depth a thousandth, as large"

    /// The pose if the mistake was made.
    fileprivate func corrected(_ pose: Pose) -> Pose {
      let half = 0.5.squareRoot()
      func scaled(_ factor: Double) -> Pose { Pose(position: pose.position * factor, quaternion: pose.quaternion) }
      func turned(_ quaternion: SIMD4<Double>) -> Pose { pose.composed(with: Pose(position: .zero, quaternion: quaternion)) }
      return switch self {
      case .none, .ray: pose
      case .right: turned([0, 0, half, half])
      case .half: turned([0, 0, 1, 0])
      case .left: turned([0, 0, -half, half])
      case .flipped: turned([1, 0, 0, 0])
      case .inverse: pose.inverse
      case .thousandth: scaled(0.001)
      case .hundredth: scaled(0.01)
      case .tenth: scaled(0.1)
      case .halved: scaled(0.5)
      case .doubled: scaled(2)
      case .tenfold: scaled(10)
      case .hundredfold: scaled(100)
      case .thousandfold: scaled(1000)
      }
    }

    /// Returns the factor by which a depth is too large at a point, in pixels from the outer corner of the first, if the mistake was made.
    fileprivate func stretch(_ u: Double, _ v: Double, _ intrinsics: Intrinsics) -> Double {
      guard self == .ray else { return 1 }
      let (x, y) = ((u - intrinsics.cx) / intrinsics.fx, (v - intrinsics.cy) / intrinsics.fy)
      return (1 + x * x + y * y).squareRoot()
    }
  }

  /// Points of a map that are compared.
  private static let points = 2000
  /// Fewer points in both views say nothing.
  private static let fewest = 100

  /// The median and the 90th percentile of the distances in meters between where points of `a` are for the camera of `b` and what `b` measures
  /// there; `nil` where the two see too little in common. Points that `b` does not see, because something is before them, are in the tail.
  package static func distance(from a: View, to b: View, _ mistake: Mistake = .none) -> (median: Double, p90: Double)? {
    let move = mistake.corrected(b.pose).inverse.composed(with: mistake.corrected(a.pose))
    let rotation = move.axes
    guard a.meters.count == a.size.width * a.size.height, b.meters.count == b.size.width * b.size.height else { return nil }
    let step = max(1, Int((Double(a.meters.count) / Double(points)).squareRoot()))
    var found: [Double] = []
    for y in stride(from: step / 2, to: a.size.height, by: step) {
      for x in stride(from: step / 2, to: a.size.width, by: step) {
        let (u, v) = (Double(x) + 0.5, Double(y) + 0.5)
        let depth = Double(a.meters[y * a.size.width + x]) / mistake.stretch(u, v, a.intrinsics)
        guard depth > 0, depth.isFinite else { continue }
        let (right, up) = ((u - a.intrinsics.cx) / a.intrinsics.fx, (a.intrinsics.cy - v) / a.intrinsics.fy)
        let point = rotation.x * (right * depth) + rotation.y * (up * depth) - rotation.z * depth + move.position
        let ahead = -point.z
        guard ahead > 0.05 else { continue }
        let (seenU, seenV) = (b.intrinsics.fx * point.x / ahead + b.intrinsics.cx, b.intrinsics.cy - b.intrinsics.fy * point.y / ahead)
        if let seen = b.depth(seenU, seenV) { found.append(abs(seen / mistake.stretch(seenU, seenV, b.intrinsics) - ahead)) }
      }
    }
    guard found.count >= fewest else { return nil }
    found.sort()
    return (found[found.count / 2], found[found.count * 9 / 10])
  }
}

extension DepthAgreement.View {
  /// The depth between the four pixels around a point, in pixels from the outer corner of the first; `nil` where one of them has none, or where
  /// they see different things.
  fileprivate func depth(_ u: Double, _ v: Double) -> Double? {
    let (left, top) = ((u - 0.5).rounded(.down), (v - 0.5).rounded(.down))
    guard left >= 0, top >= 0, left + 1 < Double(size.width), top + 1 < Double(size.height) else { return nil }
    let first = Int(top) * size.width + Int(left)
    let corners = SIMD4<Double>(SIMD4(meters[first], meters[first + 1], meters[first + size.width], meters[first + size.width + 1]))
    let (least, most) = (corners.min(), corners.max())
    guard least > 0, most.isFinite, most < 1.1 * least else { return nil }
    let (x, y) = (u - 0.5 - left, v - 0.5 - top)
    return (corners[0] * (1 - x) + corners[1] * x) * (1 - y) + (corners[2] * (1 - x) + corners[3] * x) * y
  }
}
