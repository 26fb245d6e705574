import Evidence
import Media
package import Model
package import Steps

/// Captures with a `transforms.json`: of nerfstudio's importers and exporters, and of the NeRFCapture app.
///
///     reader: {name: transforms-json, fps: 30}
package struct TransformsJSON: Reader {
  package static let name = "transforms-json"
  package static let summary = "captures with a transforms.json (nerfstudio, NeRFCapture): images, depth, poses, intrinsics"
  package static let needsFFmpeg = false

  @StepOption("frames per second of captures without times, whose frames are in the order of their names", above: 0, through: 1000)
  var fps: Double? = nil
  @StepOption("an image wider or higher than this is not decoded (pixels)", 1...16_384) var maxImageSide = 8192
  @StepOption("copy a location in an image's EXIF data, and all that is beside it, with images that are stored as they are")
  var keepLocation = false
  var archive = Archive.Limits()

  package init() {}

  // MARK: Files

  private static let imageEndings = [".jpg", ".jpeg", ".png"]

  /// Recognizes a folder, or an archive, with `transforms.json`. Other programs write such files too, so the claim is not certain.
  package func recognize(_ place: TakePlace) throws -> Candidate? {
    guard place.isDirectory else { return try archived(place) }
    guard try place.kind(of: TransformsFile.name) == .file else { return try divided(place) }
    return Candidate(.likely, stem: place.name) { [path = place.path] in
      let folders = try Directory.members(of: path).filter { $0.kind == .directory }.map(\.name)
      return try TakeListing(folder: path, subfolders: Self.used(folders)).inputs(role: Self.role)
    }
  }

  /// Parts of a scene for training and tests, in files of their own.
  private static let parts: Set<String> = ["transforms_train.json", "transforms_val.json", "transforms_test.json"]

  /// A scene whose frames are divided is no recording: known, and not read.
  private func divided(_ place: TakePlace) throws -> Candidate? {
    let parts = try place.members().filter { $0.kind == .file && Self.parts.contains($0.name) }.map(\.name)
    return parts.isEmpty ? nil : Candidate(.possible, stem: place.name) { throw Self.isDivided(parts) }
  }

  private static func isDivided(_ parts: [String]) -> TakeFailure {
    TakeFailure(
      .formatUnsupported,
      "the frames of the scene are divided among \(parts.joined(separator: ", ")); a take is one transforms.json: name one of them so, or join the lists of their frames",
      file: parts.first)
  }

  private func archived(_ place: TakePlace) throws -> Candidate? {
    try place.candidate(inArchive: archive, .likely) { archive in
      guard let root = try archive.root(holding: [TransformsFile.name], folders: []) else {
        let names = Set(archive.members.map { String($0.path.split(separator: "/").last ?? "") })
        let parts = Self.parts.intersection(names)
        if parts.isEmpty { return nil }
        throw Self.isDivided(parts.sorted())
      }
      let prefix = root.isEmpty ? "" : root + "/"
      let inside = archive.members.filter { $0.path.hasPrefix(prefix) }.map { $0.path.dropFirst(prefix.count).split(separator: "/") }
      return (root, Self.used(Set(inside.filter { $0.count > 1 }.map { String($0[0]) }).sorted()), Self.role)
    }
  }

  /// Folders that frames may name: not the smaller copies of images that nerfstudio's importers make.
  private static func used(_ folders: [String]) -> Set<String> { Set(folders).subtracting(TransformsPaths.copies) }

  private static func role(of path: String) -> TakeInputs.Role? {
    if path == TransformsFile.name { return .metadata }
    guard imageEndings.contains(where: { path.lowercased().hasSuffix($0) }) else { return nil }
    return path.hasPrefix("depth") || path.hasSuffix(".depth.png") ? .depth : .image
  }

  // MARK: Opening

  package func open(_ take: Take) throws -> Episode {
    let inputs = take.inputs
    let notes = FindingCollector()
    guard let table = inputs.index(of: TransformsFile.name) else {
      throw TakeFailure(.posesMissing, "the capture has no transforms.json", file: TransformsFile.name)
    }
    let file = try TransformsFile(inputs, table)
    guard !file.frames.isEmpty else { throw TakeFailure(.noFrames, "the list of frames is empty", file: TransformsFile.name) }
    let (sorted, clock) = try ordered(file, notes)
    let frames = try withImagesOfTheirOwn(sorted, inputs, notes)
    let isNeRFCapture = file.isNeRFCapture
    if !file.distortion.isEmpty {
      notes.add(
        .distortionIgnored, "the lens has distortion (\(file.distortion.joined(separator: ", "))); images are stored as they are",
        file: TransformsFile.name)
    }

    var images: [Int64: Int] = [:], maps: [Int64: Int] = [:]
    var (imagePaths, depthPaths) = (TransformsPaths(inputs), TransformsPaths(inputs))
    for (number, frame) in frames.enumerated() {
      images[Int64(number)] = imagePaths.entry(frame.image, of: frame.place)
      maps[Int64(number)] = frame.depth.flatMap { depthPaths.entry($0, of: frame.place) }
    }
    noteUnnamed(Set(images.values), Set(maps.values), inputs, notes)
    let isScaled = ["integer_depth_scale", "depth_integer_scale"].contains { file.members[$0] != nil }
    let hasDepth = frames.contains { $0.depth != nil }
    if hasDepth, isNeRFCapture || isScaled {
      let words = isNeRFCapture ? "are pictures of 8 bits, not meters" : "are in a unit of instant-ngp's scene, not in meters"
      notes.add(.depthNotMetric, "depth maps \(words); the take is written without them", file: TransformsFile.name)
    }
    let isMetric = hasDepth && !isNeRFCapture && !isScaled
    let unit: LengthUnit = isNeRFCapture ? .meters : isMetric ? .claimedMeters : .arbitrary
    if unit == .claimedMeters {
      notes.add(.scaleClaimed, "depth maps are in meters, so poses are taken to be, too", file: TransformsFile.name)
    } else if unit == .arbitrary {
      notes.add(.scaleArbitrary, "nothing says what the unit of the poses is", file: TransformsFile.name)
    }
    let poses = try PoseList(
      frames.enumerated().map { number, frame in
        PoseList.Entry(
          number: Int64(number), timestamp: frame.time ?? Timestamp(nanoseconds: 0), hasTime: frame.time != nil, pose: frame.pose,
          depthIndex: isMetric && frame.depth != nil ? Int64(number) : nil, place: frame.place)
      }, file: TransformsFile.name, number: "the order of the frames", notes: notes)
    var capture = NumberedCapture(
      inputs: inputs, notes: notes, poses: poses, poseFrame: poseFrame(file, unit), clock: clock, images: images,
      imagePlace: "the folder of transforms.json", maxImageSide: maxImageSide, keepsLocation: keepLocation)
    capture.sourceNumber = { Int64(frames[Int($0)].place) }
    for (number, frame) in frames.enumerated() { capture.intrinsics[Int64(number)] = frame.intrinsics }
    (capture.imageCauses, capture.depthCauses) = (imagePaths.causes, depthPaths.causes)
    var episode = try capture.episode(id: take.id) { _ in
      guard isMetric else { return (nil, nil) }
      return (try NumberedCapture.Maps.gray(maps, of: file.depthScale, in: inputs), nil)
    }
    episode.variant = isNeRFCapture ? "nerfcapture" : "nerfstudio"
    return episode
  }

  /// The frames in the order of their names, where most of their times are in that order too, or else of their times; or of their names at a rate.
  private func ordered(_ file: TransformsFile, _ notes: FindingCollector) throws -> ([TransformsFile.Frame], Clock) {
    let named = file.frames.map { (name: NaturalName($0.image), frame: $0) }
      .sorted { $0.name != $1.name ? $0.name < $1.name : $0.frame.place < $1.frame.place }.map(\.frame)
    if file.frames.contains(where: { $0.time != nil }) {
      let first = file.frames.lazy.compactMap(\.time).first ?? Timestamp(nanoseconds: 0)
      let isUnix = (1_262_304_000...4_000_000_000).contains(first.nanoseconds / 1_000_000_000)
      // Frames without a time stay where they are in the file, and produce no row.
      let timed = file.frames.sorted { ($0.time ?? first, $0.place) < ($1.time ?? first, $1.place) }
      // A few names that are not in the order of their times mean that these times are wrong; many, that names are no order.
      let isInOrder = AscendingTimes.longest(named.map(\.time)).count * 5 >= named.count * 4
      return (isInOrder ? named : timed, isUnix ? .phoneUnix : file.isNeRFCapture ? .deviceUptime : .mediaTime)
    }
    guard let fps else {
      throw TakeFailure(
        .timesMissing,
        "frames have no times; the reader's option fps gives their rate, if they are frames of a video in the order of their names",
        file: TransformsFile.name)
    }
    notes.add(.timesAssumed, "frames have no times; frame n is at n / \(fps) s", file: TransformsFile.name)
    let frames = named.enumerated().map { number, frame in
      var frame = frame
      frame.time = Timestamp(nanoseconds: 0).advanced(byNanoseconds: Double(number) * 1e9 / fps)
      return frame
    }
    return (frames, .frameNumber)
  }

  /// Notes images without a pose: those in the folders of the named ones that no frame names, as image or as depth map.
  private func noteUnnamed(_ named: Set<Int>, _ maps: Set<Int>, _ inputs: TakeInputs, _ notes: FindingCollector) {
    func folder(_ entry: Int) -> Substring {
      let path = inputs.entries[entry].path
      return path.lastIndex(of: "/").map { path[..<$0] } ?? ""
    }
    let folders = Set(named.map(folder)).filter { !$0.isEmpty }
    let others = inputs.entries.indices.filter {
      inputs.entries[$0].role == .image && !named.contains($0) && !maps.contains($0) && folders.contains(folder($0))
    }
    guard let first = others.first else { return }
    notes.add(
      .poseMissing, "images that no frame of \(TransformsFile.name) names are skipped", file: inputs.entries[first].path,
      count: others.count)
  }

  /// The frames without those whose image an earlier one has: nothing says which of the poses is that of the image.
  private func withImagesOfTheirOwn(_ frames: [TransformsFile.Frame], _ inputs: TakeInputs, _ notes: FindingCollector) throws
    -> [TransformsFile.Frame]
  {
    var paths = TransformsPaths(inputs)
    var known: Set<Int> = []
    let own = frames.filter { frame in paths.entry(frame.image, of: frame.place).map { known.insert($0).inserted } ?? true }
    let count = frames.count - own.count
    if count == 0 { return frames }
    let words = "frames name an image that an earlier one names"
    guard count * 5 <= frames.count else {
      throw TakeFailure(.tooFewImages, "\(count) of \(frames.count) \(words); at most a fifth may", file: TransformsFile.name)
    }
    notes.add(.posesDuplicate, "\(words); the first is used", file: TransformsFile.name, count: count)
    return own
  }

  /// OpenGL's camera, whose axes are ARKit's. The world is ARKit's for NeRFCapture, and the file's own otherwise.
  private func poseFrame(_ file: TransformsFile, _ unit: LengthUnit) -> PoseFrame {
    if file.isNeRFCapture { return .arkit }
    let isUpright = file.members["orientation_override"] == "none" && file.members["applied_transform"] != nil
    return PoseFrame(cameraAxes: .arkit, worldAxes: isUpright ? "z up, that of transforms.json" : "that of transforms.json", unit: unit)
  }
}
