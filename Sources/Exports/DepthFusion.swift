import Evidence
import Model
import Steps
import Synchronization

/// The settings for making a point cloud of depth maps.
struct FusionSettings: Sendable {
  /// Edge of the cubes of which each gets one point (m).
  var voxel: Double
  /// Use the depth map of every nth row.
  var every = 1
  /// The range of depth values to use (m). A phone's LiDAR reaches 5 m.
  var least: Float = 0
  var greatest: Float = 5
  /// The least confidence; `nil` for high confidence where the source has it.
  var confidence: Int?
  /// Leave out values that differ from one of their four neighbors by more than this fraction of the nearer one, because sensors put points
  /// between the two surfaces of an edge; 0 for none. A floor seen from 1.3 m above differs by less up to 12 m away.
  var edge: Float = 0.05
}

/// The depth maps of an episode, fused to a point cloud in the world of its poses.
///
/// Each map counts once, with the pose and the intrinsics of its own time, even if several rows have it as their nearest. A point's color is
/// the pixel of the row's image that it falls into.
struct DepthFusion: Sendable {
  private let episode: ExportedEpisode
  private let depth: StreamName
  private let confidence, image: StreamName?
  private let maps: [PosedDepthMap]
  private let settings: FusionSettings

  var id: String { episode.id }
  /// Whether there are images that points have their color from.
  var hasColor: Bool { image != nil }

  /// Throws `ExportRefusal` with the names of episodes that lack depth maps, poses or intrinsics, or whose poses are not in meters; notes
  /// rows that are not used.
  static func all(of episodes: [ExportedEpisode], _ settings: FusionSettings, for format: String, losingTo directory: ExportDirectory)
    throws -> [DepthFusion]
  {
    let lacking: [ExportRefusal.Lack] = [
      ("depth maps", "camera_depth", episodes.filter { $0.depths.isEmpty }), ("poses in meters", nil, episodes.filter { !$0.hasMeters }),
      ("intrinsics", "camera_depth_intrinsics", episodes.filter { !$0.depths.isEmpty && $0.posedDepth == nil }),
    ]
    try ExportRefusal.check(lacking, of: episodes, format)
    return try episodes.map { try DepthFusion($0, settings, format, directory) }
  }

  private init(_ episode: ExportedEpisode, _ settings: FusionSettings, _ format: String, _ directory: ExportDirectory) throws {
    guard let (name, depth) = episode.posedDepth, let path = try CameraPath(episode) else {
      throw ExportRefusal("\(format) needs depth maps, poses and intrinsics, and \(episode.id) lacks some")
    }
    (self.episode, self.depth, self.settings) = (episode, name, settings)
    confidence = episode.confidence(of: depth)
    let colors = episode.images.first { $0.stream.spec.raster?.camera == depth.spec.raster?.camera }
    image = colors?.name
    if confidence == nil, let wanted = settings.confidence, wanted > 0 {
      directory.lose("\(episode.id): the source has no confidence, so all depth values count.")
    }
    if image == nil { directory.lose("\(episode.id): the points have no color, because \(name) has no image of its camera.") }
    directory.loseUnit(of: episode)
    let others = episode.depths.map(\.name).filter { $0 != name }
    if !others.isEmpty { directory.lose("\(episode.id): only \(name) is fused, not \(others.map(\.rawValue).abridged).") }

    var (maps, missing): ([PosedDepthMap], [String: Int]) = ([], [:])
    for row in Self.rows(of: depth, in: episode, every: settings.every) {
      do {
        maps.append(try Self.map(row, depth, colors?.stream, path, episode))
      } catch let reason as MissingPart {
        missing[reason.rawValue, default: 0] += 1
      }
    }
    self.maps = maps
    for (part, count) in missing.sorted(by: { $0.key < $1.key }) {
      directory.lose("\(episode.id): \(count) depth maps have no \(part) and are left out.")
    }
    if maps.isEmpty {
      let reasons = missing.sorted { $0.key < $1.key }.map { "\($0.value) without \($0.key)" }.joined(separator: ", ")
      throw ExportRefusal("\(format): no depth map of \(episode.id) can be used: \(reasons.isEmpty ? "no row has one" : reasons)")
    }
  }

