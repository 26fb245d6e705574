import Datasets
import Evidence
import Foundation
import Media
import Model
import Steps
import Synchronization

/// Scenes for nerfstudio: per episode `transforms.json`, `images/` and `depth/`.
///
/// Poses are camera-to-world with OpenGL's camera axes (x right, y up, z back). A world with y up becomes one with z up, x' y' z' = z x y,
/// which `applied_transform` says; other worlds stay. Depth is 16-bit PNG in millimeters, 0 where unknown; nerfstudio enlarges it to the image.
/// Source: nerfstudio's page "Data Conventions" and its data parser, which sorts frames by file name.
struct NerfstudioExporter: Exporter {
  static let name = "nerfstudio"
  static let summary = "scenes for nerfstudio: images, depth, transforms.json"

  var options = SceneOptions()

  func export(_ episodes: [ExportedEpisode], of dataset: Dataset, to directory: ExportDirectory) throws {
    let scenes = try PosedImages.all(of: episodes, options, for: Self.name, losingTo: directory)
    let clouds = try options.clouds(of: episodes, for: Self.name, losingTo: directory)
    directory.lose("The format has camera poses, images and depth maps only: no confidence, joints, actions or IMU.")
    var notes: [String: JSONValue] = [:]
    for (index, scene) in scenes.enumerated() {
      let frames = try scene.write(to: directory)
      let world = World(scene.episode.poseFrame)
      let depth = DepthImages(scene, frames)
      try depth?.write(to: directory)
      if let cloud = try clouds?[index].cloud(in: directory) {
        try directory.writing("\(scene.id)/points.ply") { write in
          notes[scene.id] = cloud.note(try PLYFile.write(cloud.grid, hasColor: cloud.hasColor, write, world: world.saved))
        }
      }
      try directory.write(transforms(frames, of: scene, world, hasDepth: depth != nil), to: "\(scene.id)/transforms.json")
    }
    if !notes.isEmpty { directory.note("clouds", .object(notes)) }
  }

  /// `transforms.json`, a frame on each line.
  private func transforms(_ frames: [PosedImages.Frame], of scene: PosedImages, _ world: World, hasDepth: Bool) -> [UInt8] {
    var members: [String: JSONValue] = ["camera_model": "OPENCV", "k1": 0, "k2": 0, "p1": 0, "p2": 0]
    // Programs that know one camera for all images read it here.
    if let first = frames.first, frames.allSatisfy({ $0.intrinsics == first.intrinsics }) {
      members.merge(camera(first.intrinsics, scene.size)) { $1 }
    }
    if world.isGravityAligned { members["orientation_override"] = "none" }
    if world.turns { members["applied_transform"] = [[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]] }
    if hasDepth { members["depth_unit_scale_factor"] = .number(0.001) }
    if options.points != nil { members["ply_file_path"] = "points.ply" }
    let lines = members.sorted { $0.key < $1.key }.map { "\(JSONValue.string($0.key).canonicalText): \($0.value.canonicalText)" }
    var text = Array("{\n\(lines.joined(separator: ",\n")),\n\"frames\": [\n".utf8)
    for (index, frame) in frames.enumerated() {
      var members = camera(frame.intrinsics, scene.size)
      members["file_path"] = .string(scene.path(frame))
      members["timestamp_ns"] = .integer(frame.nanoseconds)
      members["transform_matrix"] = world.matrix(frame.pose)
      if hasDepth { members["depth_file_path"] = .string(DepthImages.path(scene.name(frame.row))) }
      JSONValue.object(members).appendCanonical(to: &text)
      text += (index + 1 < frames.count ? ",\n" : "\n").utf8
    }
    return text + "]\n}\n".utf8
  }

  private func camera(_ intrinsics: Intrinsics, _ size: ImageSize) -> [String: JSONValue] {
    [
      "fl_x": .number(intrinsics.fx), "fl_y": .number(intrinsics.fy), "cx": .number(intrinsics.cx), "cy": .number(intrinsics.cy),
      "w": JSONValue(size.width), "h": JSONValue(size.height),
    ]
  }
}

/// The world of a scene.
private struct World {
  /// Whether its axes are permuted, so that z is up instead of y.
  let turns: Bool
  let isGravityAligned: Bool

  init(_ frame: PoseFrame?) {
    turns = frame?.worldAxes.up == .y
    isGravityAligned = frame?.worldAxes.up != nil
  }

