import Codecs
import Evidence
import Foundation
import Media
package import Model
package import Steps

/// Takes of the Record3D app: an `.r3d` file, which is a zip of `metadata` and `rgbd/`, or its EXR export, `metadata.json` with `rgb/` and
/// `depth/`; each also as the other kind of container.
///
///     reader: {name: record3d, max-image-side: 8192}
package struct Record3D: Reader {
  package static let name = "record3d"
  package static let summary = "Record3D takes (.r3d and EXR exports): images, depth with confidence, poses, intrinsics"
  package static let needsFFmpeg = false

  @StepOption("an image wider or higher than this is not decoded (pixels)", 1...16_384) var maxImageSide = 8192
  @StepOption("copy a location in an image's EXIF data, and all that is beside it, with images that are stored as they are")
  var keepLocation = false
  var archive = Archive.Limits()

  package init() {}

  // MARK: Files

  private enum Form: String, CaseIterable {
    case r3d, exr

    var metadata: String { self == .r3d ? "metadata" : "metadata.json" }
    var subfolders: Set<String> { self == .r3d ? ["rgbd"] : ["rgb", "depth"] }
    var imageFolder: String { self == .r3d ? "rgbd" : "rgb" }

    func role(of path: String) -> TakeInputs.Role? {
      if path == metadata { return .metadata }
      func isNumbered(_ folder: String, _ endings: String...) -> Bool {
        endings.contains { path.hasSuffix($0) } && path.hasPrefix(folder + "/")
          && NumberedFiles.plainNumber(in: path.dropFirst(folder.count + 1)) != nil
      }
      if isNumbered(imageFolder, ".jpg", ".jpeg", ".png") { return .image }
      if self == .exr { return isNumbered("depth", ".exr") ? .depth : nil }
      if isNumbered("rgbd", ".depth") { return .depth }
      return isNumbered("rgbd", ".conf") ? .confidence : nil
    }
  }

  /// Recognizes a folder, or an archive such as `.r3d`, with metadata and `rgbd/`, or with EXR depth maps in `depth/`.
  package func recognize(_ place: TakePlace) throws -> Candidate? {
    guard place.isDirectory else { return try archived(place) }
    if try place.kind(of: "rgbd") == .directory, try place.kind(of: "metadata") != nil { return candidate(place, .r3d) }
    guard try place.kind(of: "metadata.json") != nil, try place.kind(of: "depth") == .directory else { return nil }
    let maps = try Directory.members(of: place.path + "/depth")
    return maps.contains { $0.name.hasSuffix(".exr") } ? candidate(place, .exr) : nil
  }

  private func candidate(_ place: TakePlace, _ form: Form) -> Candidate {
    Candidate(.certain, stem: place.name) { [path = place.path] in
      try TakeListing(folder: path, subfolders: form.subfolders).inputs(role: form.role)
    }
  }

  private func archived(_ place: TakePlace) throws -> Candidate? {
    for form in Form.allCases {
      let candidate = try place.candidate(inArchive: archive) { archive in
        let isPresent = archive.members.contains { member in
          form == .r3d ? member.path.hasSuffix(".depth") && member.path.contains("rgbd/") : member.path.hasSuffix(".exr")
        }
        return isPresent ? try archive.root(holding: [form.metadata], folders: []).map { ($0, form.subfolders, form.role) } : nil
      }
      if let candidate { return candidate }
    }
    guard place.name.lowercased().hasSuffix(".r3d") else { return nil }
    return Candidate(.possible, stem: place.stem) { [archive] in
      _ = try place.archive(archive)
      throw TakeFailure(.noFrames, "the zip has no metadata, or no depth in rgbd/", file: place.name)
    }
  }

  // MARK: Opening

  package func open(_ take: Take) throws -> Episode {
    let inputs = take.inputs
    let notes = FindingCollector()
    guard let file = inputs.entries.firstIndex(where: { $0.role == .metadata }) else {
      throw TakeFailure(.metadataInvalid, "the take has no metadata", file: Form.r3d.metadata)
    }
    let form = Form.allCases.first { $0.metadata == inputs.entries[file].path } ?? .r3d
    let metadata = try Record3DMetadata(inputs, file, notes: notes)
    guard !metadata.poses.isEmpty else { throw TakeFailure(.posesMissing, "the list of poses is empty", file: form.metadata) }
    let images = NumberedFiles.images(in: inputs, isPadded: false, notes)
    let times = try FrameTimes(metadata, images: images.keys.max().map { $0 + 1 } ?? 0, file: form.metadata, notes)
    let poses = try PoseList(
      metadata.poses.enumerated().map { number, pose in
        PoseList.Entry(
          number: Int64(number), timestamp: times.time(of: number), hasTime: times.hasTime(number), pose: pose, depthIndex: Int64(number),
          place: number)
      }, file: form.metadata, number: "the place in poses", notes: notes)

    var capture = NumberedCapture(
      inputs: inputs, notes: notes, poses: poses, poseFrame: poseFrame(metadata), clock: times.clock,
      images: images, imagePlace: form.imageFolder, maxImageSide: maxImageSide, keepsLocation: keepLocation)
    capture.usualIntrinsics = metadata.intrinsics
    if [0, metadata.poses.count].contains(metadata.frameIntrinsics.count) {
      for (number, intrinsics) in metadata.frameIntrinsics.enumerated() {
        capture.intrinsics[Int64(number)] = GivenIntrinsics(intrinsics, of: metadata.imageSize)
      }
    } else {
      notes.add(
        .countMismatch,
        "there are \(metadata.frameIntrinsics.count) intrinsics and \(metadata.poses.count) poses; K is used for all frames",
        file: form.metadata, field: ".perFrameIntrinsicCoeffs")
    }
    var episode = try capture.episode(id: take.id) { fullSize in
      guard let depth = try depth(form, metadata, fullSize, inputs) else { return (nil, nil) }
      return (depth, confidence(of: depth, inputs))
    }
    episode.variant = form.rawValue
    episode.details["camera"] = metadata.cameraType.map { .string($0 == 0 ? "TrueDepth" : "LiDAR") }
    // The poses of real takes are in the world already; whatever stands here is not applied.
    episode.details["init_pose"] = metadata.initialPose.map { .array($0.map { .number($0) }) }
    return episode
  }

  /// Poses are those of the camera of the image as it is stored, also of portrait ones. The world of versions before about 2022 begins at the
  /// first frame, so that nothing is known of gravity there.
  private func poseFrame(_ metadata: Record3DMetadata) -> PoseFrame {
    guard let first = metadata.poses.compactMap(\.self).first else { return .arkit }
    let isIdentity = abs(abs(first.quaternion.w) - 1) < 1e-6 && (first.position * first.position).sum() < 1e-12
    return isIdentity ? PoseFrame(cameraAxes: .arkit, worldAxes: "those of the camera of the first frame", unit: .meters) : .arkit
  }

  // MARK: Depth

  private func depth(
    _ form: Form, _ metadata: Record3DMetadata, _ fullSize: ImageSize, _ inputs: TakeInputs
  ) throws -> NumberedCapture.Maps? {
    let files = NumberedFiles.entries(.depth, in: inputs, isPadded: false)
    guard !files.isEmpty else { return nil }
    let size = try depthSize(form, files, metadata, fullSize, inputs)
    return NumberedCapture.Maps(files: files, size: size, type: .float32, unit: "m") { files in
      DecodedFiles(inputs: inputs, files: files, undecodable: .depthUndecodable, decode: Self.depthDecoder(form, size))
    }
  }

  private func confidence(of depth: NumberedCapture.Maps, _ inputs: TakeInputs) -> NumberedCapture.Maps {
    let size = depth.size
    let files = NumberedFiles.entries(.confidence, in: inputs, isPadded: false)
    return NumberedCapture.Maps(files: files, size: size, type: .uint8, unit: NumberedCapture.Maps.levels) { files in
      DecodedFiles(
        inputs: inputs, files: files, undecodable: .confidenceUndecodable,
        missing: Finding(.confidenceMissing, "depth maps without a confidence of their number")
      ) { file, rows in
        try file.withUnsafeBytes { try LZFSE.decode($0, count: size.width * size.height, into: &rows) }
        if let invalid = rows.first(where: { $0 > 2 }) { throw DecodedFiles.Problem("a confidence is \(invalid); expected 0, 1 or 2") }
      }
    }
  }

  private static func depthDecoder(_ form: Form, _ size: ImageSize) -> DecodedFiles.Decode {
    { file, rows in
      switch form {
      case .r3d: try file.withUnsafeBytes { try LZFSE.decode($0, count: 4 * size.width * size.height, into: &rows) }
      case .exr:
        try file.withUnsafeBytes { file in
          let map = try EXRDepth(file, limit: 1000)
          guard map.width == size.width, map.height == size.height else {
            throw DecodedFiles.Problem("it is \(map.width)x\(map.height), the first is \(size)")
          }
          var values: [Float] = []
          try map.decode(file, into: &values)
          rows = values.withUnsafeBytes { Array($0) }
        }
      }
      clearInvalidDepth(in: &rows)
    }
  }

  /// Grids of the sensors, by their number of values: of the LiDAR, and of TrueDepth cameras.
  private static let grids = [(256, 192), (640, 480), (960, 720)].map { ImageSize(width: $0.0, height: $0.1) }

  /// Returns the size in the metadata or in the first map that can be decoded; in older takes, the number of values tells the sensor.
  private func depthSize(
    _ form: Form, _ files: [Int64: Int], _ metadata: Record3DMetadata, _ image: ImageSize, _ inputs: TakeInputs
  ) throws -> ImageSize {
    if form == .r3d, let size = metadata.depthSize { return size }
    var bytes: [UInt8] = []
    var first: (problem: String, file: String)?
    for file in files.sorted(by: { $0.key < $1.key }).map(\.value) {
      do {
        try inputs.readSample(file, limit: DecodedFiles.byteLimit, hasher: SHA256(), as: .depthUndecodable, into: &bytes)
      } catch let failure as SampleFailure {
        first = first ?? (failure.finding.message, inputs.entries[file].path)
        continue
      }
      do {
        return try bytes.withUnsafeBytes { try Self.depthSize($0, form, image) }
      } catch {
        first = first ?? ("\(error)", inputs.entries[file].path)
      }
    }
    throw TakeFailure(
      .depthUndecodable, "none of its \(files.count) depth maps can be decoded, the first: \(first?.problem ?? "it is empty")",
      file: first?.file)
  }

  private static func depthSize(_ map: UnsafeRawBufferPointer, _ form: Form, _ image: ImageSize) throws -> ImageSize {
    if form == .exr {
      let map = try EXRDepth(map, limit: 1000)
      return ImageSize(width: map.width, height: map.height)
    }
    guard let count = LZFSE.decodedCount(map) else { throw DecodedFiles.Problem("it is not LZFSE data") }
    guard let grid = grids.first(where: { 4 * $0.width * $0.height == count }) else {
      throw DecodedFiles.Problem("it has \(count) bytes, which is the size of no sensor's maps, and the metadata have no dw and dh")
    }
    return image.width < image.height ? ImageSize(width: grid.height, height: grid.width) : grid
  }
}

