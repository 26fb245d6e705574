import Evidence
import Foundation
import Media
package import Model
package import Steps

/// Recordings of the Stray Scanner app, in a folder, a zip or a tar: `odometry.csv` and, as far as present, `rgb.mp4`,
/// `depth/NNNNNN.png`, `confidence/NNNNNN.png`, `camera_matrix.csv` and `imu.csv`.
///
///     reader: {name: stray-scanner, max-seconds: 1200}
package struct StrayScanner: Reader {
  package static let name = "stray-scanner"
  package static let summary = "Stray Scanner recordings: video, depth with confidence, odometry, intrinsics of each frame, IMU"
  package static let isolatesFolders = false

  /// Size of the app's images, which its intrinsics are for.
  private static let fullImageSize = ImageSize(width: 1920, height: 1440)
  private static let subfolders: Set<String> = ["depth", "confidence"]
  /// Members of `details` that readers of Takeset 0.2.0 and before, which paired images wrongly and knew no g, did not write.
  static let firstRowKey = "movie_first_row", accelerationKey = "acceleration_unit"
  private static let movieName = "rgb.mp4", matrixName = "camera_matrix.csv", imuName = "imu.csv"

  var video = VideoOptions()
  var moviePairing = MoviePairingOptions()
  @StepOption("a table larger than this fails the take (MiB)", 1...4096) var maxCsvMebibytes = 64
  var archive = Archive.Limits()

  package init() {}

  package func missing(in inputs: TakeInputs, hasRestedLong: Bool) throws -> String? { try inputs.unfinishedMovie() }

  // MARK: Files

  /// Recognizes a folder, or an archive, with the odometry table and one of depth, video and camera matrix.
  package func recognize(_ place: TakePlace) throws -> Candidate? {
    guard place.isDirectory else { return try archived(place) }
    guard try place.kind(of: OdometryFile.name) != nil else { return nil }
    guard try ["depth", Self.movieName, Self.matrixName].contains(where: { try place.kind(of: $0) != nil }) else { return nil }
    return Candidate(.certain, stem: place.name) { [path = place.path] in
      try TakeListing(folder: path, subfolders: Self.subfolders).inputs(role: Self.role)
    }
  }

  private func archived(_ place: TakePlace) throws -> Candidate? {
    try place.candidate(inArchive: archive) { archive in
      try archive.root(holding: [OdometryFile.name], folders: []).map { ($0, Self.subfolders, Self.role) }
    }
  }

  private static func role(of path: String) -> TakeInputs.Role? {
    switch path {
    case OdometryFile.name: return .poses
    case matrixName: return .calibration
    case imuName: return .imu
    case movieName: return .movie
    default: break
    }
    if NumberedFiles.matches(path, folder: "depth", ending: ".png") { return .depth }
    return NumberedFiles.matches(path, folder: "confidence", ending: ".png") ? .confidence : nil
  }

  // MARK: Opening

  package func open(_ take: Take) throws -> Episode {
    let inputs = take.inputs
    let limit = maxCsvMebibytes << 20
    let notes = FindingCollector()
    guard let table = inputs.index(of: OdometryFile.name) else {
      throw TakeFailure(.posesMissing, "the recording has no odometry", file: OdometryFile.name)
    }
    let odometry = try OdometryFile(inputs, table, limit: limit, notes: notes)
    let ordered = odometry.poses.entries.filter(\.isInOrder)
    let depth = NumberedFiles.entries(.depth, in: inputs)

    var movie: (take: MovieTake, episode: Episode, pairing: MoviePairing)?
    if let file = inputs.entries.firstIndex(where: { $0.role == .movie }) {
      let opened = try open(movie: inputs.slice(file), at: InputOrigin(inputs: inputs, entry: file))
      let episode = opened.episode(id: take.id, snapsRate: false)
      let pairing = MoviePairing(
        rows: ordered.map { ($0.number, $0.timestamp) }, presentationTimes: opened.movie.nanoseconds, tick: opened.movie.tickNanoseconds,
        hasHidden: opened.movie.hiddenSamples > 0, others: odometry.poses.entries.filter { !$0.isInOrder }.map(\.number))
      notes.add(episode.findings)
      if pairing.isAmbiguous {
        notes.add(
          moviePairing.finding(
            frames: opened.movie.samples.count, of: odometry.poses.entries.count,
            listed: "the odometry has \(odometry.poses.entries.count) rows", file: Self.movieName))
      } else if opened.movie.samples.count != odometry.poses.entries.count {
        let words =
          pairing.lacksFirst
          ? "a program that encoded the video again left out the first frame, which players do not show, so frame 0 is paired with row 1"
          : "they are paired by \(pairing.method.rawValue)"
        notes.add(
          .movieCountMismatch,
          "the video has \(opened.movie.samples.count) frames, the odometry \(odometry.poses.entries.count) rows; \(words)",
          file: Self.movieName)
      }
      movie = (opened, episode, pairing)
    }
    guard movie != nil || !depth.isEmpty else { throw TakeFailure(.noFrames, "there is neither rgb.mp4 nor a map in depth/") }

    let isMasked = movie.map { $0.pairing.isAmbiguous } == true && moviePairing.ambiguousMovie == .mask
    let join = try FrameJoin(
      poses: odometry.poses, images: isMasked ? nil : movie?.pairing.samples, unpaired: isMasked ? movie?.take.movie.samples.count : nil,
      in: Self.movieName, notes: notes)
    let rows = join.rows.map { odometry.poses.entries[$0] }
    var frames = Episode.Frames(timestamps: rows.map(\.timestamp), sourceIndex: rows.map(\.number), clock: .deviceUptime)
    let poses = rows.compactMap(\.pose)
    let quality = odometry.poses.quality(of: poses, at: frames.timestamps, isMetric: true, notes)
    frames.quality = quality ?? []
    notes.add(frames.droppedFrames(places: join.places))

    let calibration = try Calibration(
      odometry, ordered, matrix: inputs.index(of: Self.matrixName).map { try CSVFile(inputs, $0, limit: 1 << 16) }, notes)
    let fullSize = calibration.imageSize(of: movie?.take.movie.size, app: Self.fullImageSize, notes)
    var streams: [StreamName: SampleStream] = [
      .pose: SampleStream(
        spec: StreamSpec(kind: .pose(.strayScanner), type: .float32, shape: [7], unit: "m", clock: .deviceUptime),
        source: RecordOrigins(.line, rows.map(\.place), in: InputOrigin(inputs: inputs, entry: table)).source(poses),
        timestamps: frames.timestamps, sourceIndex: frames.sourceIndex, rows: rows.indices.rows)
    ]
    if quality == nil { streams[.pose] = nil }
    if let movie, var images = movie.episode.streams[.image] {
      images.spec.clock = .deviceUptime
      images.spec.raster = Raster(size: movie.take.movie.size, covering: fullSize)
      images.spec.rotationApplied = 0
      images.timestamps = movie.pairing.timestamps
      images.rows = rows.map { isMasked ? nil : movie.pairing.samples[$0.number].map { Row($0) } }
      streams[.image] = images
    }
    try addDepth(odometry.poses, depth, fullSize, inputs, &streams, notes)
    let inertial = try inputs.index(of: Self.imuName).flatMap { file in
      try imu(CSVFile(inputs, file, limit: limit), at: InputOrigin(inputs: inputs, entry: file), notes)
    }
    streams[.imu] = inertial?.stream

    var episode = Episode(id: take.id, sourceFrames: join.sourceFrames, frames: frames, streams: streams)
    episode.cameras[.phone] = Camera(size: fullSize, intrinsicsTrack: calibration.intrinsicsTrack, pose: quality.map { _ in .pose })
    episode.variant = movie == nil ? "depth-only" : depth.isEmpty ? "rgb-only" : "rgbd"
    episode.findings = notes.findings
    episode.dropped = join.dropped
    episode.captureStart = ordered.first?.timestamp
    episode.dates = Day.dates(name: take.id, movie?.take.date)
    episode.details = inputs.details
    if isMasked { episode.alignments.append(Episode.Alignment(stream: .image, method: "ambiguous")) }
    if let movie {
      episode.details.merge(movie.episode.details) { own, _ in own }
      if movie.pairing.method == .number { episode.details["time_base_meaning"] = nil }
      episode.details["movie_pairing"] = .string(movie.pairing.method.rawValue)
      episode.details[Self.firstRowKey] = movie.pairing.firstRow.map { JSONValue.integer($0) } ?? JSONValue.null
    }
    if let matrix = calibration.matrix { episode.details["cameras"] = [Self.matrixName: matrix.json(for: fullSize)] }
    if let inertial { episode.details[Self.accelerationKey] = .string(inertial.unit) }
    if let coverage = join.coverage { episode.details["coverage"] = .number(coverage) }
    return episode
  }

  private func open(movie slice: FileSlice, at place: InputOrigin) throws -> MovieTake {
    // Poses are those of the camera of the images as coded, the first of which players do not show.
    try MovieTake(slice, file: Self.movieName, at: place, options: video, rotation: nil, includesHidden: true)
  }

  private func addDepth(
    _ poses: PoseList, _ files: [Int64: Int], _ fullSize: ImageSize, _ inputs: TakeInputs,
    _ streams: inout [StreamName: SampleStream], _ notes: FindingCollector
  ) throws {
    guard !files.isEmpty else { return }
    let present = DepthFolder(files, of: poses, OdometryFile.name, notes).present
    guard !present.isEmpty else { return }
    guard let maps = try NumberedCapture.Maps.gray(files, in: inputs) else { return }
    try maps.check()
    let size = maps.size
    func stream(_ kind: StreamKind, _ type: GrayPNGFiles.Content, _ files: [Int?], _ unit: String) -> SampleStream {
      SampleStream(
        spec: StreamSpec(
          raster: Raster(size: size, covering: fullSize), kind: kind, type: type == .depth ? .uint16 : .uint8, channels: 1, unit: unit,
          clock: .deviceUptime),
        source: GrayPNGFiles(inputs: inputs, files: files, content: type, size: size), timestamps: present.map(\.pose.timestamp),
        sourceIndex: present.map(\.pose.number))
    }
    streams[.depth] = stream(.depth, .depth, present.map(\.file), "mm")
    let confidence = NumberedFiles.entries(.confidence, in: inputs)
    if !confidence.isEmpty {
      streams[.confidence] = stream(
        .confidence, .confidence, present.map { confidence[$0.pose.number] }, "0 low, 1 medium, 2 high")
    }
  }

  /// Medians of accelerations that are in g; lower ones feel no gravity, in whatever unit.
  private static let gravitiesInG = 0.3..<3.0

  /// Acceleration in m/s² and angular velocity in rad/s, by column position: headers differ between versions. The unit is that of the
  /// accelerations in the file: since February 2025 the app writes g, and gravity is part of them.
  private func imu(_ table: CSVFile, at place: InputOrigin, _ notes: FindingCollector) throws -> (stream: SampleStream, unit: String)? {
    var readings = InertialTable()
    var isFirst = true
    table.forEachLine { line in
      defer { isFirst = false }
      let values = (1...6).compactMap { line.number($0) }.map { Float($0) }
      if let time = line.seconds(0), values.count == 6, values.allSatisfy(\.isFinite) {
        readings.add(time, values, from: line.number)
      } else if !isFirst {
        readings.skip()
      }
    }
    var unit = "m/s^2"
    if let norm = readings.medianAcceleration, Self.gravitiesInG.contains(norm) {
      unit = "g"
      readings.scaleAccelerations(by: 9.80665)
      notes.add(
        .accelerationInG, "the median norm of the accelerations is \((norm * 100).rounded() / 100), so they are in g; they become m/s^2",
        file: Self.imuName)
    }
    readings.noteGravity(Self.imuName, notes)
    return readings.stream(clock: .deviceUptime, file: Self.imuName, in: .text(.line, place), notes: notes).map { (stream: $0, unit: unit) }
  }
}

