import Evidence
import Media
package import Model
package import Steps

/// Scans of the 3D Scanner App, exported as "All Data": a flat folder, zip or tar of `frame_NNNNN.json`, `frame_NNNNN.jpg`,
/// `depth_NNNNN.png` and `conf_NNNNN.png`.
///
///     reader: {name: 3d-scanner-app, max-image-side: 8192}
package struct ScannerApp: Reader {
  package static let name = "3d-scanner-app"
  package static let summary = "3D Scanner App scans (\"All Data\"): images, depth with confidence, poses, intrinsics"
  package static let needsFFmpeg = false

  @StepOption("an image wider or higher than this is not decoded (pixels)", 1...16_384) var maxImageSide = 8192
  @StepOption("copy a location in an image's EXIF data, and all that is beside it, with images that are stored as they are")
  var keepLocation = false
  var archive = Archive.Limits()

  package init() {}

  // MARK: Files

  private static let poseKey = "cameraPoseARFrame"
  private static let kinds: [(prefix: String, endings: [String], role: TakeInputs.Role)] = [
    ("frame_", [".json"], .poses), ("frame_", [".jpg", ".jpeg", ".png"], .image), ("depth_", [".png"], .depth),
    ("conf_", [".png"], .confidence),
  ]
  /// The file about the device, and about the place of the scan.
  private static let infoName = "info.json"

  /// Recognizes a folder, or an archive, with the app's key for poses in one of its first ten numbered JSON files.
  package func recognize(_ place: TakePlace) throws -> Candidate? {
    guard place.isDirectory else { return try archived(place) }
    // Other apps may number JSON files so, too, and the first may be damaged.
    let files = try place.members().lazy.filter { Self.role(of: $0.name) == .poses }.prefix(10)
    let isScan = try files.contains { file in
      let start = try InputFile.start(of: place.path + "/" + file.name, count: 4096)
      return String(decoding: start, as: UTF8.self).contains("\"\(Self.poseKey)\"")
    }
    guard isScan else { return nil }
    return Candidate(.certain, stem: place.name) { [path = place.path] in
      try TakeListing(folder: path, subfolders: []).inputs(role: Self.role)
    }
  }

  private func archived(_ place: TakePlace) throws -> Candidate? {
    try place.candidate(inArchive: archive) { archive in
      let names = archive.members.map { String($0.path.split(separator: "/").last ?? "") }
      guard let first = names.first(where: { Self.role(of: $0) == .poses }), names.contains(where: { Self.role(of: $0) == .depth }) else {
        return nil
      }
      return try archive.root(holding: [first], folders: []).map { ($0, [], Self.role) }
    }
  }

  private static func role(of path: String) -> TakeInputs.Role? {
    if path == infoName { return .metadata }
    return kinds.first { kind in kind.endings.contains { path.hasSuffix($0) } && number(path, kind.prefix) != nil }?.role
  }

  /// The number in `frame_00017.json`, of five digits or more.
  private static func number(_ name: String, _ prefix: String) -> Int64? {
    guard name.hasPrefix(prefix) else { return nil }
    let digits = name.dropFirst(prefix.count).utf8.prefix { $0 != UInt8(ascii: ".") }
    // frame_00003.small.jpg was made by another tool.
    guard !name.dropFirst(prefix.count).utf8[digits.endIndex...].dropFirst().contains(UInt8(ascii: ".")) else { return nil }
    guard (5...18).contains(digits.count), digits.allSatisfy({ (48...57).contains($0) }), digits.count == 5 || digits.first != 48 else {
      return nil
    }
    return digits.reduce(0) { $0 * 10 + Int64($1 - 48) }
  }

  private static func entries(_ role: TakeInputs.Role, _ inputs: TakeInputs) -> [Int64: Int] { all(role, inputs).mapValues { $0[0] } }

  /// Returns the entries of a role by number; images, which have several endings, may have several of one number.
  private static func all(_ role: TakeInputs.Role, _ inputs: TakeInputs) -> [Int64: [Int]] {
    let prefix = kinds.first { $0.role == role }?.prefix ?? ""
    var found: [Int64: [Int]] = [:]
    for (index, entry) in inputs.entries.enumerated() where entry.role == role {
      found[number(entry.path, prefix) ?? 0, default: []].append(index)
    }
    return found
  }

  // MARK: Opening

  package func open(_ take: Take) throws -> Episode {
    let inputs = take.inputs
    let notes = FindingCollector()
    let records = try FrameRecords(
      Self.entries(.poses, inputs), in: inputs, keys: [Self.poseKey, "intrinsics"], timeKey: "time", notes: notes
    ).records
    guard !records.isEmpty else { throw TakeFailure(.posesMissing, "there is no frame_NNNNN.json") }
    let poses = try PoseList(
      records.map { record in
        let matrix = record.numbers(Self.poseKey, count: 16)
        return PoseList.Entry(
          number: record.number, timestamp: record.time ?? Timestamp(nanoseconds: 0), hasTime: record.time != nil,
          pose: matrix.flatMap { try? Pose(rowMajor: $0) }, depthIndex: record.number)
      }, file: "frame_NNNNN.json", number: "the number in the name", notes: notes)
    var capture = NumberedCapture(
      inputs: inputs, notes: notes, poses: poses, poseFrame: .arkit, clock: .deviceUptime,
      images: NumberedFiles.one(of: Self.all(.image, inputs), in: inputs, notes),
      imagePlace: "frame_NNNNN.jpg", hasFewImages: true, maxImageSide: maxImageSide, keepsLocation: keepLocation)
    for record in records {
      // fx 0 cx, 0 fy cy, 0 0 1
      guard record.has("intrinsics") else { continue }
      let k = record.numbers("intrinsics", count: 9)
      capture.intrinsics[record.number] = GivenIntrinsics(k.map { [$0[0], $0[4], $0[2], $0[5]] }, of: nil)
    }
    try noteLocation(inputs, notes)
    return try capture.episode(id: take.id) { _ in
      // Depth maps are of more moments than images: a map whose JSON is missing has no time.
      guard let depth = try NumberedCapture.Maps.gray(Self.entries(.depth, inputs), in: inputs) else { return (nil, nil) }
      return (depth, .levels(Self.entries(.confidence, inputs), of: depth, in: inputs))
    }
  }

  /// Nothing of the file is read but whether there is a location.
  private func noteLocation(_ inputs: TakeInputs, _ notes: FindingCollector) throws {
    guard let entry = inputs.index(of: Self.infoName) else { return }
    do {
      let info = try inputs.readJSON(entry, limit: Self.infoLimit) { try $0.document() }
      if info.hasLocation { notes.add(.locationRemoved, "there is a location, which is never read", file: Self.infoName) }
    } catch let failure as TakeFailure where !failure.isOfMachine {
      // A file of which nothing is needed.
    }
  }
  private static let infoLimit = 64 << 20
}