/// The times of a take's frames: those in its metadata, in seconds since its start, or else their numbers at its rate.
private struct FrameTimes {
  let clock: Clock
  private let times: [Timestamp?]
  private let period: Double?

  /// - Parameter images: Frames by the numbers of their images.
  init(_ metadata: Record3DMetadata, images: Int64, file: String, _ notes: FindingCollector) throws {
    // In lists of two lengths, the images' numbers tell whether poses are those of their places; nothing tells which times are.
    let isWhole = metadata.times.isEmpty || metadata.times.count == metadata.poses.count
    times = isWhole ? metadata.times : []
    if !isWhole {
      let words = "there are \(metadata.times.count) times and \(metadata.poses.count) poses"
      guard images == metadata.poses.count, metadata.rate != nil else {
        throw TakeFailure(.countMismatch, words + "; expected one time for each pose", file: file, field: ".frameTimestamps")
      }
      notes.add(.countMismatch, words + "; which belong together is unknown, so they are not used", file: file, field: ".frameTimestamps")
    }
    guard times.isEmpty else {
      period = nil
      // Other programs write Unix time.
      let isUnix = times.compactMap(\.self).first.map { (1_262_304_000...4_000_000_000).contains($0.nanoseconds / 1_000_000_000) } ?? false
      clock = isUnix ? .phoneUnix : .mediaTime
      return
    }
    clock = .frameNumber
    guard let rate = metadata.rate else {
      throw TakeFailure(.jsonType, "the metadata have neither frameTimestamps nor fps, so frames have no time", file: file)
    }
    period = 1e9 / rate
    notes.add(.timesAssumed, "the metadata have no \(isWhole ? "" : "usable ")frameTimestamps; frame n is at n / \(rate) s", file: file)
  }

  func hasTime(_ number: Int) -> Bool { period != nil || times.indices.contains(number) && times[number] != nil }

  func time(of number: Int) -> Timestamp {
    if let period { return Timestamp(nanoseconds: 0).advanced(byNanoseconds: Double(number) * period) }
    return (times.indices.contains(number) ? times[number] : nil) ?? Timestamp(nanoseconds: 0)
  }
}
