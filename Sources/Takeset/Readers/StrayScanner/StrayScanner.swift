import Foundation
import Media
package import Model

/// Recordings of the Stray Scanner app: `odometry.csv`, and as far as they are there `rgb.mp4`, `depth/NNNNNN.png`,
/// `confidence/NNNNNN.png`, `camera_matrix.csv` and `imu.csv`. In a folder, a zip or a tar.
///
///     reader: {name: stray-scanner, max-seconds: 1200}
package struct StrayScanner: Reader {
  package static let name = "stray-scanner"
  package static let summary = "Stray Scanner recordings: a movie, depth with confidence, odometry, intrinsics of each frame, IMU"

  /// Of the app's pictures, for which its intrinsics are.
  private static let pictureSize = ImageSize(width: 1920, height: 1440)
  private static let subfolders: Set<String> = ["depth", "confidence"]
  private static let movieName = "rgb.mp4", matrixName = "camera_matrix.csv", imuName = "imu.csv"

  var video = VideoOptions()
  @Option("a table larger than this fails the take (MiB)", 1...4096) var maxCsvMebibytes = 64
  var archive = Archive.Limits()

  package init() {}

  // MARK: Files

  package func recognises(_ place: TakeLocation) throws -> Bool {
    guard place.isDirectory else {
      guard let format = try Archive.format(of: place.path) else { return false }
      do {
        return try Archive(place.path, format: format, limits: self.archive).root(holding: [OdometryFile.name], folders: []) != nil
      } catch let failure as TakeFailure where failure.code == .archiveAmbiguous {
        return true
      } catch is TakeFailure {
        return false
      }
    }
    func exists(_ name: String) throws -> Bool { try Directory.kind(at: place.path + "/" + name) != nil }
    return try exists(OdometryFile.name) && ["depth", Self.movieName, Self.matrixName].contains(where: exists)
  }

  package func inputs(of place: TakeLocation) throws -> TakeInputs {
    if let format = try place.isDirectory ? nil : Archive.format(of: place.path) {
      let archive = try Archive(place.path, format: format, limits: self.archive)
      let root = try archive.root(holding: [OdometryFile.name], folders: []) ?? ""
      return TakeListing(archive: archive, root: root, subfolders: Self.subfolders).inputs(role: Self.role)
    }
    return try TakeListing(folder: place.path, subfolders: Self.subfolders).inputs(role: Self.role)
  }

  private static func role(of path: String) -> TakeInputs.Role? {
    switch path {
    case OdometryFile.name: return .poses
    case matrixName: return .calibration
    case imuName: return .imu
    case movieName: return .movie
    default: break
    }
    for (folder, role) in [("depth/", TakeInputs.Role.depth), ("confidence/", .confidence)] where path.hasPrefix(folder) {
      let name = path.dropFirst(folder.count)
      return name.hasSuffix(".png") && SessionFolder.number(inFileName: name) != nil ? role : nil
    }
    return nil
  }

  /// The entries of numbered files of a kind, by number.
  private func numbered(_ role: TakeInputs.Role, _ inputs: TakeInputs) -> [Int64: Int] {
    var files: [Int64: Int] = [:]
    for (index, entry) in inputs.entries.enumerated() where entry.role == role {
      let name = entry.path.drop { $0 != "/" }.dropFirst()
      if let number = SessionFolder.number(inFileName: name) { files[number] = index }
    }
    return files
  }

  // MARK: Opening

  package func open(_ take: Take) throws -> Episode {
    let inputs = take.inputs
    let limit = maxCsvMebibytes << 20
    let notes = Notes()
    guard let table = inputs.index(of: OdometryFile.name) else {
      throw TakeFailure(.posesMissing, "the recording has no odometry", file: OdometryFile.name)
    }
    let odometry = try OdometryFile(inputs, table, limit: limit, notes: notes)
    let ordered = odometry.poses.entries.filter(\.isInOrder)
    let depth = numbered(.depth, inputs)

    var movie: (take: MovieTake, episode: Episode, pairing: MoviePairing)?
    if let file = inputs.entries.firstIndex(where: { $0.role == .movie }) {
      let opened = try open(movie: inputs.slice(file), notes)
      let episode = opened.episode(id: take.id, snapsRate: false)
      let pairing = MoviePairing(
        rows: ordered.map { ($0.number, $0.timestamp) }, pictures: opened.movie.nanoseconds, tick: opened.movie.tickNanoseconds,
        others: odometry.poses.entries.filter { !$0.isInOrder }.map(\.number))
      notes.add(episode.findings)
      if opened.movie.samples.count != odometry.poses.entries.count {
        notes.add(.movieCountMismatch, "the movie has \(opened.movie.samples.count) pictures, the odometry \(odometry.poses.entries.count) rows; they are paired by \(pairing.method.rawValue)",
            file: Self.movieName)
      }
      movie = (opened, episode, pairing)
    }
    guard movie != nil || !depth.isEmpty else { throw TakeFailure(.noFrames, "there is neither rgb.mp4 nor a map in depth/") }

    let join = try FrameJoin(poses: odometry.poses, images: movie?.pairing.samples, in: Self.movieName, notes: notes)
    let rows = join.rows.map { odometry.poses.entries[$0] }
    var frames = Episode.Frames(timestamps: rows.map(\.timestamp), sourceIndex: rows.map(\.number), clock: .deviceUptime)
    let poses = rows.compactMap(\.pose)
    frames.quality = FrameQuality.of(poses, at: frames.timestamps, isMetric: true)
    notes.add(FrameQuality.findings(frames.quality, file: OdometryFile.name))
    notes.add(frames.findings(isWhole: join.dropped.isEmpty))

    let fullSize = movie?.take.movie.size ?? Self.pictureSize
    let calibration = try Calibration(
      odometry, ordered, matrix: inputs.index(of: Self.matrixName).map { try CSVFile(inputs, $0, limit: 1 << 16) }, notes)
    var streams: [StreamName: SampleStream] = [
      .pose: SampleStream(
        spec: StreamSpec(kind: .pose(.strayScanner), type: .float32, shape: [7], unit: "m", clock: .deviceUptime),
        source: VectorSource(poses), timestamps: frames.timestamps, sourceIndex: frames.sourceIndex, rows: rows.indices.rows)
    ]
    if let movie, var images = movie.episode.streams[.image] {
      images.spec.clock = .deviceUptime
      images.spec.rotationApplied = 0
      images.timestamps = movie.pairing.timestamps
      images.rows = rows.map { movie.pairing.samples[$0.number].map { Row($0) } }
      streams[.image] = images
    }
    addDepth(
      odometry.poses.entries, depth, fullSize, inputs,
      try GreyPNGFiles.size(of: depth.sorted { $0.key < $1.key }.map(\.value), in: inputs, .depth), &streams,
      notes)
    streams[.imu] = try inputs.index(of: Self.imuName).flatMap { try imu(CSVFile(inputs, $0, limit: limit), notes) }

    var episode = Episode(id: take.id, sourceFrames: join.sourceFrames, frames: frames, streams: streams)
    episode.cameras[.phone] = Camera(size: fullSize, lens: calibration.lens, pose: .pose)
    episode.variant = movie == nil ? "depth-only" : depth.isEmpty ? "rgb-only" : "rgbd"
    episode.findings = notes.findings
    episode.dropped = join.dropped
    episode.captureStart = ordered.first?.timestamp
    episode.day = Day.inName(take.id)
    episode.details = inputs.details
    if let movie {
      episode.details.merge(movie.episode.details) { own, _ in own }
      if movie.pairing.method == .number { episode.details["time_base_meaning"] = nil }
      episode.details["movie_pairing"] = .string(movie.pairing.method.rawValue)
    }
    if let matrix = calibration.matrix { episode.details["cameras"] = [Self.matrixName: matrix.json(for: fullSize)] }
    if let coverage = join.coverage { episode.details["coverage"] = .number(coverage) }
    return episode
  }

  private func open(movie slice: FileSlice, _ notes: Notes) throws -> MovieTake {
    // Poses are those of the camera as its pictures are coded.
    let movie = try MovieTake(
      slice, file: Self.movieName,
      options: video, rotation: .keep)
    if movie.movie.rotation != 0 {
      notes.add(.rotationIgnored, "the display matrix turns by \(movie.movie.rotation) degrees; pictures are stored as they are coded, as poses and intrinsics are of these",
          file: Self.movieName)
    }
    return movie
  }

  private func addDepth(
    _ rows: [PoseList.Entry], _ files: [Int64: Int], _ fullSize: ImageSize, _ inputs: TakeInputs, _ size: ImageSize?,
    _ streams: inout [StreamName: SampleStream],
    _ notes: Notes
  ) {
    let ordered = rows.filter(\.isInOrder)
    let present = ordered.filter { files[$0.number] != nil }
    let orphans = Set(files.keys).subtracting(rows.map(\.number)).count
    if orphans > 0 {
      notes.add(.depthOrphaned, "depth maps that no row names are left out", file: "depth", count: orphans)
    }
    guard !present.isEmpty else { return }
    if present.count < ordered.count {
      notes.add(.depthMissing, "rows whose depth map is not in depth/", file: "depth", count: ordered.count - present.count)
    }
    guard let size else {
      notes.add(.depthUndecodable, "no depth map can be decoded; the take is written without", file: "depth")
      return
    }
    func stream(_ kind: StreamKind, _ type: GreyPNGFiles.Content, _ files: [Int?], _ unit: String) -> SampleStream {
      SampleStream(
        spec: StreamSpec(
          raster: Raster(size: size, covering: fullSize), kind: kind, type: type == .depth ? .uint16 : .uint8, channels: 1, unit: unit,
          clock: .deviceUptime),
        source: GreyPNGFiles(inputs: inputs, files: files, content: type, size: size), timestamps: present.map(\.timestamp),
        sourceIndex: present.map(\.number))
    }
    streams[.depth] = stream(.depth, .depth, present.map { files[$0.number] }, "mm")
    let confidence = numbered(.confidence, inputs)
    if !confidence.isEmpty {
      streams[.confidence] = stream(
        .confidence, .confidence, present.map { confidence[$0.number] }, "0 low, 1 medium, 2 high")
    }
  }

  /// Acceleration in m/s² and turn rate in rad/s, by position: headers differ between versions.
  private func imu(_ table: CSVFile, _ notes: Notes) throws -> SampleStream? {
    var readings: [(time: Timestamp, values: [Float])] = []
    var unusable = 0
    var isFirst = true
    table.forEachLine { line in
      defer { isFirst = false }
      let values = (1...6).compactMap { line.number($0) }.map { Float($0) }
      if let time = line.seconds(0), values.count == 6, values.allSatisfy(\.isFinite) {
        readings.append((time, values))
      } else if !isFirst {
        unusable += 1
      }
    }
    if unusable > 0 {
      notes.add(.imuUnusable, "lines that are no readings are left out", file: Self.imuName, count: unusable)
    }
    guard !readings.isEmpty else { return nil }
    let sorted = readings.enumerated().sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }
    return SampleStream(
      spec: StreamSpec(kind: .inertial, type: .float32, shape: [6], unit: "m/s^2, rad/s", clock: .deviceUptime),
      source: VectorSource(width: 6, values: sorted.flatMap(\.element.values)), timestamps: sorted.map(\.element.time),
      sourceIndex: sorted.map { Int64($0.offset) })
  }
}