/// The intrinsics of a recording: those of each frame where the odometry has them, and those of `camera_matrix.csv`; all for the app's
/// full-size image, or for that of the video that came with them.
private struct Calibration {
  let matrix: Intrinsics?
  private(set) var intrinsicsTrack: IntrinsicsTrack?

  /// - Parameter ordered: The rows of the odometry whose times ascend.
  init(_ odometry: OdometryFile, _ ordered: [PoseList.Entry], matrix table: CSVFile?, _ notes: FindingCollector) throws {
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
    intrinsicsTrack = usual.map { usual in
      IntrinsicsTrack(
        usual,
        moments: known.isEmpty
          ? [] : ordered.map { IntrinsicsTrack.Moment(time: $0.timestamp, intrinsics: odometry.cameras[$0.number] ?? usual) })
    }
  }

  /// The size of the images that the intrinsics are for: the video's, unless the principal point shows that they are for the app's own
  /// images, and that the video was encoded again in another size.
  func imageSize(of movie: ImageSize?, app: ImageSize, _ notes: FindingCollector) -> ImageSize {
    guard let movie else { return app }
    guard movie != app, let usual = intrinsicsTrack?.usual, !usual.isCentered(in: movie), usual.isCentered(in: app) else { return movie }
    let stretch = Double(movie.width * app.height) / Double(movie.height * app.width)
    if (0.99...1.01).contains(stretch) {
      notes.add(.intrinsicsScaled, "the intrinsics are for images of \(app), the video has \(movie); they are scaled")
    } else {
      notes.add(
        .intrinsicsImplausible,
        "the intrinsics are for images of \(app), the video has \(movie), of another shape; they are scaled as if it were not cropped")
    }
    return app
  }
}
