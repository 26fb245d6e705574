import Evidence
import Media
import Model
import Steps

/// A capture whose poses, images, depth maps and confidence belong together by their numbers, as most apps export: from its parts to an
/// episode. A row is a pose with an image of its number.
struct NumberedCapture {
  /// Maps of one size by number.
  struct Maps {
    var files: [Int64: Int]
    var size: ImageSize
    var type: ScalarType
    var unit: String
    /// Longest side that is read, in pixels.
    var sideLimit = 1000
    /// The source of these files, of which some may be missing.
    var source: ([Int?]) -> any SampleSource
  }

  let inputs: TakeInputs
  let notes: FindingCollector
  /// Poses of the camera of the images as they are stored.
  var poses: PoseList
  /// `nil` where entries have times and no poses.
  var poseFrame: PoseFrame?
  var clock: Clock
  /// Entries of the images.
  var images: [Int64: Int]
  /// The place of images, for messages: `rgb`.
  var imagePlace: String
  /// Whether the app makes images of some poses only, so that the others miss nothing.
  var hasFewImages = false
  var usualIntrinsics: GivenIntrinsics?
  var intrinsics: [Int64: GivenIntrinsics] = [:]
  /// The reason why images and depth maps that the poses name are missing, in parentheses, where the format knows it.
  var imageCauses = "", depthCauses = ""
  /// The source's own number of a frame, where frames are in another order.
  var sourceNumber: (Int64) -> Int64 = { $0 }
  var maxImageSide: Int
  var keepsLocation: Bool

  /// Makes the episode, without a variant.
  ///
  /// - Parameter maps: Called with the size of full images; the depth maps, and their confidence.
  func episode(id: String, maps: (ImageSize) throws -> (depth: Maps?, confidence: Maps?)) throws -> Episode {
    var posed = poses
    if hasFewImages {
      posed.entries.removeAll { images[$0.number] == nil }
      noteUnequalEnds(posed.entries)
    }
    let join = try FrameJoin(poses: posed, images: images, in: imagePlace, causes: imageCauses, notes: notes)
    let rows = join.rows.map { posed.entries[$0] }
    let entries = rows.compactMap { images[$0.number] }
    let size = try ImageFiles.size(of: FileSamples(inputs: inputs, entries: entries), limit: maxImageSide)
    let source = ImageFiles(
      samples: FileSamples(inputs: inputs, entries: entries), size: size, limit: maxImageSide, keepsMetadata: keepsLocation)
    var camera = camera(images: size, rows)

    var frames = Episode.Frames(timestamps: rows.map(\.timestamp), sourceIndex: rows.map { sourceNumber($0.number) }, clock: clock)
    let quality = poseFrame.flatMap { frame in
      poses.quality(of: rows.compactMap(\.pose), at: frames.timestamps, isMetric: frame.unit.isMetric, notes)
    }
    frames.quality = quality ?? []
    notes.add(frames.droppedFrames(places: join.places))

    var streams: [StreamName: SampleStream] = [
      .image: SampleStream(
        spec: StreamSpec(
          raster: Raster(size: size, covering: camera.size), kind: .image, type: .uint8, channels: 3, unit: "sRGB 0..255", clock: clock),
        source: source, timestamps: frames.timestamps, sourceIndex: frames.sourceIndex, rows: rows.indices.rows)
    ]
    streams[.image]?.spec.sourceEncoding = source.encoding
    if let poseFrame, quality != nil {
      streams[.pose] = SampleStream(
        spec: StreamSpec(kind: .pose(poseFrame), type: .float32, shape: [7], unit: poseFrame.unit.rawValue, clock: clock),
        source: VectorSource(rows.compactMap(\.pose)), timestamps: frames.timestamps, sourceIndex: frames.sourceIndex,
        rows: rows.indices.rows)
    } else {
      camera.pose = nil
    }
    try add(maps(camera.size), camera, &streams)

    var episode = Episode(id: id, sourceFrames: join.sourceFrames, frames: frames, streams: streams)
    episode.cameras[.phone] = camera
    episode.findings = notes.findings
    episode.dropped = join.dropped
    episode.captureStart = poses.entries.first(where: \.isInOrder)?.timestamp
    episode.unixOrigin = Episode.UnixOrigin(start: episode.captureStart, listed: frames.timestamps, on: clock)
    episode.dates = Day.dates(name: id, nil)
    episode.details = inputs.details
    if let coverage = join.coverage { episode.details["coverage"] = .number(coverage) }
    return episode
  }

