import Datasets
import HDF5
import Model
import Rasters

extension GeometryAgreement {
  private static let pairs = 8
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

    try self.init(Array(timestamps.prefix(count)), pairs: Self.pairs, mistakesFrom: Self.leastMistake, view)
  }
}