  /// A vector in the world as it is saved.
  func saved<Number>(_ v: SIMD3<Number>) -> SIMD3<Number> { turns ? [v.z, v.x, v.y] : v }

  /// The 4x4 matrix of a pose with OpenCV's camera axes, in OpenGL's.
  func matrix(_ pose: Pose) -> JSONValue {
    let axes = pose.axes
    let columns = [saved(axes.x), saved(-axes.y), saved(-axes.z), saved(pose.position)]
    let rows = (0..<3).map { row in JSONValue.array(columns.map { .number($0[row]) }) }
    return .array(rows + [[0, 0, 0, 1]])
  }
}

/// The depth maps of a scene's frames: one file for each frame, because nerfstudio wants depth for all frames or for none.
private struct DepthImages {
  private let scene: PosedImages
  private let frames: [PosedImages.Frame]
  private let name: StreamName
  private let stream: SampleStream
  /// The depth pixel of each pixel of the image, -1 where there is none, if depth maps and images have different fields of view; `nil` if
  /// they have the same, and depth maps stay on their own grid.
  private let imagePixels: [Int32]?

  /// `nil` for a scene whose camera has no depth maps, or none in the unit of the poses.
  init?(_ scene: PosedImages, _ frames: [PosedImages.Frame]) {
    guard let (name, stream) = scene.episode.depth(of: scene.stream), scene.episode.hasMeters,
      frames.contains(where: { scene.episode.time(of: stream, $0.row) != nil })
    else { return nil }
    (self.scene, self.name, self.stream, self.frames) = (scene, name, stream, frames)
    imagePixels = Self.pixels(of: stream.spec, for: scene.stream.spec)
  }

  static func path(_ name: String) -> String { "depth/\(name).png" }

  private static func pixels(of depth: StreamSpec, for image: StreamSpec) -> [Int32]? {
    guard let from = image.raster, let to = depth.raster else { return nil }
    let depthFromImage = to.rasterFromFull.after(from.rasterFromFull.inverse)
    let (corner, opposite) = (depthFromImage(0, 0), depthFromImage(Double(from.size.width), Double(from.size.height)))
    let (width, height) = (Double(to.size.width), Double(to.size.height))
    if max(abs(corner.x), abs(corner.y), abs(opposite.x - width), abs(opposite.y - height)) < 1e-6 { return nil }
    return from.pixels(of: to)
  }

  /// Writes a map for each frame, without any value where the frame has none.
  func write(to directory: ExportDirectory) throws {
    let size = imagePixels == nil ? stream.spec.gridSize : scene.size
    let lost = Mutex((maps: 0, values: 0))
    try directory.inParallel(frames.count) {
      try DepthMillimeters(name, of: scene.episode)
    } _: { files, index in
      let before = files.beyondRange
      let values = try files.values(frames[index].row)
      let far = files.beyondRange - before
      lost.withLock { $0 = ($0.maps + (values == nil ? 1 : 0), $0.values + far) }
      var pixels = values ?? Array(repeating: 0, count: size.width * size.height)
      if let values, let imagePixels { pixels = imagePixels.map { $0 < 0 ? 0 : values[Int($0)] } }
      let file = try PNG.encodeGray(pixels.withUnsafeBytes { Array($0) }, bits: 16, size: size)
      try directory.write(file, to: "\(scene.id)/\(Self.path(scene.name(frames[index].row)))")
    }
    note(lost.withLock { $0 }, directory)
  }

  private func note(_ lost: (maps: Int, values: Int), _ directory: ExportDirectory) {
    let id = scene.id
    if lost.maps > 0 {
      directory.lose("\(id): \(lost.maps) of \(frames.count) frames have no depth map; every pixel of theirs is 0, unknown.")
    }
    if lost.values > 0 { directory.lose("\(id): \(lost.values) depth values are beyond 65.535 m, and are 0, unknown.") }
    let others = frames.compactMap { frame -> UInt64? in
      guard let depth = scene.episode.time(of: stream, frame.row), let image = scene.episode.time(of: scene.stream, frame.row) else {
        return nil
      }
      return depth == image ? nil : depth.since(image).magnitude
    }
    if let worst = others.max() {
      let milliseconds = (Double(worst) / 1e5).rounded() / 10
      directory.lose("\(id): \(others.count) depth maps were taken up to \(milliseconds) ms before or after their image.")
    }
  }
}
