import Foundation
import Media

/// Sessions of the StackCapture iPhone app: a folder with `poses.json`, `rgb/NNNNNN.jpg`, and, by variant, depth maps
/// (`v1`) or one depth number a frame and joint encoders (`v2`).
///
///     reader: {name: stack-session, max-image-side: 8192}
package struct StackSession: Reader {
  package static let name = "stack-session"
  package static let summary = "StackCapture sessions: ARKit poses, JPEG pictures, depth maps or points, joint encoders"
  package static let help = [
    "max-image-side": "pixels; a picture wider or higher than this is not decoded",
    "max-json-mebibytes": "a JSON file larger than this fails the take",
  ]

  /// Metadata is a page of text.
  private static let metadataLimit = 1 << 20

  var maxImageSide = 8192
  var maxJsonMebibytes = 64

  package init() {}

  package func validate() throws {
    if !(1...16_384).contains(maxImageSide) { throw OptionError("max-image-side", "expected 1 to 16384") }
    if !(1...4096).contains(maxJsonMebibytes) { throw OptionError("max-json-mebibytes", "expected 1 to 4096") }
  }

  package func recognises(_ place: TakeLocation) -> Bool {
    place.isDirectory
      && (Directory.existingKind(of: place.path + "/poses.json") != nil
        || Directory.existingKind(of: place.path + "/rgb") == .directory
        || Directory.existingKind(of: place.path + "/metadata.json") == .file)
  }

  package func inputs(of place: TakeLocation) throws -> TakeInputs {
    do {
      return TakeInputs(root: place.path, entries: try SessionFolder.entries(of: place.path))
    } catch let error as FileError {
      throw TakeFailure(error.code == EACCES ? "permission" : "unreadable", "the session cannot be searched: \(error.reason)")
    }
  }

  package func open(_ take: Take) throws -> Episode {
    let folder = SessionFolder(take.inputs)
    let jsonLimit = maxJsonMebibytes << 20
    var findings: [Finding] = []

    let metadata = try SessionMetadata(folder, limit: min(jsonLimit, Self.metadataLimit), findings: &findings)
    guard let posesFile = folder.poses else {
      throw TakeFailure("poses-missing", "the session has \(folder.images.count) pictures and no poses.json", file: "poses.json")
    }
    let poses = try PosesFile(take.inputs, posesFile, limit: jsonLimit, findings: &findings)
    let variant = try self.variant(metadata, poses, folder)
    if poses.entries.isEmpty {
      if variant == "v3-raw" { throw Rejection("needs-slam") }
      throw TakeFailure("no-frames", "the list of poses is empty", file: "poses.json")
    }

    let join = try FrameJoin(poses: poses, folder: folder, findings: &findings)
    let frames = Episode.Frames(
      timestamps: join.rows.map { poses.entries[$0].timestamp }, sourceIndex: join.rows.map { poses.entries[$0].number },
      clock: .deviceUptime)
    let identity = join.rows.indices.map { Int?($0) }

    var streams: [String: Stream] = [:]
    streams["pose"] = Stream(
      spec: StreamSpec(kind: .pose(.arkit), type: .float32, shape: [7], unit: "m", clock: .deviceUptime),
      source: PoseSource(poses: join.rows.compactMap { poses.entries[$0].pose }),
      timestamps: frames.timestamps, sourceIndex: frames.sourceIndex, rows: identity)

    let imageFiles = join.rows.compactMap { folder.images[poses.entries[$0].number] }
    let size = try imageSize(imageFiles, take.inputs)
    if let claimed = metadata.rgbResolution, claimed != size {
      findings.append(
        Finding(
          .warning, "resolution-mismatch", "rgbResolution says \(claimed), the pictures are \(size)",
          file: "metadata.json", field: ".rgbResolution"))
    }
    streams["camera_image"] = Stream(
      spec: StreamSpec(
        kind: .image, type: .uint8, shape: [size.height, size.width, 3], unit: "sRGB 0..255", clock: .deviceUptime,
        intrinsics: metadata.intrinsics(for: size)),
      source: JPEGFiles(inputs: take.inputs, entries: imageFiles, size: size, limit: maxImageSide),
      timestamps: frames.timestamps, sourceIndex: frames.sourceIndex, rows: identity)

    streams["camera_depth"] = depthMaps(poses, folder, metadata, take.inputs, &findings)
    streams["depth_point"] = depthPoints(poses)
    if let file = folder.encoders {
      streams["joints"] = try EncodersFile(take.inputs, file, limit: jsonLimit, findings: &findings).stream
    }

    var episode = Episode(id: take.id, sourceFrames: join.sourceFrames, frames: frames, streams: streams)
    episode.variant = variant
    episode.findings = findings
    episode.dropped = join.dropped
    episode.unixOrigin = metadata.startTime.map { Episode.UnixOrigin(nanoseconds: $0, resolution: 1_000_000_000) }
    episode.captureStart = poses.entries.first(where: \.isInOrder)?.timestamp
    episode.day = Day.inName(take.id) ?? metadata.startDay
    return episode
  }

  /// The format version is written nowhere; what tells is which files and keys exist.
  private func variant(_ metadata: SessionMetadata, _ poses: PosesFile, _ folder: SessionFolder) throws -> String {
    if let source = metadata.captureSource, source != "iphone_arkit" {
      if poses.entries.isEmpty { return "v3-raw" }
      throw TakeFailure(
        "variant-unsupported", "captureSource is \"\(source)\"; poses from SLAM are not read yet", file: "metadata.json",
        field: ".captureSource")
    }
    let hasDepthMaps = folder.hasDepthFolder || metadata.depthResolution != nil || poses.entries.contains { $0.depthIndex != nil }
    return hasDepthMaps ? "v1" : "v2"
  }

  /// The size in the header of the first picture that has one; a picture of another size will fail the take.
  private func imageSize(_ files: [Int], _ inputs: TakeInputs) throws -> Pixels {
    let decoder = try JPEGDecoder()
    var bytes: [UInt8] = []
    var first: TakeFailure?
    // When more than a fifth cannot be decoded, the take fails anyhow.
    for file in files.prefix(files.count / 5 + 1) {
      try inputs.read(file, limit: JPEGFiles.byteLimit, hasher: SHA256(), into: &bytes)
      do {
        let size = try bytes.withUnsafeBytes { try decoder.size(of: $0) }
        if max(size.width, size.height) > maxImageSide {
          let limit = "\(maxImageSide)x\(maxImageSide)"
          throw TakeFailure("limit", "the picture is \(size), over the limit of \(limit)", file: inputs.entries[file].path)
        }
        return size
      } catch let error as MediaError {
        let finding = Finding(.warning, "image-undecodable", "\(error)", file: inputs.entries[file].path)
        first = first ?? .tooManyUndecodable(of: files.count, first: finding)
      }
    }
    throw first ?? TakeFailure("no-frames", "no picture has a pose with its number")
  }

  private func depthMaps(
    _ poses: PosesFile, _ folder: SessionFolder, _ metadata: SessionMetadata, _ inputs: TakeInputs,
    _ findings: inout [Finding]
  ) -> Stream? {
    let named = poses.entries.filter { $0.depthIndex != nil && $0.isInOrder }
    guard !named.isEmpty else { return nil }
    let present = named.compactMap { entry in entry.depthIndex.flatMap { folder.depths[$0] }.map { (entry, $0) } }
    if present.count < named.count {
      findings.append(
        Finding(
          .warning, "depth-missing", "depth maps that poses.json names are not in depth/", file: "depth",
          count: named.count - present.count))
    }
    guard !present.isEmpty else { return nil }
    let size = metadata.depthResolution ?? Pixels(width: 256, height: 192)
    let spec = StreamSpec(
      kind: .depth, type: .float32, shape: [size.height, size.width, 1], unit: "m", clock: .deviceUptime,
      intrinsics: metadata.intrinsics(for: size))
    return Stream(
      spec: spec, source: DepthFiles(inputs: inputs, files: present.map(\.1), size: size),
      timestamps: present.map(\.0.timestamp), sourceIndex: present.map { $0.0.depthIndex ?? -1 })
  }

  private func depthPoints(_ poses: PosesFile) -> Stream? {
    let measured = poses.entries.filter { $0.isInOrder && $0.depthPoint > 0 && $0.depthPoint.isFinite }
    guard !measured.isEmpty else { return nil }
    return Stream(
      spec: StreamSpec(kind: .numbers, type: .float32, shape: [1], unit: "m", clock: .deviceUptime),
      source: NumbersSource(width: 1, values: measured.map(\.depthPoint)),
      timestamps: measured.map(\.timestamp), sourceIndex: measured.map(\.number))
  }
}
