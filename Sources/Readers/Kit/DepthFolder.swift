import Model

/// The depth maps in a take's folder `depth/`, by number, and the poses that name them.
struct DepthFolder {
  /// Poses whose depth map is present, with its entry in the inputs.
  private(set) var present: [(pose: PoseList.Entry, file: Int)] = []

  /// Notes maps that no pose names, and names without a map.
  ///
  /// - Parameter what: Source of the depth map names, for messages: `poses.json`.
  /// - Parameter causes: The reason why maps are missing, in parentheses, where the format knows it.
  init(_ files: [Int64: Int], of poses: PoseList, _ what: String, causes: String = "", _ notes: FindingCollector) {
    let orphans = Set(files.keys).subtracting(poses.entries.compactMap(\.depthIndex)).count
    if orphans > 0 {
      notes.add(.depthOrphaned, "depth maps that \(what) does not name are skipped", file: "depth", count: orphans)
    }
    let named = poses.entries.filter { $0.depthIndex != nil && $0.isInOrder }
    present = named.compactMap { entry in entry.depthIndex.flatMap { files[$0] }.map { (entry, $0) } }
    if present.count < named.count {
      notes.add(
        .depthMissing, "depth maps that \(what) names are not in depth/\(causes)", file: "depth", count: named.count - present.count)
    }
  }
}