/// The intrinsics of a recording: those of each frame where the odometry has them, and those of `camera_matrix.csv`; all for the app's
/// full-size image.
private struct Calibration {
  let matrix: Intrinsics?
  private(set) var lens: Lens?

  /// - Parameter ordered: The rows of the odometry whose times ascend.
  init(_ odometry: OdometryFile, _ ordered: [PoseList.Entry], matrix table: CSVFile?, _ notes: Notes) throws {
    var lines: [CSVFile.Line] = []
    table?.forEachLine { if lines.count < 4 { lines.append($0) } }
    let places = [(0, 0), (1, 1), (0, 2), (1, 2)]
    matrix = lines.count == 3 && lines.allSatisfy({ $0.fields.count == 3 }) ? Intrinsics(places.compactMap { lines[$0].number($1) }) : nil
    if table != nil, matrix == nil {
      notes.add(.intrinsicsUnusable, "expected three rows of three numbers, with positive focal lengths", file: "camera_matrix.csv")
    }
    let known = ordered.compactMap { odometry.cameras[$0.number] }
    func median(_ value: (Intrinsics) -> Double) -> Double { known.map(value).sorted()[known.count / 2] }
    let usual = matrix ?? (known.isEmpty ? nil : Intrinsics(fx: median(\.fx), fy: median(\.fy), cx: median(\.cx), cy: median(\.cy)))
    lens = usual.map { usual in
      Lens(
        usual,
        moments: known.isEmpty ? [] : ordered.map { Lens.Moment(time: $0.timestamp, intrinsics: odometry.cameras[$0.number] ?? usual) })
    }
  }
}
