import Foundation
import Media
package import Model

/// Sessions of the StackCapture iPhone app: a folder with `poses.json`, `rgb/NNNNNN.jpg`, and, by variant, depth maps
/// (`v1`) or one depth number a frame and joint encoders (`v2`), or poses that were computed later (`v3-…`, `packed`).
///
///     reader: {name: stack-session, max-image-side: 8192}
package struct StackSession: Reader {
  package static let name = "stack-session"
  package static let summary = "StackCapture sessions: poses, JPEG pictures, depth maps or points, joint encoders, IMU"

  /// Metadata is a page of text.
  private static let metadataLimit = 1 << 20
  package enum PosePolicy: String, OptionChoice { case required, optional }

  @Option("required: a session without poses is rejected; optional: it is converted without") var poses = PosePolicy.required
  @Option("a + or - for each joint, by which its angles are multiplied; early firmware has the third and fourth reversed")
  var jointSigns = JointSigns()
  @Option("added to the times in encoders_*.csv, which are a laptop's, to get the phone's Unix time (seconds)", -4e9...4e9)
  var csvClockOffset: Double? = nil
  @Option("an image wider or higher than this is not decoded (pixels)", 1...16_384) var maxImageSide = 8192
  @Option("a JSON file larger than this fails the take (MiB)", 1...4096) var maxJsonMebibytes = 64
  var archive = Archive.Limits()

  package init() {}

  package func recognises(_ place: TakeLocation) throws -> Bool {
    let path = place.path
    if place.isDirectory {
      func kind(_ name: String) throws -> Directory.Kind? { try Directory.kind(at: path + "/" + name) }
      if try kind("poses.json") != nil { return true }
      // Somebody may have put a Stray Scanner movie's frames into rgb/.
      if try kind(OdometryFile.name) != nil { return false }
      if try kind("metadata.json") == .file {
        // Other apps write a metadata.json too, and Record3D an rgb/ with files of its own names.
        if try SessionMetadata.recognises(InputFile.start(of: path + "/metadata.json", count: 4096)) { return true }
      }
      guard try kind("rgb") == .directory else { return false }
      let images = try Directory.members(of: path + "/rgb")
      return images.isEmpty || place.name.hasPrefix("session_") || images.contains { SessionFolder.role(of: "rgb/" + $0.name) == .image }
    }
    guard let format = try Archive.format(of: path) else { return try ArchivedSession.isSidecarAlone(path) }
    // An archive that cannot be listed may well be a session; passing over it would lose it silently.
    do {
      return try ArchivedSession(path, format, self.archive) != nil || ArchivedSession.hasSidecar(path)
    } catch is TakeFailure {
      return true
    }
  }

  package func name(of place: TakeLocation) -> String {
    place.isDirectory ? place.name : ArchivedSession.nameBySidecar(place.path) ?? place.stem
  }

  package func inputs(of place: TakeLocation) throws -> TakeInputs {
    if place.isDirectory {
      return try TakeListing(folder: place.path, subfolders: SessionFolder.subfolders).inputs(role: SessionFolder.role)
    }
    guard let format = try Archive.format(of: place.path) else { return TakeInputs(file: place.path, role: .sidecar) }
    guard let session = try ArchivedSession(place.path, format, self.archive) else {
      throw TakeFailure(
        .noFrames, "the archive holds no session, although the copy of one's metadata is beside it",
        file: URL(fileURLWithPath: place.path).lastPathComponent)
    }
    return try session.inputs()
  }

  package func open(_ take: Take) throws -> Episode {
    if take.inputs.archive == nil, take.inputs.entries.first?.role == .sidecar {
      throw TakeFailure(
        .archiveMissing, "this is the copy of a session's metadata, and the archive with the session is not beside it",
        file: take.inputs.entries[0].path)
    }
    if let twin = take.twin, try ArchivedSession.isDuplicate(take.inputs, of: twin.path) {
      throw Rejection("duplicate: the folder \(URL(fileURLWithPath: twin.path).lastPathComponent) has the same files")
    }
    let folder = try SessionFolder(take.inputs)
    let jsonLimit = maxJsonMebibytes << 20
    let notes = Notes()

    let metadata = try SessionMetadata(folder, limit: min(jsonLimit, Self.metadataLimit), notes: notes)
    var poses = try readPoses(folder, metadata, limit: jsonLimit, notes)
    let images = folder.images.sorted { $0.key < $1.key }
    let size = try images.isEmpty ? nil : JPEGFiles.size(of: images.map(\.value), in: take.inputs, limit: maxImageSide, notes: notes)
    let variant = SessionVariant(metadata, poses, folder, imageSize: size)
    if variant.poses == .none, self.poses == .required { try refuse(variant, poses, folder) }
    let imu = try folder.imu.map { try IMUFile(take.inputs, $0, limit: jsonLimit, notes: notes) }

    // Sessions whose poses have times of their own need no others.
    var capture: CaptureTimes?
    let slam = variant.poses.isSLAM ? poses.map { SLAMNumbers($0, images.map(\.key)) } : nil
    if variant.poses.isSLAM || variant.poses == .none {
      let times = CaptureTimes(pictures: slam?.recorded ?? images.count, movie: movie(folder, notes), imuSpan: imu?.span)
      notes.add(times.findings)
      capture = times
    }
    if let slam, let capture {
      slam.retime(&poses, capture)
      notes.add(slam.findings)
    }
    noteClaims(variant, metadata, poses, folder, size, notes)

    var rows: Rows
    if variant.poses != .none, let poses {
      rows = try Rows(FrameJoin(poses: poses, images: folder.images, in: "rgb", notes: notes), poses, folder, capture)
    } else {
      guard let capture, !images.isEmpty else { throw TakeFailure(.noFrames, "there are no pictures in rgb/") }
      rows = Rows(images, capture)
    }
    guard let size else { throw TakeFailure(.noFrames, "there are no pictures in rgb/") }
    rows.frames.quality = FrameQuality.of(
      rows.poses, at: rows.frames.timestamps, isMetric: variant.poses == .arkit,
      ordinals: slam.map { slam in rows.frames.sourceIndex.map(slam.ordinal) })
    notes.add(FrameQuality.findings(rows.frames.quality, file: "poses.json"))
    notes.add(rows.frames.findings(isWhole: rows.dropped.isEmpty))
    let frames = rows.frames
    let clock = frames.clock
    let camera = try SessionCamera(folder, metadata, notes)
    let phone = camera.camera(for: size)

    var streams: [StreamName: SampleStream] = [:]
    var details: [String: JSONValue] = ["evidence": .array(variant.evidence.map { .string($0) })]
    if !rows.poses.isEmpty {
      let frame = poseFrame(variant)
      streams[.pose] = SampleStream(
        spec: StreamSpec(kind: .pose(frame), type: .float32, shape: [7], unit: frame.unit, clock: clock),
        source: VectorSource(rows.poses), timestamps: frames.timestamps, sourceIndex: frames.sourceIndex,
        rows: frames.timestamps.indices.rows)
    }
    streams[.image] = SampleStream(
      spec: StreamSpec(
        raster: Raster(size: size, covering: phone.size), kind: .image, type: .uint8, channels: 3, unit: "sRGB 0..255", clock: clock),
      source: JPEGFiles(inputs: take.inputs, entries: rows.images, size: size, limit: maxImageSide),
      timestamps: frames.timestamps, sourceIndex: frames.sourceIndex, rows: frames.timestamps.indices.rows)
    streams[.image]?.spec.sourceEncoding = .jpeg
    if let poses {
      streams[.depth] = try depthMaps(poses, folder, metadata, phone, clock, notes)
      streams[.depthPoint] = depthPoints(poses, clock)
    }
    for file in folder.encoders where streams[.joints] == nil {
      let encoders = try EncodersFile(
        take.inputs, file, limit: jsonLimit, startTime: metadata.startTime, signs: jointSigns.signs,
        csvOffset: csvClockOffset, notes: notes)
      streams[.joints] = encoders.stream
      if encoders.stream != nil { details["joint_range"] = .string(encoders.range) }
      guard encoders.count > 0 || file == folder.encoders.last else { continue }
      noteReadings("encoderCount", encoders.count, take.inputs.entries[file].path, metadata, notes)
      noteSigns(metadata, encoders, notes)
    }
    streams[.imu] = imu?.stream
    if let imu { noteReadings("imuCount", imu.count, "imu.json", metadata, notes) }
    if variant.poses.isSLAM { details["slam_backend"] = "unknown" }
    if let factor = metadata.scaleFactor { details["scale_factor"] = .number(factor) }

    var episode = Episode(id: take.id, sourceFrames: rows.sourceFrames, frames: frames, streams: streams)
    episode.cameras[.phone] = phone
    episode.variant = variant.name
    episode.findings = notes.findings
    episode.dropped = rows.dropped
    episode.unixOrigin = metadata.startTime.map { Episode.UnixOrigin(nanoseconds: $0, resolution: 1_000_000_000) }
    episode.captureStart = capture?.times.first ?? poses.flatMap { captureStart($0, images.first?.key) }
    episode.day = Day.inName(take.id) ?? metadata.startDay
    episode.details = details
    episode.details.merge(take.inputs.details) { own, _ in own }
    if !metadata.unknownKeys.isEmpty { episode.details["unknown_keys"] = .array(metadata.unknownKeys.map { .string($0) }) }
    if let coverage = rows.coverage { episode.details["coverage"] = .number(coverage) }
    if !metadata.declared.isEmpty { episode.details["declared"] = .object(metadata.declared) }
    if !camera.json.isEmpty { episode.details["cameras"] = .object(camera.json) }
    return episode
  }

  private func readPoses(_ folder: SessionFolder, _ metadata: SessionMetadata, limit: Int, _ notes: Notes) throws -> PoseList?
  {
    guard let file = folder.poses else { return nil }
    do {
      return try PoseList(json: folder.inputs, file, limit: limit, notes: notes)
    } catch let failure as TakeFailure where failure.code == .jsonInvalid && metadata.needsSLAM {
      // These are computed, and can be once more.
      var finding = failure.finding
      (finding.severity, finding.code) = (.warning, .posesUnreadable)
      notes.add(finding)
      return nil
    }
  }

  /// A session without poses, which a pipeline for poses leaves out.
  private func refuse(_ variant: SessionVariant, _ poses: PoseList?, _ folder: SessionFolder) throws {
    if variant.name == "v3-raw" { throw Rejection(FindingCode.needsSLAM.rawValue, variant: variant.name) }
    guard poses != nil else {
      throw TakeFailure(
        .posesMissing,
        "the session has \(folder.images.count) pictures and no poses.json: recording was not finished; SLAM could find poses",
        file: "poses.json")
    }
    throw TakeFailure(.noFrames, "the list of poses is empty", file: "poses.json")
  }

  private func poseFrame(_ variant: SessionVariant) -> PoseFrame {
    switch variant.poses {
    case .slam(.claimed): .slam(unit: "m (claimed)")
    case .slam(.arbitrary): .slam(unit: "arbitrary")
    case .synthetic: .synthetic
    case .arkit, .none: .arkit
    }
  }

  /// When the first image was taken. Where the first poses are missing, as many periods before the first that is there.
  private func captureStart(_ poses: PoseList, _ firstImage: Int64?) -> Timestamp? {
    let ordered = poses.entries.filter(\.isInOrder)
    guard let first = ordered.first else { return nil }
    guard let firstImage, firstImage < first.number, let period = Cadence(ordered.map(\.timestamp)).nominalPeriod else {
      return first.timestamp
    }
    return first.timestamp.advanced(byNanoseconds: -Double(first.number - firstImage) * period)
  }

  /// The movie that v2 and later record beside the pictures; it is only asked for times.
  private func movie(_ folder: SessionFolder, _ notes: Notes) -> Movie? {
    guard let file = folder.movie else { return nil }
    let path = folder.inputs.entries[file].path
    do {
      let slice = try folder.inputs.slice(file)
      return try naming(path) { try Movie(slice) }
    } catch {
      let words = (error as? TakeFailure)?.message ?? "\(error)"
      notes.add(.movieUnusable, "the movie cannot be asked for times: \(words)", file: path)
      return nil
    }
  }

  /// What the metadata say and the files show otherwise, and what the poses are worth.
  private func noteClaims(
    _ variant: SessionVariant, _ metadata: SessionMetadata, _ poses: PoseList?, _ folder: SessionFolder, _ size: ImageSize?,
    _ notes: Notes
  ) {
    func note(_ code: FindingCode, _ field: String, _ message: String) {
      notes.add(code, message, file: "metadata.json", field: ".\(field)")
    }
    if let claimed = metadata.rgbResolution, let size, claimed != size, !variant.isPacked {
      note(.resolutionMismatch, "rgbResolution", "rgbResolution says \(claimed), the pictures are \(size)")
    }
    if let source = metadata.captureSource, !["iphone_arkit", "iphone_ultrawide"].contains(source) {
      note(.captureSourceUnknown, "captureSource", "captureSource is \"\(source)\"; the session is read as one without ARKit")
    }
    if let count = metadata.count("rgbFrameCount", "frameCount"), count != Int64(folder.images.count) {
      note(.countMismatch, "rgbFrameCount", "it is \(count), rgb/ has \(folder.images.count) pictures")
    }
    if let count = metadata.count("poseCount"), let poses, count != Int64(poses.entries.count) {
      note(.countMismatch, "poseCount", "it is \(count), poses.json has \(poses.entries.count)")
    }
    if let count = metadata.count("depthFrameCount"), count != Int64(folder.depths.count) {
      note(.countMismatch, "depthFrameCount", "it is \(count), depth/ has \(folder.depths.count) maps")
    }
    if variant.poses.isSLAM {
      notes.add(
        metadata.scaleFactor == nil
          ? Finding(
            .scaleArbitrary, "poses are from SLAM without a scale; lengths are in an arbitrary unit", file: "poses.json")
          : Finding(
            .scaleClaimed, "poses are from SLAM, and the metadata claim that they were scaled to metres; nothing proves it",
            file: "metadata.json", field: ".scale_factor"))
    }
    if variant.isPacked, metadata.declared["imuCount"] != nil || metadata.hasVideo {
      note(.packedWithout, "hasVideo", "hasVideo and imuCount are of the session before it was packed; movie and IMU were left out then")
    }
  }

  /// Until then (2026-02-17 23:39 in the developer's own time), firmware had the third and fourth joints the other way round.
  private static let signChange: Int64 = 1_771_401_600_000_000_000

  private func noteSigns(_ metadata: SessionMetadata, _ encoders: EncodersFile, _ notes: Notes) {
    guard encoders.stream != nil, jointSigns.isDefault, let start = metadata.startTime, start < Self.signChange else { return }
    notes.add(.jointSignsUnknown, "the session is from before 2026-02-18, when firmware turned the third and fourth joint round; the option joint-signs sets their signs"
      )
  }

  /// What streams have and the metadata say otherwise.
  private func noteReadings(_ key: String, _ count: Int, _ file: String, _ metadata: SessionMetadata, _ notes: Notes) {
    guard let declared = metadata.count(key), declared != Int64(count) else { return }
    notes.add(.countMismatch, "it is \(declared), \(file) has \(count) readings", file: "metadata.json", field: ".\(key)")
  }

  private func depthMaps(
    _ poses: PoseList, _ folder: SessionFolder, _ metadata: SessionMetadata, _ phone: Camera, _ clock: Clock,
    _ notes: Notes
  ) throws -> SampleStream? {
    let named = poses.entries.filter { $0.depthIndex != nil && $0.isInOrder }
    let orphans = Set(folder.depths.keys).subtracting(poses.entries.compactMap(\.depthIndex)).count
    if orphans > 0 {
      notes.add(.depthOrphaned, "depth maps that no pose names are left out", file: "depth", count: orphans)
    }
    guard !named.isEmpty else { return nil }
    let present = named.compactMap { entry in entry.depthIndex.flatMap { folder.depths[$0] }.map { (entry, $0) } }
    if present.count < named.count {
      notes.add(.depthMissing, "depth maps that poses.json names are not in depth/", file: "depth",
          count: named.count - present.count)
    }
    guard !present.isEmpty else { return nil }
    let files = present.map(\.1)
    let format = try DepthFiles.format(of: files, in: folder.inputs, declared: metadata.depthResolution, notes: notes)
    let spec = StreamSpec(
      raster: Raster(size: format.size, covering: phone.size), kind: .depth, type: .float32, channels: 1, unit: "m", clock: clock)
    return SampleStream(
      spec: spec, source: DepthFiles(inputs: folder.inputs, files: files, format: format),
      timestamps: present.map(\.0.timestamp), sourceIndex: present.map { $0.0.depthIndex ?? -1 })
  }

  private func depthPoints(_ poses: PoseList, _ clock: Clock) -> SampleStream? {
    let entries = poses.entries
    let measured = entries.indices.filter { entries[$0].isInOrder && entries[$0].depthPoint > 0 && entries[$0].depthPoint.isFinite }
    guard !measured.isEmpty else { return nil }
    return SampleStream(
      spec: StreamSpec(kind: .vector, type: .float32, shape: [1], unit: "m", clock: clock),
      source: VectorSource(width: 1, values: measured.map { entries[$0].depthPoint }),
      timestamps: measured.map { entries[$0].timestamp }, sourceIndex: measured.map { entries[$0].number })
  }

  /// The frames of the episode, and what belongs to each.
  private struct Rows {
    var frames: Episode.Frames
    var poses: [Pose] = []
    /// Entries of the inputs.
    var images: [Int]
    var sourceFrames: Int
    var dropped: [Episode.Dropped] = []
    /// Pictures over poses, where the end of an upload is missing.
    var coverage: Double?

    init(_ join: FrameJoin, _ file: PoseList, _ folder: SessionFolder, _ capture: CaptureTimes?) {
      frames = Episode.Frames(
        timestamps: join.rows.map { file.entries[$0].timestamp }, sourceIndex: join.rows.map { file.entries[$0].number },
        clock: capture?.clock ?? .deviceUptime, tick: capture?.tick ?? 1)
      // An array that grows takes up to twice its size.
      poses.reserveCapacity(join.rows.count)
      images = []
      images.reserveCapacity(join.rows.count)
      for entry in join.rows.lazy.map({ file.entries[$0] }) {
        if let pose = entry.pose { poses.append(pose) }
        if let image = folder.images[entry.number] { images.append(image) }
      }
      sourceFrames = join.sourceFrames
      dropped = join.dropped
      coverage = join.coverage
    }

    /// Pictures alone.
    init(_ images: [(key: Int64, value: Int)], _ capture: CaptureTimes) {
      frames = Episode.Frames(timestamps: capture.times, sourceIndex: images.map(\.key), clock: capture.clock, tick: capture.tick)
      self.images = images.map(\.value)
      sourceFrames = images.count
    }
  }
}
