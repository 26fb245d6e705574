import Evidence
import Media
package import Model
package import Steps

/// Raw data of Polycam: `keyframes/` with images, depth, confidence and cameras, the corrected ones too where the app made them. Files are named by
/// their time in microseconds.
///
///     reader: {name: polycam, max-image-side: 8192}
package struct Polycam: Reader {
  package static let name = "polycam"
  package static let summary = "Polycam raw data: keyframes with images, depth, confidence, poses, intrinsics"
  package static let needsFFmpeg = false

  /// The cameras that are read: as tracked, or as optimized by the app.
  package enum Cameras: String, OptionChoice { case auto, raw, corrected }

  @StepOption("raw: as tracked; corrected: as optimized by the app; auto: corrected where the app corrected nine in ten keyframes")
  var cameras = Cameras.auto
  @StepOption("an image wider or higher than this is not decoded (pixels)", 1...16_384) var maxImageSide = 8192
  @StepOption("copy a location in an image's EXIF data, and all that is beside it, with images that are stored as they are")
  var keepLocation = false
  var archive = Archive.Limits()

  package init() {}

  // MARK: Files

  private static let folder = "keyframes"
  private static let cameraKeys = ["fx", "fy", "cx", "cy"], sizeKeys = ["width", "height"]
  private static let matrixKeys = (0..<12).map { "t_\($0 / 4)\($0 % 4)" }
  private static let cameraFolders = ["cameras", "corrected_cameras"]
  private static let subfolders: Set<String> = ["images", "corrected_images", "cameras", "corrected_cameras", "depth", "confidence"]

  /// Recognizes a folder, or an archive, with `keyframes/cameras` or `keyframes/corrected_cameras`.
  package func recognize(_ place: TakePlace) throws -> Candidate? {
    guard place.isDirectory else { return try archived(place) }
    let root = Self.folder
    guard try Self.cameraFolders.contains(where: { try place.kind(of: "\(root)/\($0)") == .directory }) else { return nil }
    return Candidate(.certain, stem: place.name) { [path = place.path] in
      try TakeListing(folder: path + "/" + root, subfolders: Self.subfolders).inputs(role: Self.role)
    }
  }

  private func archived(_ place: TakePlace) throws -> Candidate? {
    try place.candidate(inArchive: archive) { archive in
      let isPresent = archive.members.contains { member in
        Self.cameraFolders.contains { member.path.hasPrefix("keyframes/\($0)/") || member.path.contains("/keyframes/\($0)/") }
      }
      guard isPresent, let parent = try archive.root(holding: [], folders: [Self.folder]) else { return nil }
      return (parent.isEmpty ? Self.folder : parent + "/" + Self.folder, Self.subfolders, Self.role)
    }
  }

  private static func role(of path: String) -> TakeInputs.Role? {
    let parts = path.split(separator: "/")
    guard parts.count == 2, NumberedFiles.plainNumber(in: parts[1]) != nil else { return nil }
    switch (parts[0], parts[1].drop { $0 != "." }) {
    case ("cameras", ".json"), ("corrected_cameras", ".json"): return .poses
    case ("images", ".jpg"), ("corrected_images", ".jpg"): return .image
    case ("depth", ".png"): return .depth
    case ("confidence", ".png"): return .confidence
    default: return nil
    }
  }

  private static func entries(_ folder: String, _ inputs: TakeInputs) -> [Int64: Int] {
    var found: [Int64: Int] = [:]
    for (index, entry) in inputs.entries.enumerated() where entry.path.hasPrefix(folder + "/") {
      if let number = NumberedFiles.plainNumber(in: entry.path.dropFirst(folder.count + 1)) { found[number] = index }
    }
    return found
  }

  // MARK: Opening

  package func open(_ take: Take) throws -> Episode {
    let inputs = take.inputs
    let notes = FindingCollector()
    let set = try choose(inputs)
    let prefix = set == .corrected ? "corrected_" : ""
    let records = try FrameRecords(
      Self.entries(prefix + "cameras", inputs), in: inputs, keys: Set(Self.cameraKeys + Self.sizeKeys + Self.matrixKeys), notes: notes
    ).records
    let poses = try PoseList(
      records.map { record in
        // A stem is the time in microseconds.
        let (nanoseconds, overflow) = record.number.multipliedReportingOverflow(by: 1000)
        return PoseList.Entry(
          number: record.number, timestamp: Timestamp(nanoseconds: overflow ? 0 : nanoseconds), hasTime: !overflow,
          pose: Self.pose(record), depthIndex: record.number)
      }, file: prefix + "cameras", number: "the number in the name", notes: notes)
    let isUnix = (records.first?.number ?? 0) / 1_000_000 >= 1_262_304_000
    var capture = NumberedCapture(
      inputs: inputs, notes: notes, poses: poses, poseFrame: .arkit, clock: isUnix ? .phoneUnix : .mediaTime,
      images: Self.entries(prefix + "images", inputs), imagePlace: prefix + "images", maxImageSide: maxImageSide,
      keepsLocation: keepLocation)
    let rawSize = try set == .corrected ? self.rawSize(inputs, notes) : nil
    for record in records where !record.members.isEmpty { capture.intrinsics[record.number] = Self.intrinsics(record, rawSize) }
    notes.add(.keyframesOnly, "frames are keyframes, which the app takes by motion and not by time", file: prefix + "images")
    var episode = try capture.episode(id: take.id) { _ in
      guard let depth = try NumberedCapture.Maps.gray(Self.entries("depth", inputs), in: inputs) else { return (nil, nil) }
      return (depth, Self.confidence(of: depth, inputs))
    }
    episode.variant = set.rawValue
    episode.details["corrected_keyframes"] = JSONValue(Self.entries("corrected_cameras", inputs).count)
    episode.details["keyframes"] = JSONValue(Self.entries("cameras", inputs).count)
    return episode
  }

  /// Raw and corrected poses are in different worlds, so one set is taken for the whole take.
  private func choose(_ inputs: TakeInputs) throws -> Cameras {
    func count(_ prefix: String) -> Int {
      Set(Self.entries(prefix + "cameras", inputs).keys).intersection(Self.entries(prefix + "images", inputs).keys).count
    }
    let (raw, corrected) = (count(""), count("corrected_"))
    let chosen = cameras == .auto ? (corrected > 0 && corrected * 10 >= raw * 9 ? .corrected : .raw) : cameras
    if (chosen == .raw ? raw : corrected) == 0 {
      throw TakeFailure(
        .posesMissing, "there are no \(chosen.rawValue) cameras with an image; the option cameras chooses the others", file: Self.folder)
    }
    return chosen
  }

  /// The intrinsics of a keyframe; those without a size are for images of the size that is given.
  private static func intrinsics(_ record: FrameRecords.Record, _ size: ImageSize?) -> GivenIntrinsics? {
    guard cameraKeys.contains(where: record.has) else { return nil }
    do {
      let own = try JSONFields(members: record.members).size(sizeKeys[0], sizeKeys[1])
      return GivenIntrinsics(record.numbers(cameraKeys), of: own ?? size)
    } catch {
      return .unusable("expected whole numbers of pixels as \(sizeKeys.joined(separator: " and "))")
    }
  }

  /// The size that raw cameras have: corrected ones of newer versions say none.
  private func rawSize(_ inputs: TakeInputs, _ notes: FindingCollector) throws -> ImageSize? {
    guard let first = Self.entries("cameras", inputs).min(by: { $0.key < $1.key }) else { return nil }
    let records = try FrameRecords([first.key: first.value], in: inputs, keys: Set(Self.sizeKeys), notes: notes).records
    return records.first.flatMap { try? JSONFields(members: $0.members).size(Self.sizeKeys[0], Self.sizeKeys[1]) }
  }

  /// The camera to world, of three rows of a 4x4 matrix: `t_00` to `t_23`.
  private static func pose(_ record: FrameRecords.Record) -> Pose? {
    record.numbers(matrixKeys).flatMap { try? Pose(rowMajor: $0 + [0, 0, 0, 1]) }
  }

  /// Confidence is 0, 127 or 255.
  private static func confidence(of depth: NumberedCapture.Maps, _ inputs: TakeInputs) -> NumberedCapture.Maps {
    let size = depth.size
    return NumberedCapture.Maps(files: entries("confidence", inputs), size: size, type: .uint8, unit: NumberedCapture.Maps.levels) {
      files in
      DecodedFiles(
        inputs: inputs, files: files, undecodable: .confidenceUndecodable,
        missing: Finding(.confidenceMissing, "depth maps without a confidence of their number")
      ) { file, rows in
        try file.withUnsafeBytes { try PNG.decodeGray($0, bits: 8, size: size, into: &rows) }
        for index in rows.indices { rows[index] = rows[index] < 64 ? 0 : rows[index] < 192 ? 1 : 2 }
      }
    }
  }
}
