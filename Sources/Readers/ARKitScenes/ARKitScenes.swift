import Evidence
import Media
package import Model
package import Steps

/// Scenes of Apple's ARKitScenes as downloaded: `lowres_wide.traj`, folders of images with `.pincam` files, `lowres_depth/` and `confidence/`.
/// A row is an image, with the pose between the two of the trajectory around it.
///
///     reader: {name: arkitscenes, images: vga-wide}
package struct ARKitScenes: Reader {
  package static let name = "arkitscenes"
  package static let summary = "ARKitScenes scenes: images, depth with confidence, intrinsics, interpolated poses"
  package static let needsFFmpeg = false

  /// The folder that images come from; `auto` is the one with the largest images.
  package enum Images: String, OptionChoice {
    case auto, wide
    case vgaWide = "vga-wide"
    case lowresWide = "lowres-wide"

    /// Folders of images, the largest images first.
    static let folders = ["wide", "vga_wide", "lowres_wide"]
    var folder: String? { self == .auto ? nil : rawValue.replacing("-", with: "_") }
  }

  @StepOption("the folder of images; auto: that of the largest images which is there") var images = Images.auto
  @StepOption("an image farther from the pose before or after it has no row (seconds)", 0...10) var maxPoseGap = 0.5
  @StepOption("an image wider or higher than this is not decoded (pixels)", 1...16_384) var maxImageSide = 8192
  @StepOption("a table larger than this fails the take (MiB)", 1...4096) var maxCsvMebibytes = 64
  var archive = Archive.Limits()

  package init() {}

  // MARK: Files

  private static let trajectoryName = "lowres_wide.traj"
  private static let depthFolder = "lowres_depth", confidenceFolder = "confidence"
  private static let usualIntrinsics = "lowres_wide_intrinsics"

  /// Recognizes a folder, or an archive, that has the trajectory file and a folder of images.
  package func recognize(_ place: TakePlace) throws -> Candidate? {
    guard place.isDirectory else { return try archived(place) }
    // The names are known already; to ask for one would be a system call more for each folder that is searched.
    let members = try place.members()
    guard members.contains(where: { $0.name == Self.trajectoryName && $0.kind == .file }) else { return nil }
    let folders = Set(members.filter { $0.kind == .directory }.map(\.name))
    guard let take = self.take(folders) else { return nil }
    return Candidate(.certain, stem: Self.stem(place.name)) { [path = place.path] in
      try TakeListing(folder: path, subfolders: take.subfolders).inputs(role: take.role)
    }
  }

  private func archived(_ place: TakePlace) throws -> Candidate? {
    var candidate = try place.candidate(inArchive: archive) { archive in
      guard let root = try archive.root(holding: [Self.trajectoryName], folders: []) else { return nil }
      let depth = root.split(separator: "/").count
      let folders = archive.members.map { $0.path.split(separator: "/") }.filter { $0.count == depth + 2 }.map { String($0[depth]) }
      return take(Set(folders)).map { (root, $0.subfolders, $0.role) }
    }
    candidate?.stem = Self.stem(place.stem)
    return candidate
  }

  private static func stem(_ name: String) -> String { name.hasSuffix("_frames") ? String(name.dropLast("_frames".count)) : name }

  /// The folders that belong to the take. Other sizes of the images are not listed: to digest them would take longer than the take.
  private func take(_ folders: Set<String>) -> (subfolders: Set<String>, role: (String) -> TakeInputs.Role?)? {
    let present = Images.folders.filter(folders.contains)
    guard let chosen = images.folder ?? present.first ?? (folders.contains(Self.depthFolder) ? Images.folders[0] : nil) else { return nil }
    let own = chosen + "_intrinsics"
    let roles: [String: (ending: String, role: TakeInputs.Role)] = [
      chosen: (".png", .image), folders.contains(own) ? own : Self.usualIntrinsics: (".pincam", .calibration),
      Self.depthFolder: (".png", .depth), Self.confidenceFolder: (".png", .confidence),
    ]
    return (
      Set(roles.keys),
      { path in
        if path == Self.trajectoryName { return .poses }
        guard let folder = path.split(separator: "/").first, let known = roles[String(folder)], path.hasSuffix(known.ending) else {
          return nil
        }
        return Self.milliseconds(path) == nil ? nil : known.role
      }
    )
  }

  /// The time in `vga_wide/47333462_59.123.png`, in milliseconds, which is the number of the file.
  private static func milliseconds(_ path: String) -> Int64? {
    guard let stem = path.split(separator: "/").last?.split(separator: "_").last, let dot = stem.lastIndex(of: ".") else { return nil }
    let parts = stem[..<dot].split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 2, parts[1].utf8.count == 3, (1...9).contains(parts[0].utf8.count) else { return nil }
    let digits = Array((parts[0] + parts[1]).utf8)
    guard digits.allSatisfy({ (48...57).contains($0) }) else { return nil }
    return digits.reduce(0) { $0 * 10 + Int64($1 - 48) }
  }

  private static func entries(_ role: TakeInputs.Role, _ inputs: TakeInputs) -> [Int64: Int] {
    var found: [Int64: Int] = [:]
    for (index, entry) in inputs.entries.enumerated() where entry.role == role { found[milliseconds(entry.path) ?? 0] = index }
    return found
  }

  // MARK: Opening

  package func open(_ take: Take) throws -> Episode {
    let inputs = take.inputs
    let notes = FindingCollector()
    guard let table = inputs.index(of: Self.trajectoryName) else {
      throw TakeFailure(.posesMissing, "the scene has no trajectory", file: Self.trajectoryName)
    }
    let trajectory = try Trajectory(scene: CSVFile(inputs, table, limit: maxCsvMebibytes << 20, separator: " "), Self.trajectoryName, notes)
    let limit = Int64((maxPoseGap * 1e9).rounded())
    let images = Self.entries(.image, inputs)
    guard !images.isEmpty else {
      throw TakeFailure(.noFrames, "the scene has no images in \(self.images.folder ?? Images.folders.joined(separator: ", "))")
    }
    // Depth is of more moments than images, and each moment has its own pose. One that the trajectory does not reach has none.
    var maps = Self.entries(.depth, inputs)
    var entries: [PoseList.Entry] = []
    for number in Set(images.keys).union(maps.keys).sorted() {
      let time = Timestamp(nanoseconds: number * 1_000_000)
      if let pose = trajectory.pose(at: time, limit: limit) {
        entries.append(PoseList.Entry(number: number, timestamp: time, pose: pose, depthIndex: maps[number].map { _ in number }))
      } else {
        maps[number] = nil
      }
    }
    let poses = try PoseList(entries, file: Self.trajectoryName, number: "the time", notes: notes)
    let world = PoseFrame(cameraAxes: .opencv, worldAxes: "z up, gravity-aligned; origin and heading of the scan", unit: .meters)
    let folder = images.values.first.flatMap { inputs.entries[$0].path.split(separator: "/").first }.map(String.init) ?? ""
    var capture = NumberedCapture(
      inputs: inputs, notes: notes, poses: poses, poseFrame: world, clock: .deviceUptime, images: images, imagePlace: folder,
      hasFewImages: true, maxImageSide: maxImageSide, keepsLocation: false)
    try readIntrinsics(into: &capture, inputs, images, notes)
    var episode = try capture.episode(id: take.id) { _ in
      guard let depth = try NumberedCapture.Maps.gray(maps, in: inputs) else { return (nil, nil) }
      return (depth, .levels(Self.entries(.confidence, inputs), of: depth, in: inputs))
    }
    episode.variant = folder
    episode.details["trajectory"] = ["poses": JSONValue(trajectory.times.count), "method": "linear positions, slerp"]
    return episode
  }

  /// Lines of `width height fx fy cx cy`, in files whose time may be a millisecond off that of their image.
  private func readIntrinsics(
    into capture: inout NumberedCapture, _ inputs: TakeInputs, _ images: [Int64: Int], _ notes: FindingCollector
  ) throws {
    let files = Self.entries(.calibration, inputs)
    var unusable = 0
    for number in images.keys.sorted() {
      guard let file = files[number] ?? files[number - 1] ?? files[number + 1] else { continue }
      var fields: [Double] = []
      do {
        try CSVFile(inputs, file, limit: 4096, separator: " ").forEachLine { line in fields += (0..<6).compactMap { line.number($0) } }
      } catch let failure as TakeFailure where failure.code == .inputTooLarge {
        fields = []
      }
      let sides = fields.prefix(2).compactMap { Int(exactly: $0) }.filter { (1...16_384).contains($0) }
      guard fields.count == 6, sides.count == 2, let intrinsics = Intrinsics(Array(fields[2...])) else {
        unusable += 1
        continue
      }
      let size = ImageSize(width: sides[0], height: sides[1])
      capture.intrinsics[number] = .pixels(intrinsics, of: size)
    }
    if unusable > 0 {
      notes.add(
        .intrinsicsUnusable, "expected a line of width, height, fx, fy, cx and cy", file: "*.pincam",
        count: unusable)
    }
  }
}
