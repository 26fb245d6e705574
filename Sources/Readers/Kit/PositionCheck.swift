import Model

/// A check of positions, which are stored as 32-bit floats. Positions on a map, such as UTM's, are so far from the origin that a camera's motion would
/// be lost in the rounding.
enum PositionCheck {
  /// Distance beyond which a number is no position.
  private static let farthest = 1e9
  /// Up to here, meters are exact to 0.03 mm.
  private static let near = 1000.0
  /// The part of the extent of the positions that may be lost.
  private static let exactness = 1e-5

  /// Removes poses whose position is no position. If the others would lose digits, the origin is moved to the middle of them, in whole
  /// units: the differences are those of the doubles.
  static func examine(_ entries: inout [PoseList.Entry], file: String, _ notes: FindingCollector) {
    var all: [[Double]] = [[], [], []]
    for index in entries.indices {
      guard let position = entries[index].pose?.position else { continue }
      guard (0..<3).allSatisfy({ abs(position[$0]) <= farthest }) else {
        entries[index].pose = nil
        continue
      }
      for axis in 0..<3 { all[axis].append(position[axis]) }
    }
    guard !all[0].isEmpty, all.contains(where: { axis in axis.contains { abs($0) > near } }) else { return }
    all = all.map { $0.sorted() }
    let origin = SIMD3(all[0], all[1], all[2])
    let last = all[0].count - 1
    // Without a twentieth at each end, where jumps are.
    let extent = all.map { $0[last - last / 20] - $0[last / 20] }.max() ?? 0
    let lost = Double(Float(max(abs(origin.x), abs(origin.y), abs(origin.z))).ulp) / 2
    guard lost > extent * exactness, (0..<3).contains(where: { abs(origin[$0]) > near }) else { return }
    for index in entries.indices { entries[index].pose?.position -= origin }
    notes.add(
      .positionsFar,
      "positions are \(Int(origin.x)), \(Int(origin.y)), \(Int(origin.z)) from the origin, where 32 bits are exact to \(Float(lost)); they are written relative to that point",
      file: file)
  }
}

extension SIMD3<Double> {
  /// The medians of three sorted lists, in whole units.
  fileprivate init(_ x: [Double], _ y: [Double], _ z: [Double]) {
    self.init(x[x.count / 2].rounded(), y[y.count / 2].rounded(), z[z.count / 2].rounded())
  }
}
