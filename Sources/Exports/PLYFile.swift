/// Point clouds as PLY files, binary little-endian: x y z as 32-bit floats, red green blue as bytes.
///
/// Source: Turk, The PLY Polygon File Format (1994).
enum PLYFile {
  /// Writes a point cloud and empties it; without color if it has none. Returns the box around the points as they are in the grid.
  ///
  /// - Parameter world: The position to write for a point's.
  static func write(
    _ cloud: VoxelGrid, hasColor: Bool, _ write: (UnsafeRawBufferPointer) throws -> Void,
    world: (SIMD3<Float>) -> SIMD3<Float> = { $0 }
  ) throws -> VoxelGrid.Bounds {
    let coordinates = ["x", "y", "z"].map { "property float \($0)\n" }
    let colors = hasColor ? ["red", "green", "blue"].map { "property uchar \($0)\n" } : []
    let header =
      "ply\nformat binary_little_endian 1.0\nelement vertex \(cloud.count)\n" + (coordinates + colors).joined() + "end_header\n"
    var bytes = Array(header.utf8)
    let bounds = try cloud.forEach { point in
      let position = world(point.position)
      for axis in 0..<3 { withUnsafeBytes(of: position[axis].bitPattern.littleEndian) { bytes += $0 } }
      if hasColor { bytes += [point.red, point.green, point.blue] }
      if bytes.count > 1 << 18 {
        try bytes.withUnsafeBytes(write)
        bytes.removeAll(keepingCapacity: true)
      }
    }
    try bytes.withUnsafeBytes(write)
    return bounds
  }
}
