import Foundation
import Media
package import Model
package import Steps

/// Sessions of the StackCapture iPhone app: a folder with `poses.json`, `rgb/NNNNNN.jpg`, and, depending on the variant, depth maps
/// (`v1`), one depth value per frame and joint encoders (`v2`), or poses that were computed later (`v3-…`, `packed`).
///
///     reader: {name: stack-session, max-image-side: 8192}
package struct StackSession: Reader {
  package static let name = "stack-session"
  package static let summary = "StackCapture sessions: poses, JPEG images, depth maps or points, joint encoders, IMU"
  package static let isolatesFolders = false
  package static let needsFFmpeg = false

  /// The treatment of a session without poses.
  package enum PosePolicy: String, OptionChoice { case required, optional }

  @StepOption("required: a session without poses is rejected; optional: it is converted without") var poses = PosePolicy.required
  @StepOption("a + or - for each joint, by which its angles are multiplied; early firmware has the third and fourth reversed")
  var jointSigns = JointSigns()
  @StepOption("added to the laptop's times in encoders_*.csv to get the phone's Unix time (seconds)", -4e9...4e9)
  var csvClockOffset: Double? = nil
  @StepOption("an image wider or higher than this is not decoded (pixels)", 1...16_384) var maxImageSide = 8192
  @StepOption("a JSON file larger than this fails the take, or tables in streams/ that are larger together (MiB)", 1...4096)
  var maxJsonMebibytes = 64
  @StepOption("copy a location in an image's EXIF data, and all that is beside it, with images that are stored as they are")
  var keepLocation =
    false
  var archive = Archive.Limits()

  package init() {}

  package func recognize(_ place: TakePlace) throws -> Candidate? { try SessionPlace(place: place, limits: archive).candidate() }

  package func open(_ take: Take) throws -> Episode {
    try refuse(take)
    let notes = FindingCollector()
    var session = try SessionContents(
      take.inputs, jsonLimit: maxJsonMebibytes << 20, maxImageSide: maxImageSide, notes: notes)
    if session.variant.poses == .none, poses == .required, !session.metadata.isLiveStream { throw missingPoses(session) }
    session.timeImages(notes)
    let claims = SessionClaims(session: session, notes: notes)
    claims.check()

    let rows = try SessionRows(session, notes)
    guard let size = session.size else { throw SessionRows.noImages }
    let camera = try SessionCamera(session.folder, session.metadata, notes)
    let phone = camera.camera(for: size)
    var episode = Episode(id: take.id, sourceFrames: rows.sourceFrames, frames: rows.frames, streams: [:])
    episode.cameras[.phone] = phone
    episode.dropped = rows.dropped
    episode.streams[.pose] = poseStream(rows, session)
    episode.streams[.image] = imageStream(rows, session, size, phone)
    episode.streams[.depth] = try depthStream(session, phone, notes)
    episode.streams[.depthPoint] = depthPointStream(session, notes)
    try addJoints(to: &episode, session, claims, notes)
    let tables = session.folder.tables
    guard tables.count <= StreamTable.mostTables else {
      throw TakeFailure(.limit, "\(tables.count) tables; expected \(StreamTable.mostTables) or fewer", file: StreamTable.folder)
    }
    var room = StreamTable.Room(bytes: maxJsonMebibytes << 20)
    for file in tables {
      let table = try StreamTable(take.inputs, file, room: &room, frameClock: session.clock, taken: Set(episode.streams.keys), notes)
      episode.streams[table.name] = table.stream
    }
    episode.streams[.imu] = session.imu?.stream
    if let imu = session.imu { claims.checkReadings("imuCount", imu.count, IMUFile.name) }

    describe(&episode, session, rows, camera)
    episode.findings = notes.findings
    return episode
  }

  // MARK: Refusals

  private func refuse(_ take: Take) throws {
    if take.inputs.archive == nil, take.inputs.entries.first?.role == .sidecar {
      throw TakeFailure(
        .archiveMissing, "this is the copy of a session's metadata, but the archive with the session is not next to it",
        file: take.inputs.entries[0].path)
    }
    if let folder = take.duplicateFolder, try SessionPlace.isDuplicate(take.inputs, of: folder.path) {
      throw Rejection(.duplicate, "the folder \(URL(fileURLWithPath: folder.path).lastPathComponent) has the same files")
    }
  }

  /// The error for a session without poses, in a pipeline that requires them.
  private func missingPoses(_ session: SessionContents) -> any Error {
    if session.variant.name == .v3Raw { return Rejection(.needsSLAM, variant: session.variant.name.rawValue) }
    guard session.poses != nil else {
      return TakeFailure(
        .posesMissing,
        "the session has \(session.images.count) images and no poses.json: recording was not finished; SLAM could compute poses",
        file: PosesFile.name)
    }
    return TakeFailure(.noFrames, "the list of poses is empty", file: PosesFile.name)
  }

  // MARK: Streams

  private func poseStream(_ rows: SessionRows, _ session: SessionContents) -> SampleStream? {
    guard !rows.poses.isEmpty else { return nil }
    let frame: PoseFrame =
      switch session.variant.poses {
      case .slam(.claimed): .slam(unit: .claimedMeters)
      case .slam(.arbitrary): .slam(unit: .arbitrary)
      case .synthetic: .synthetic
      case .arkit, .none: .arkit
      }
    return SampleStream(
      spec: StreamSpec(kind: .pose(frame), type: .float32, shape: [7], unit: frame.unit.rawValue, clock: session.clock),
      source: records(rows.places, session).source(rows.poses), timestamps: rows.frames.timestamps, sourceIndex: rows.frames.sourceIndex,
      rows: rows.frames.timestamps.indices.rows)
  }

  /// Entries of `poses.json`.
  private func records(_ places: [Int], _ session: SessionContents) -> RecordOrigins {
    RecordOrigins(.entry, places, in: session.folder.poses.map { InputOrigin(inputs: session.inputs, entry: $0) })
  }

  private func imageStream(_ rows: SessionRows, _ session: SessionContents, _ size: ImageSize, _ phone: Camera) -> SampleStream {
    var stream = SampleStream(
      spec: StreamSpec(
        raster: Raster(size: size, covering: phone.size), kind: .image, type: .uint8, channels: 3, unit: "sRGB 0..255",
        clock: session.clock),
      source: ImageFiles(
        samples: FileSamples(inputs: session.inputs, entries: rows.images), size: size, limit: maxImageSide, keepsMetadata: keepLocation),
      timestamps: rows.frames.timestamps, sourceIndex: rows.frames.sourceIndex, rows: rows.frames.timestamps.indices.rows)
    stream.spec.sourceEncoding = .jpeg
    return stream
  }

  private func depthStream(_ session: SessionContents, _ phone: Camera, _ notes: FindingCollector) throws -> SampleStream? {
    guard let poses = session.poses else { return nil }
    let depth = DepthFolder(session.folder.depths, of: poses.list, PosesFile.name, notes)
    guard !depth.present.isEmpty else { return nil }
    let files = depth.present.map(\.file)
    let format = try DepthFiles.format(of: files, in: session.inputs, declared: session.metadata.depthResolution, notes: notes)
    return SampleStream(
      spec: StreamSpec(
        raster: Raster(size: format.size, covering: phone.size), kind: .depth, type: .float32, channels: 1, unit: "m",
        clock: session.clock),
      source: DepthFiles(inputs: session.inputs, files: files, format: format), timestamps: depth.present.map(\.pose.timestamp),
      sourceIndex: depth.present.map { $0.pose.depthIndex ?? -1 })
  }

  /// Depth at the center of each image, which v2 measures.
  private func depthPointStream(_ session: SessionContents, _ notes: FindingCollector) -> SampleStream? {
    guard let poses = session.poses else { return nil }
    let measured = poses.entries.filter { $0.isInOrder && poses.depthPoint($0) > 0 && poses.depthPoint($0).isFinite }
    guard !measured.isEmpty else {
      let given = poses.entries.count { poses.depthPoint($0).isFinite }
      if given > 0 { notes.add(.depthSuspicious, "depths of poses are not above 0, and none is", file: PosesFile.name, count: given) }
      return nil
    }
    return SampleStream(
      spec: StreamSpec(kind: .vector, type: .float32, shape: [1], unit: "m", clock: session.clock),
      source: records(measured.map(\.place), session).source(width: 1, measured.map(poses.depthPoint)),
      timestamps: measured.map(\.timestamp),
      sourceIndex: measured.map(\.number))
  }

  /// Adds the readings of the first encoder file that has some.
  private func addJoints(to episode: inout Episode, _ session: SessionContents, _ claims: SessionClaims, _ notes: FindingCollector) throws {
    for file in session.folder.encoders where episode.streams[.joints] == nil {
      let encoders = try EncodersFile(
        session.inputs, file, limit: maxJsonMebibytes << 20, startTime: session.metadata.startTime, signs: jointSigns.signs,
        csvOffset: csvClockOffset, notes: notes)
      episode.streams[.joints] = encoders.stream
      guard encoders.count > 0 || file == session.folder.encoders.last else { continue }
      claims.checkReadings("encoderCount", encoders.count, session.inputs.entries[file].path)
      guard encoders.stream != nil else { continue }
      episode.details["joint_range"] = .string(encoders.range)
      claims.checkSigns(jointSigns)
    }
  }

  // MARK: Record

  private func describe(_ episode: inout Episode, _ session: SessionContents, _ rows: SessionRows, _ camera: SessionCamera) {
    let metadata = session.metadata
    episode.variant = session.variant.name.rawValue
    episode.unixOrigin = metadata.startTime.map { Episode.UnixOrigin(nanoseconds: $0, resolution: 1_000_000_000) }
    episode.captureStart = session.captureStart
    episode.dates = Day.dates(name: episode.id.text, metadata.startDate)
    episode.device = metadata.deviceModel
    episode.details["evidence"] = .array(session.variant.evidence.map { .string($0) })
    if session.variant.poses.isSLAM { episode.details["slam_backend"] = "unknown" }
    if let factor = metadata.scaleFactor { episode.details["scale_factor"] = .number(factor) }
    if !metadata.unknownKeys.isEmpty { episode.details["unknown_keys"] = .array(metadata.unknownKeys.map { .string($0) }) }
    if let coverage = rows.coverage { episode.details["coverage"] = .number(coverage) }
    if !metadata.declared.isEmpty { episode.details["declared"] = .object(metadata.declared) }
    if !camera.json.isEmpty { episode.details["cameras"] = .object(camera.json) }
    episode.details.merge(session.inputs.details) { own, _ in own }
  }
}