  /// Notes images that begin late or end early: of an app that makes images of some poses only, no single one is missed.
  private func noteUnequalEnds(_ shown: [PoseList.Entry]) {
    let (all, times) = (poses.entries.filter(\.isInOrder).map(\.timestamp), shown.filter(\.isInOrder).map(\.timestamp))
    guard let first = all.first, let last = all.last, let begin = times.first, let end = times.last, let step = Cadence(times).nominalPeriod
    else { return }
    // An app may choose its images in irregular steps.
    let longest = zip(times, times.dropFirst()).map { Double($1.since($0)) }.max() ?? 0
    let limit = max(Self.stepsAtAnEnd * step, longest, Self.leastAtAnEnd)
    func seconds(_ nanoseconds: Double) -> String { "\((nanoseconds / 1e7).rounded() / 100) s" }
    for (missing, what, side) in [(begin.since(first), "begin", "after the first"), (last.since(end), "end", "before the last")]
    where Double(missing) > limit {
      notes.add(
        .partialUpload, "images \(what) \(seconds(Double(missing))) \(side) pose; there is one every \(seconds(step))", file: imagePlace)
    }
  }
  /// Images that begin later or end earlier than by so many of their steps, and so long (nanoseconds), are not all there.
  private static let stepsAtAnEnd = 2.5, leastAtAnEnd = 250_000_000.0

  private func add(_ maps: (depth: Maps?, confidence: Maps?), _ camera: Camera, _ streams: inout [StreamName: SampleStream]) throws {
    guard let depth = maps.depth, !depth.files.isEmpty else { return }
    let present = DepthFolder(depth.files, of: poses, poses.file, causes: depthCauses, notes).present
    guard !present.isEmpty else { return }
    try depth.check(poses.file)
    func stream(_ kind: StreamKind, _ maps: Maps, _ files: [Int?]) -> SampleStream {
      SampleStream(
        spec: StreamSpec(
          raster: Raster(size: maps.size, covering: camera.size), kind: kind, type: maps.type, channels: 1, unit: maps.unit, clock: clock),
        source: maps.source(files), timestamps: present.map(\.pose.timestamp), sourceIndex: present.map { sourceNumber($0.pose.number) })
    }
    streams[.depth] = stream(.depth, depth, present.map(\.file))
    if let confidence = maps.confidence, !confidence.files.isEmpty {
      streams[.confidence] = stream(.confidence, confidence, present.map { confidence.files[$0.pose.number] })
    }
  }
}

extension NumberedCapture.Maps {
  static let levels = "0 low, 1 medium, 2 high"

  /// Throws `TakeFailure` where the maps are too large, or none of them can be decoded.
  ///
  /// - Parameter file: The file that declares their size.
  func check(_ file: String? = nil) throws {
    guard max(size.width, size.height) <= sideLimit else {
      throw TakeFailure(.limit, "the depth maps are \(size), over the limit of \(sideLimit)x\(sideLimit)", file: file)
    }
    let files = files.sorted { $0.key < $1.key }.map(\.value)
    var cursor = try source(files).makeCursor(SampleRequest(form: .decoded))
    var bytes: [UInt8] = []
    var first: Finding?
    for index in files.indices {
      do {
        return try cursor.read(index, into: &bytes)
      } catch let failure as SampleFailure {
        first = first ?? failure.finding
      }
    }
    throw Self.undecodable(files.count, first)
  }

  private static func undecodable(_ count: Int, _ first: Finding?) -> TakeFailure {
    TakeFailure(
      .depthUndecodable, "none of its \(count) depth maps can be decoded" + (first.map { ", the first: \($0.message)" } ?? ""),
      file: first?.file)
  }

  /// Gray PNG files of whole units of `scale` meters, by default of millimeters; `nil` where there are none. Throws `TakeFailure` where none
  /// can be decoded.
  static func gray(_ files: [Int64: Int], of scale: Double = 0.001, in inputs: TakeInputs) throws -> Self? {
    guard !files.isEmpty else { return nil }
    let (size, first) = try GrayPNGFiles.size(of: files.sorted { $0.key < $1.key }.map(\.value), in: inputs, .depth)
    guard let size else { throw undecodable(files.count, first) }
    if abs(scale - 0.001) < 1e-9 {
      return Self(files: files, size: size, type: .uint16, unit: "mm", sideLimit: GrayPNGFiles.sideLimit) {
        GrayPNGFiles(inputs: inputs, files: $0, content: .depth, size: size)
      }
    }
    return Self(files: files, size: size, type: .float32, unit: "m", sideLimit: GrayPNGFiles.sideLimit) { files in
      DecodedFiles(inputs: inputs, files: files, undecodable: .depthUndecodable) { file, rows in
        var units: [UInt8] = []
        try file.withUnsafeBytes { try PNG.decodeGray($0, bits: 16, size: size, into: &units) }
        let meters = units.withUnsafeBytes { $0.bindMemory(to: UInt16.self).map { Float(Double($0) * scale) } }
        rows = meters.withUnsafeBytes { Array($0) }
        clearInvalidDepth(in: &rows)
      }
    }
  }

  /// Gray PNG files of the confidence levels 0, 1 and 2, of the size of the depth maps.
  static func levels(_ files: [Int64: Int], of depth: Self, in inputs: TakeInputs) -> Self {
    Self(files: files, size: depth.size, type: .uint8, unit: levels) {
      GrayPNGFiles(inputs: inputs, files: $0, content: .confidence, size: depth.size)
    }
  }
}
