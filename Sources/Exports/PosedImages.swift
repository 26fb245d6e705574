import Model
import Steps
import Synchronization

/// The images of an episode that a reconstruction can use: those whose camera has a known pose and known intrinsics at their time.
struct PosedImages: Sendable {
  struct Frame: Sendable {
    var row: Int
    /// Camera-to-world, OpenCV's camera axes.
    var pose: Pose
    /// Intrinsics in pixels of the image.
    var intrinsics: Intrinsics
    /// Time of the image, on the episode's time base.
    var nanoseconds: Int64
  }

  let episode: ExportedEpisode
  let streamName: StreamName
  let stream: SampleStream
  let frames: [Frame]
  private let options: SceneOptions

  var id: String { episode.id }
  var size: ImageSize { stream.spec.gridSize }

  /// The images of each episode, as the options choose them.
  ///
  /// Throws `ExportRefusal` with the names of episodes that lack images, poses or intrinsics; notes rows that lack them.
  static func all(of episodes: [ExportedEpisode], _ options: SceneOptions, for format: String, losingTo directory: ExportDirectory)
    throws -> [PosedImages]
  {
    let lacking: [ExportRefusal.Lack] = [
      ("images", "camera_image", episodes.filter { $0.images.isEmpty }), ("poses", "pose", episodes.filter { $0.poseFrame == nil }),
      ("intrinsics", "intrinsics", episodes.filter { !$0.images.isEmpty && $0.posedImage == nil }),
    ]
    try ExportRefusal.check(lacking, of: episodes, format)
    return try episodes.map { try PosedImages($0, options, format, directory) }
  }

  private init(_ episode: ExportedEpisode, _ options: SceneOptions, _ format: String, _ directory: ExportDirectory) throws {
    guard let (name, stream) = episode.posedImage, let path = try CameraPath(episode) else {
      throw ExportRefusal("\(format) needs images, poses and intrinsics, and \(episode.id) lacks some")
    }
    (self.episode, streamName, self.stream, self.options) = (episode, name, stream, options)
    let others = episode.images.map(\.name).filter { $0 != name }
    if !others.isEmpty { directory.lose("\(episode.id): only \(name) is exported, not \(others.map(\.rawValue).abridged).") }
    var (images, poses, intrinsics) = (0, 0, 0)
    let rows = stride(from: 0, to: episode.rows, by: options.every)
    frames = rows.compactMap { row in
      guard let time = episode.time(of: stream, row) else {
        images += 1
        return nil
      }
      guard let pose = path.pose(at: time, of: row) else {
        poses += 1
        return nil
      }
      guard let camera = episode.intrinsics(stream, row) else {
        intrinsics += 1
        return nil
      }
      return Frame(row: row, pose: pose, intrinsics: camera, nanoseconds: episode.nanoseconds(row) + time.since(episode.time(row)))
    }
    let count = Array(rows).count
    for (number, what) in [(images, "image"), (poses, "pose at the time of their image"), (intrinsics, "intrinsics")] where number > 0 {
      directory.lose("\(episode.id): \(number) of \(count) rows have no \(what) and are left out.")
    }
    guard !frames.isEmpty else {
      throw ExportRefusal("\(format) needs images with a pose and intrinsics, and no row of \(episode.id) has all three")
    }
    directory.loseUnit(of: episode)
  }

  /// The name of a row's file without extension. Files sort in the order of rows.
  func name(_ row: Int) -> String { row.padded(to: max(6, String(episode.rows - 1).count)) }

  /// The path of a frame's image, from the folder of its episode.
  func path(_ frame: Frame) -> String { "images/\(name(frame.row)).\(FrameFiles.fileExtension(stream, options.image))" }