  /// The part that a depth map lacks.
  private enum MissingPart: String, Error {
    case pose = "pose at their time"
    case intrinsics
    case image
    case imagePose = "pose at the time of their image"
  }

  /// One row for each depth map: the one nearest in time to the map, the earlier of two.
  private static func rows(of depth: SampleStream, in episode: ExportedEpisode, every step: Int) -> [Int] {
    var best: [Int64: (row: Int, delay: UInt64)] = [:]
    for row in stride(from: 0, to: episode.rows, by: step) {
      guard let sample = depth.rows?[row]?.nearest else { continue }
      let delay = depth.timestamps[sample].since(episode.time(row)).magnitude
      let number = depth.sourceIndex[sample]
      if best[number].map({ delay < $0.delay }) ?? true { best[number] = (row, delay) }
    }
    return best.values.map(\.row).sorted()
  }

  private static func map(_ row: Int, _ depth: SampleStream, _ image: SampleStream?, _ path: CameraPath, _ episode: ExportedEpisode)
    throws -> PosedDepthMap
  {
    guard let time = episode.time(of: depth, row), let pose = path.pose(at: time, of: row) else { throw MissingPart.pose }
    guard let intrinsics = episode.intrinsics(depth, row) else { throw MissingPart.intrinsics }
    var map = PosedDepthMap(row: row, pose: pose, intrinsics: intrinsics)
    guard let image else { return map }
    guard let imageTime = episode.time(of: image, row) else { throw MissingPart.image }
    if imageTime != time {
      guard let other = path.pose(at: imageTime, of: row), let camera = episode.intrinsics(image, row) else {
        throw MissingPart.imagePose
      }
      map.image = PosedDepthMap.View(cameraFromWorld: other.inverse, intrinsics: camera)
    }
    return map
  }

  /// The point cloud. Throws `ExportRefusal` if it has no point.
  func cloud(in directory: ExportDirectory) throws -> FusedCloud {
    let grid = VoxelGrid(size: settings.voxel)
    let totals = Mutex(FusionCounts())
    try directory.inParallel(maps.count) {
      try DepthUnprojector(episode, depth: depth, confidence: confidence, image: image, settings)
    } _: { unprojector, index in
      let counts = try unprojector.unproject(maps[index])
      grid.add(&unprojector.points)
      totals.withLock { $0 += counts }
    }
    let counts = totals.withLock { $0 }
    if counts.maps < maps.count {
      directory.lose("\(id): \(maps.count - counts.maps) depth maps, or their image or confidence, cannot be read.")
    }
    if counts.beyondGrid > 0 {
      directory.lose("\(id): \(counts.beyondGrid) points are left out, because they are more than \(1 << 20) voxels from the origin.")
    }
    guard grid.count > 0 else {
      throw ExportRefusal("the point cloud of \(id) is empty: \(counts.reasons)")
    }
    return FusedCloud(id: id, grid: grid, hasColor: hasColor, counts: counts)
  }
}

/// The point cloud of an episode.
struct FusedCloud {
  let id: String
  let grid: VoxelGrid
  let hasColor: Bool
  let counts: FusionCounts

  /// Returns the note about it in `takeset-export.json`.
  func note(_ bounds: VoxelGrid.Bounds) -> JSONValue {
    func corner(_ position: SIMD3<Float>) -> JSONValue { .array((0..<3).map { .number(Double(position[$0])) }) }
    return [
      "points": JSONValue(bounds.points), "minimum": corner(bounds.minimum), "maximum": corner(bounds.maximum),
      "depth_maps": JSONValue(counts.maps), "depth_values": JSONValue(counts.valid), "below_confidence": JSONValue(counts.unsure),
      "out_of_range": JSONValue(counts.outOfRange), "at_edges": JSONValue(counts.edges), "outside_image": JSONValue(counts.uncolored),
    ]
  }
}

extension ExportedEpisode {
  /// The depth maps of a camera with intrinsics: the usual ones if it has them, otherwise the first by name.
  fileprivate var posedDepth: (name: StreamName, stream: SampleStream)? {
    let known = depths.filter { hasIntrinsics($0.stream) }
    return known.first { $0.name == .depth } ?? known.first
  }
}
