import Datasets
import HDF5
import Model
import Rasters

/// How well the depth maps of an episode agree with its poses and intrinsics, by a few pairs of rows.
struct GeometryMeasurements: Sendable {
  /// Pairs of rows that see enough in common.
  var pairs = 0
  /// The median distance in meters, over all pairs.
  var distance = 0.0
  /// The mistake that explains the maps best, with its distance, if that is far less.
  var mistake: (words: String, distance: Double)?

  /// The time between the two rows of a pair in nanoseconds, and the most rows.
  private static let apart: Int64 = 500_000_000
  private static let mostRows = 15
  private static let wanted = 8
  /// Beyond this, maps and poses do not agree; phones are off by 25 mm at most.
  static let limit = 0.03
  /// How much better a mistake has to explain the maps.
  private static let factor = 3.0
  private static let longestSide = 4096

  /// `nil` for an episode without depth maps in meters, poses of the camera in meters, or intrinsics.
  init?(_ stored: StoredEpisode, depth: ArrayMeasurements, pose name: String, at timestamps: [Timestamp]) throws {
    let poses = try stored.observation(name)
    guard let axes = try PoseFrame.CameraAxes(rawValue: poses.textAttribute("camera_axes") ?? "")?.arkitFromThese,
      try poses.textAttribute("body") == nil,
      try poses.textAttribute("unit").flatMap(LengthUnit.init)?.isMetric == true,
      let intrinsics = try stored.intrinsics(of: depth.name, isImage: false)
    else { return nil }
    let maps = try stored.observation(depth.name)
    let unit = try maps.textAttribute("unit")
    guard depth.shape.count == 3, depth.shape[2] == 1, depth.shape.allSatisfy({ (1...Self.longestSide).contains($0) }),
      maps.type == .float32 && unit == "m" || maps.type == .uint16 && unit == "mm"
    else { return nil }
    let size = ImageSize(width: depth.shape[1], height: depth.shape[0])
    let count = min(depth.rows, poses.dims.first ?? 0, intrinsics.dims.first ?? 0, timestamps.count)
    guard poses.dims == [poses.dims.first ?? 0, 7], intrinsics.dims == [intrinsics.dims.first ?? 0, 4], poses.type == .float32,
      intrinsics.type == .float32, count > 1
    else { return nil }
    let toAxes = Pose(position: .zero, quaternion: axes).inverse

    func numbers(_ array: HDF5Array, _ row: Int) throws -> [Float] {
      let bytes = try array.read(rows: row..<(row + 1))
      return bytes.withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
    }
    func view(_ row: Int) throws -> DepthAgreement.View? {
      let (p, k) = try (numbers(poses, row), numbers(intrinsics, row).map { Double($0) })
      guard p.count == 7, p.allSatisfy(\.isFinite), k.count == 4, k.allSatisfy(\.isFinite), k[0] > 0, k[1] > 0 else { return nil }
      let bytes = try maps.read(rows: row..<(row + 1))
      let meters: [Float] = bytes.withUnsafeBytes { bytes in
        maps.type == .uint16 ? bytes.bindMemory(to: UInt16.self).map { Float($0) / 1000 } : Array(bytes.bindMemory(to: Float.self))
      }
      let pose = Pose(floats: p)
      guard (pose.quaternion * pose.quaternion).sum() > 0 else { return nil }
      return DepthAgreement.View(
        pose: pose.normalized.composed(with: toAxes), intrinsics: Intrinsics(fx: k[0], fy: k[1], cx: k[2], cy: k[3]), size: size,
        meters: meters)
    }

    // The last row within the time, or the next one.
    func partner(_ row: Int) -> Int {
      var other = row + 1
      while other + 1 < count, other - row < Self.mostRows, timestamps[other + 1].since(timestamps[row]) <= Self.apart { other += 1 }
      return other
    }
    let starts = Set((0..<Self.wanted).map { $0 * (count - 2) / (Self.wanted - 1) }).sorted()
    let views = try starts.compactMap { start -> (DepthAgreement.View, DepthAgreement.View)? in
      guard let one = try view(start), let other = try view(partner(start)) else { return nil }
      return (one, other)
    }
    func distances(_ mistake: DepthAgreement.Mistake) -> [Double] {
      views.compactMap { DepthAgreement.median(from: $0, to: $1, mistake) }.sorted()
    }
    let own = distances(.none)
    guard !own.isEmpty else { return }
    (pairs, distance) = (own.count, own[own.count / 2])
    guard distance > Self.limit else { return }
    // A mistake counts only if it explains as many pairs.
    let others = DepthAgreement.Mistake.allCases.filter { $0 != .none }.map { ($0.rawValue, distances($0)) }
      .filter { $1.count >= own.count }.map { (words: $0, distance: $1[$1.count / 2]) }
    mistake = others.filter { $0.distance * Self.factor < distance }.min { ($0.distance, $0.words) < ($1.distance, $1.words) }
  }
}