  /// Writes the images, and returns the frames whose image could be read. Throws `ExportRefusal` if none could.
  func write(to directory: ExportDirectory) throws -> [Frame] {
    let unreadable = Mutex<Set<Int>>([])
    try directory.inParallel(frames.count) {
      try FrameFiles(streamName, of: episode, as: options.image, quality: options.quality)
    } _: { files, index in
      if let file = try files.image(frames[index].row) {
        try directory.write(file, to: "\(id)/\(path(frames[index]))")
      } else {
        unreadable.withLock { _ = $0.insert(index) }
      }
    }
    let lost = unreadable.withLock { $0 }
    if !lost.isEmpty { directory.lose("\(id): \(lost.count) of \(frames.count) images cannot be read, and their rows are left out.") }
    guard lost.count < frames.count else { throw ExportRefusal("no image of \(id) can be read") }
    return frames.indices.filter { !lost.contains($0) }.map { frames[$0] }
  }
}

extension ExportRefusal {
  /// A need of a format, the stream by which a condition finds the episodes that meet it, and the episodes that do not.
  typealias Lack = (need: String, stream: String?, episodes: [ExportedEpisode])

  /// Throws a refusal that names the episodes that lack what a format needs, and the remedy.
  static func check(_ lacking: [Lack], of all: [ExportedEpisode], _ format: String) throws {
    let found = lacking.filter { !$0.episodes.isEmpty }
    guard !found.isEmpty else { return }
    let reasons = found.map { "\($0.episodes.map(\.id).abridged) \($0.episodes.count == 1 ? "has" : "have") no \($0.need)" }
    let others = Set(all.map(\.id)).subtracting(found.flatMap { $0.episodes.map(\.id) })
    let streams = found.compactMap(\.stream)
    let condition =
      streams.count == found.count ? "--where '\(streams.map { "streams has \($0)" }.joined(separator: " and "))'" : "--episodes"
    let remedy = others.isEmpty ? "" : "; choose the others with \(condition)"
    throw ExportRefusal("\(format) needs \(lacking.map(\.need).formattedList): \(reasons.joined(separator: "; "))\(remedy)")
  }
}

extension [String] {
  /// `images, poses and intrinsics`.
  fileprivate var formattedList: String {
    guard let last, count > 1 else { return first ?? "" }
    return dropLast().joined(separator: ", ") + " and " + last
  }
}

extension ExportedEpisode {
  /// Time of a row on the clock of the frames.
  func time(_ row: Int) -> Timestamp { episode.frames.timestamps[row] }

  /// Time of a row's sample on the clock of the frames; `nil` where the row has none.
  func time(of stream: SampleStream, _ row: Int) -> Timestamp? {
    guard let sample = stream.rows?[row]?.nearest else { return nil }
    // A frame's image has the frame's pose; a video's own times are rounded.
    return stream.spec.kind == .image && !episode.frames.isResampled ? time(row) : stream.timestamps[sample]
  }

  /// The image stream of a camera with intrinsics: the usual one if it has them, otherwise the first by name.
  var posedImage: (name: StreamName, stream: SampleStream)? {
    let known = images.filter { hasIntrinsics($0.stream) }
    return known.first { $0.name == .image } ?? known.first
  }

  /// Whether positions are in meters, as depth is.
  var hasMeters: Bool { poseFrame?.unit.isMetric == true }

  /// The depth maps of an image's camera.
  func depth(of image: SampleStream) -> (name: StreamName, stream: SampleStream)? {
    depths.first { $0.stream.spec.raster?.camera == image.spec.raster?.camera }
  }
}

/// Options of the formats for reconstruction: which images, in which form, and whether with points.
struct SceneOptions: StepOptionGroup {
  @StepOption("format of image files: png (nothing is lost) or jpeg; images that the dataset stores as files keep their bytes")
  var image = ImageFileFormat.png
  @StepOption("quality of JPEG files", 1...100) var quality = 95
  @StepOption("export every nth row", 1...1_000_000) var every = 1
  @StepOption("also fuse depth maps to a point cloud, one point in each cube of this size (m); null: no points", above: 0, through: 1)
  var points: Double? = nil

  /// The point cloud of each episode, if points are wanted. Throws as `DepthFusion.all` does.
  func clouds(of episodes: [ExportedEpisode], for format: String, losingTo directory: ExportDirectory) throws -> [DepthFusion]? {
    try points.map { try DepthFusion.all(of: episodes, FusionSettings(voxel: $0, every: every), for: format, losingTo: directory) }
  }
}
