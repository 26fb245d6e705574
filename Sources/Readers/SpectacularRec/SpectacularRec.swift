import Evidence
import Media
package import Model
package import Steps

/// Recordings of Spectacular Rec: `data.jsonl`, `data.mov` or `data.mp4`, and, as far as present, `calibration.json` and depth maps in `frames2/`.
///
///     reader: {name: spectacular-rec, max-seconds: 1200}
package struct SpectacularRec: Reader {
  package static let name = "spectacular-rec"
  package static let summary = "Spectacular Rec recordings: video, depth, IMU, intrinsics; no poses"

  private static let movieNames = ["data.mov", "data.mp4"]
  /// Containers in which other programs of Spectacular AI record.
  private static let otherMovies: Set<String> = ["data.mkv", "data.avi"]
  private static let depthFolder = "frames2", depthDigits = 8
  private static let calibrationName = "calibration.json"

  var video = VideoOptions()
  var pairing = MoviePairingOptions()
  @StepOption("a table larger than this fails the take (MiB)", 1...4096) var maxCsvMebibytes = 256
  var archive = Archive.Limits()

  package init() {}

  package func missing(in inputs: TakeInputs, hasRestedLong: Bool) throws -> String? { try inputs.unfinishedMovie() }

  // MARK: Files

  /// Recognizes a folder, or an archive, with the log and a video, also one that is not read, such as `data.mkv`.
  package func recognize(_ place: TakePlace) throws -> Candidate? {
    guard place.isDirectory else { return try archived(place) }
    let members = try place.members()
    guard members.contains(where: { $0.name == SpectacularLog.name && $0.kind == .file }) else { return nil }
    let names = Set(members.map(\.name))
    guard !names.isDisjoint(with: Self.otherMovies.union(Self.movieNames)) else { return nil }
    return Candidate(.certain, stem: place.name) { [path = place.path] in
      try TakeListing(folder: path, subfolders: [Self.depthFolder]).inputs(role: Self.role)
    }
  }

  private func archived(_ place: TakePlace) throws -> Candidate? {
    try place.candidate(inArchive: archive) { archive in
      guard let root = try archive.root(holding: [SpectacularLog.name], folders: []) else { return nil }
      let movies = Self.otherMovies.union(Self.movieNames).map { root.isEmpty ? $0 : root + "/" + $0 }
      guard archive.members.contains(where: { movies.contains($0.path) }) else { return nil }
      return (root, [Self.depthFolder], Self.role)
    }
  }

  private static func role(of path: String) -> TakeInputs.Role? {
    if path == SpectacularLog.name { return .metadata }
    if path == calibrationName { return .calibration }
    if movieNames.contains(path) || otherMovies.contains(path) { return .movie }
    return NumberedFiles.matches(path, folder: depthFolder, ending: ".png", digits: depthDigits) ? .depth : nil
  }

  // MARK: Opening

  package func open(_ take: Take) throws -> Episode {
    let inputs = take.inputs
    let notes = FindingCollector()
    guard let table = inputs.index(of: SpectacularLog.name) else {
      throw TakeFailure(.timesMissing, "the recording has no times", file: SpectacularLog.name)
    }
    guard let entry = Self.movieNames.lazy.compactMap({ inputs.index(of: $0) }).first else {
      let found = inputs.entries.first { $0.role == .movie }?.path
      throw TakeFailure(
        found == nil ? .noFrames : .formatUnsupported,
        "expected \(Self.movieNames.joined(separator: " or "))"
          + (found.map { ", found \($0): copy its video to an mp4 (ffmpeg -i \($0) -c copy data.mp4)" } ?? ""), file: found)
    }
    let log = try SpectacularLog(
      inputs, table, limit: maxCsvMebibytes << 20, frameLimit: video.maxSamples, notes: notes)
    let path = inputs.entries[entry].path
    let movie = try MovieTake(
      inputs.slice(entry), file: path, at: InputOrigin(inputs: inputs, entry: entry), options: video, rotation: nil)
    let timed = try TimedMovie(
      movie, in: inputs, listed: log.frames.map(\.time), named: SpectacularLog.name, file: SpectacularLog.name, clock: .deviceUptime,
      options: pairing, notes: notes)
    var episode = try timed.episode(id: take.id, notes: notes)
    episode.cameras[.phone] = try camera(log, timed.size, inputs, notes)
    try addDepth(log, timed.size, inputs, notes, &episode)
    episode.streams[.imu] = log.sensors.table(SpectacularLog.name, notes).stream(
      clock: .deviceUptime, file: SpectacularLog.name, in: .text(.line, InputOrigin(inputs: inputs, entry: table)), notes: notes)
    if log.hasLocation {
      notes.add(.locationRemoved, "there are positions of satellite navigation, which are never read", file: SpectacularLog.name)
    }
    if !log.poseSources.isEmpty {
      episode.details["poses_not_read"] = .array(log.poseSources.sorted().map { .string($0) })
    }
    episode.variant = episode.streams[.depth] == nil ? "rgb" : "rgbd"
    episode.findings = notes.findings
    return episode
  }

  /// The intrinsics of each frame, or else those of `calibration.json`, which says for images of what size both are.
  private func camera(_ log: SpectacularLog, _ size: ImageSize, _ inputs: TakeInputs, _ notes: FindingCollector) throws -> Camera {
    let calibration = try calibration(inputs, notes)
    var model: String?
    var full: ImageSize?
    if let calibration {
      let fields = JSONFields(members: calibration.object ?? [:], file: Self.calibrationName, path: ".cameras[0]")
      full = try fields.size("imageWidth", "imageHeight")
      model = try fields.text("model")
      notes.add([Intrinsics.scaling(from: full ?? size, to: size, "the video has", file: Self.calibrationName)].compactMap(\.self))
      if calibration["distortionCoefficients"]?.array?.contains(where: { $0.double.map { $0 != 0 } ?? false }) ?? false {
        notes.add(
          .distortionIgnored, "the lens has distortion (\(model ?? "model unknown")); images are stored as they are",
          file: Self.calibrationName)
      }
    }
    if let problem = model.flatMap(GivenIntrinsics.problem) {
      notes.add(.intrinsicsUnusable, problem, file: Self.calibrationName)
      return Camera(size: size)
    }
    func read(_ camera: JSONValue) -> Intrinsics? {
      SpectacularLog.intrinsics(camera, of: full).intrinsics(for: full ?? size)?.scaled(from: full ?? size, to: size)
    }
    let constant = calibration.flatMap(read)
    if calibration != nil, constant == nil { notes.add(.intrinsicsUnusable, GivenIntrinsics.expected, file: Self.calibrationName) }
    let given = log.frames.compactMap { frame in frame.time.flatMap { time in frame.intrinsics.map { (time: time, intrinsics: read($0)) } }
    }
    let moments = given.compactMap { time, intrinsics in intrinsics.map { IntrinsicsTrack.Moment(time: time, intrinsics: $0) } }
    if moments.count < given.count {
      notes.add(.intrinsicsUnusable, GivenIntrinsics.expected, file: SpectacularLog.name, count: given.count - moments.count)
    }
    let isAscending = zip(moments, moments.dropFirst()).allSatisfy { $0.time < $1.time }
    let usual = moments.isEmpty || !isAscending ? constant : moments[moments.count / 2].intrinsics
    if usual == nil, !notes.findings.contains(where: { $0.code == .intrinsicsUnusable }) {
      notes.add(.intrinsicsAbsent, "the recording has no intrinsics, so pixels have no directions")
    }
    let isConstant = moments.allSatisfy { $0.intrinsics == usual }
    return Camera(size: size, intrinsicsTrack: usual.map { IntrinsicsTrack($0, moments: isConstant || !isAscending ? [] : moments) })
  }

  /// The first camera in `calibration.json`.
  private func calibration(_ inputs: TakeInputs, _ notes: FindingCollector) throws -> JSONValue? {
    guard let entry = inputs.index(of: Self.calibrationName) else { return nil }
    do {
      return try inputs.readJSON(entry, limit: 1 << 20) { try $0.document() }["cameras"]?.array?.first ?? .null
    } catch let failure as TakeFailure where !failure.isOfMachine {
      notes.add(.intrinsicsUnusable, failure.message, file: Self.calibrationName)
      return nil
    }
  }

  /// Maps by the number of their frame, at its time.
  private func addDepth(
    _ log: SpectacularLog, _ size: ImageSize, _ inputs: TakeInputs, _ notes: FindingCollector, _ episode: inout Episode
  ) throws {
    var files = NumberedFiles.entries(.depth, in: inputs, digits: Self.depthDigits)
    let orphans = files.filter { !log.frames.indices.contains(Int($0.key)) || log.frames[Int($0.key)].time == nil }
    if !orphans.isEmpty {
      notes.add(.depthOrphaned, "depth maps whose number has no time are skipped", file: Self.depthFolder, count: orphans.count)
      for number in orphans.keys { files[number] = nil }
    }
    guard !files.isEmpty else { return }
    let missing = log.frames.indices.count { log.frames[$0].hasDepth && log.frames[$0].time != nil && files[Int64($0)] == nil }
    if missing > 0 {
      notes.add(
        .depthMissing, "depth maps that \(SpectacularLog.name) names are not in \(Self.depthFolder)", file: Self.depthFolder, count: missing
      )
    }
    let scales = Set(files.keys.compactMap { log.frames[Int($0)].depthScale })
    guard scales.count <= 1 else {
      return notes.add(
        .depthNotMetric, "depthScale changes within the recording; it is written without depth", file: SpectacularLog.name)
    }
    guard let maps = try NumberedCapture.Maps.gray(files, of: scales.first ?? 0.001, in: inputs) else { return }
    try maps.check()
    let timed = files.keys.compactMap { number in log.frames[Int(number)].time.map { (time: $0, number: number) } }.sorted { $0 < $1 }
    let (times, numbers) = (timed.map(\.time), timed.map(\.number))
    guard zip(times, times.dropFirst()).allSatisfy({ $0 < $1 }) else {
      return notes.add(.depthTimesUnordered, "frames have the same time; the recording is written without depth", file: SpectacularLog.name)
    }
    episode.streams[.depth] = SampleStream(
      spec: StreamSpec(
        raster: Raster(size: maps.size, covering: size), kind: .depth, type: maps.type, channels: 1, unit: maps.unit, clock: .deviceUptime),
      source: maps.source(numbers.map { files[$0] }), timestamps: times, sourceIndex: numbers)
  }
}
