import Evidence
import Foundation
import Media
package import Model
package import Steps

/// Takes of iPhUMI, the recorder of the UMI gripper for iPhones: `NAME.json` with `NAME_rgb.mp4` and, as far as present, `NAME_depth.raw`
/// and `NAME_ultrawidergb.mp4` next to it.
///
///     reader: {name: iphumi, max-seconds: 1200}
package struct IPhUMI: Reader {
  package static let name = "iphumi"
  package static let summary = "iPhUMI takes: video, ultra-wide video, depth, poses, intrinsics"

  /// The sensor's depth maps, in landscape.
  private static let depthSize = ImageSize(width: 256, height: 192)
  private static let wideImage: StreamName = "ultrawide_image"
  private static let wideCamera: CameraName = "ultrawide"
  private static let movieEnding = "_rgb.mp4", wideEnding = "_ultrawidergb.mp4", depthEnding = "_depth.raw"
  private static let endings: [(ending: String, role: TakeInputs.Role)] = [
    (movieEnding, .movie), (wideEnding, .movie), (depthEnding, .depth), (".json", .metadata),
  ]
  /// Names that say which phone it is, and not which take.
  private static let sides: Set<String> = ["left", "right", "head"]

  var video = VideoOptions()
  var pairing = MoviePairingOptions()
  var archive = Archive.Limits()

  package init() {}

  package func missing(in inputs: TakeInputs, hasRestedLong: Bool) throws -> String? { try inputs.unfinishedMovie() }

  // MARK: Files

  /// Recognizes a JSON file by its keys, or by its depth file, if the video of its name is beside it; an archive by the same names.
  package func recognize(_ place: TakePlace) throws -> Candidate? {
    guard !place.isDirectory else { return nil }
    guard place.name.hasSuffix(".json") else { return try archived(place) }
    let stem = String(place.name.dropLast(".json".count))
    let folder = URL(fileURLWithPath: place.path).deletingLastPathComponent().path
    let hasMovie = try Directory.kind(at: "\(folder)/\(stem)\(Self.movieEnding)") == .file
    // A calibration of the gripper has an ultra-wide video alone.
    guard try hasMovie || Directory.kind(at: "\(folder)/\(stem)\(Self.wideEnding)") == .file else { return nil }
    // The keys are in any order, so the first one is any of them. Beside depth, a damaged file is a take, too.
    let start = String(decoding: try InputFile.start(of: place.path, count: 1 << 16), as: UTF8.self)
    let isKnown = IPhUMIFile.keys.contains { start.contains("\"\($0)\"") }
    guard try isKnown || Directory.kind(at: "\(folder)/\(stem)\(Self.depthEnding)") == .file else { return nil }
    let others = [Self.movieEnding, Self.wideEnding, Self.depthEnding, "_depthpreview.mp4"].map { "\(folder)/\(stem)\($0)" }
    let name = Self.sides.contains(stem) ? "\(place.location.folder)-\(stem)" : stem
    return Candidate(.certain, stem: name, companions: others, session: session(stem, in: folder)) {
      let entries = try Self.endings.compactMap { ending, role in
        try Directory.kind(at: "\(folder)/\(stem)\(ending)") == .file ? TakeInputs.Entry(path: stem + ending, role: role) : nil
      }
      return TakeInputs(root: folder, entries: entries, ignored: try TakeListing.tables(in: folder))
    }
  }

  /// The demonstration that a recording is of: `left.json` and the others of its folder, or those whose names differ only in the side.
  private func session(_ stem: String, in folder: String) -> Candidate.Session? {
    if Self.sides.contains(stem) { return Candidate.Session(key: folder + "/", name: URL(fileURLWithPath: folder).lastPathComponent) }
    guard let side = Self.sides.first(where: { stem.hasSuffix("_\($0)") }) else { return nil }
    let name = String(stem.dropLast(side.count + 1))
    return name.isEmpty ? nil : Candidate.Session(key: name, name: name)
  }

  /// An archive of one take.
  private func archived(_ place: TakePlace) throws -> Candidate? {
    var candidate = try inArchive(place)
    candidate?.session = session(place.stem, in: URL(fileURLWithPath: place.path).deletingLastPathComponent().path)
    return candidate
  }

  private func inArchive(_ place: TakePlace) throws -> Candidate? {
    try place.candidate(inArchive: archive, .likely) { archive in
      let paths = archive.members.map(\.path).filter { !$0.split(separator: "/").contains { $0.hasPrefix(".") || $0 == "__MACOSX" } }
      let known = Set(paths)
      let stems = paths.filter { $0.hasSuffix(Self.movieEnding) }.map { String($0.dropLast(Self.movieEnding.count)) }
        .filter { known.contains($0 + ".json") }
      guard let stem = stems.first else { return nil }
      guard stems.count == 1 else {
        throw TakeFailure(
          .archiveAmbiguous, "it holds \(stems.count) takes, \(stems.prefix(3).joined(separator: ", ")) among them; expected one")
      }
      let name = stem.split(separator: "/").last.map(String.init) ?? ""
      return (
        stem.split(separator: "/").dropLast().joined(separator: "/"), [], { path in Self.endings.first { path == name + $0.ending }?.role }
      )
    }
  }

  // MARK: Opening

  package func open(_ take: Take) throws -> Episode {
    let inputs = take.inputs
    let notes = FindingCollector()
    func entry(_ ending: String) -> Int? { inputs.entries.firstIndex { $0.path.hasSuffix(ending) } }
    guard let table = inputs.entries.firstIndex(where: { $0.role == .metadata }) else {
      throw TakeFailure(.posesMissing, "the take has no JSON file")
    }
    let place = inputs.entries[table].path
    guard let movieEntry = entry(Self.movieEnding) else {
      if try IPhUMIFile.isCalibration(inputs, table) {
        throw Rejection(.calibration, "it shows how far a gripper opens, and has no poses")
      }
      throw TakeFailure(.noFrames, "there is no \(Self.movieEnding) next to it", file: place)
    }
    let file = try IPhUMIFile(inputs, table, notes: notes)
    let movie = try self.movie(movieEntry, inputs)
    let poses = zip(file.poseTimes, file.poses).compactMap { time, pose in time.map { (time: $0, pose: pose) } }
    let timed = try TimedMovie(
      movie, in: inputs, listed: file.imageTimes, named: "rgbTimes", poses: poses, file: place, clock: .phoneUnix, options: pairing,
      notes: notes)
    var episode = try timed.episode(id: take.id, poseFrame: .arkit, notes: notes)
    episode.streams[.image]?.sourceIndex = timed.positions
    episode.cameras[.phone] = Camera(
      size: timed.size, intrinsicsTrack: file.intrinsics.map { IntrinsicsTrack($0) }, pose: episode.streams[.pose].map { _ in .pose })
    episode.streams[.depth] = try entry(Self.depthEnding).flatMap { try depth($0, file, timed, inputs, notes) }
    var sounds = [StreamName.image: movie.movie.sounds]
    if let wide = entry(Self.wideEnding) { sounds[Self.wideImage] = try add(wide, file, inputs, notes, &episode) }
    episode.variant = episode.streams[.depth] == nil ? "rgb" : "rgbd"
    episode.findings = notes.findings
    episode.details.merge(file.details) { own, _ in own }
    let heard = sounds.filter { !$0.value.isEmpty }
    if !heard.isEmpty {
      episode.details["sound"] = .object(
        Dictionary(uniqueKeysWithValues: heard.map { name, tracks in (name.rawValue, .array(tracks.map(Self.json))) }))
    }
    if let first = episode.frames.timestamps.first {
      let labels = file.labels(since: first)
      if !labels.isEmpty { episode.details[LabelDetails.format] = .object(labels) }
    }
    return episode
  }

  private func movie(_ entry: Int, _ inputs: TakeInputs) throws -> MovieTake {
    try MovieTake(
      inputs.slice(entry), file: inputs.entries[entry].path, at: InputOrigin(inputs: inputs, entry: entry), options: video, rotation: nil)
  }

  /// Maps follow each other in the order of their times. A repeated one keeps its values, and is not valid as a new measurement.
  private func depth(
    _ entry: Int, _ file: IPhUMIFile, _ movie: TimedMovie, _ inputs: TakeInputs, _ notes: FindingCollector
  ) throws -> SampleStream? {
    let path = inputs.entries[entry].path
    let slice = try inputs.slice(entry)
    let bytes = ConcatenatedDepth.mapBytes(Self.depthSize)
    let (count, rest) = slice.count.quotientAndRemainder(dividingBy: bytes)
    if rest > 0 {
      notes.add(.depthTrailingBytes, "\(rest) bytes are left after \(count) maps of \(bytes) bytes, of a map that is cut short", file: path)
    }
    let times = file.depthTimes.enumerated().compactMap { position, time in time.map { (position: position, time: $0) } }
    if Int64(times.count) != count {
      let words = Int64(times.count) > count ? "they are paired from the start" : "the take is written without depth"
      notes.add(.depthCountMismatch, "there are \(count) maps and \(times.count) times in depthTimes; \(words)", file: path)
    }
    // A file that ends early has the first maps. Of more maps than times nobody knows which has none.
    guard Int64(times.count) >= count else { return nil }
    let stamped = times.prefix(Int(clamping: count)).map { position, time in
      (position: position, time: movie.time(of: position, listed: time))
    }
    guard !stamped.isEmpty else { return nil }
    guard zip(stamped, stamped.dropFirst()).allSatisfy({ $0.time < $1.time }) else {
      notes.add(.depthTimesUnordered, "the times in depthTimes do not ascend; the take is written without depth", file: path)
      return nil
    }
    var stream = SampleStream(
      spec: StreamSpec(
        raster: Raster(size: Self.depthSize, covering: movie.size), kind: .depth, type: .float32, channels: 1, unit: "m", clock: .phoneUnix),
      source: ConcatenatedDepth(inputs: inputs, entry: entry, slice: slice, size: Self.depthSize), timestamps: stamped.map(\.time),
      sourceIndex: stamped.map { Int64($0.position) })
    if file.isRepeat.contains(true) {
      stream.isRepeat = stamped.map { file.isRepeat.indices.contains($0.position) && file.isRepeat[$0.position] }
    }
    return stream
  }

  private static func json(_ sound: Movie.Sound) -> JSONValue {
    ["codec": .string(sound.codec), "sample_rate_hz": JSONValue(sound.rate), "channels": JSONValue(sound.channels)]
  }

  /// Adds the ultra-wide camera's video, whose pose relative to the main camera is not in the take. Returns the sounds in its file.
  private func add(
    _ entry: Int, _ file: IPhUMIFile, _ inputs: TakeInputs, _ notes: FindingCollector, _ episode: inout Episode
  ) throws -> [Movie.Sound] {
    let path = inputs.entries[entry].path
    let movie: MovieTake
    do {
      movie = try self.movie(entry, inputs)
    } catch let error as TakeFailure where error.file == path && !error.isOfMachine {
      notes.add(.movieUnusable, "\(error.message); the take is written without it", file: path)
      return []
    }
    notes.add(movie.findings.filter { [.rotationIgnored, .pixelsNotSquare].contains($0.code) })
    let clock = FrameClock(listed: file.wideTimes, presented: movie.movie.nanoseconds)
    let unpaired = clock.positions.count { $0 == nil }
    guard var images = movie.episode(id: "", snapsRate: false).streams[.image], unpaired < clock.times.count else {
      notes.add(.movieUnusable, "none of its frames is at a time in ultrawideRGBTimes; the take is written without it", file: path)
      return movie.movie.sounds
    }
    if unpaired > 0 {
      notes.add(
        .movieCountMismatch, "frames are at none of the times in ultrawideRGBTimes; they keep their own times", file: path, count: unpaired)
    }
    images.spec.clock = .phoneUnix
    images.spec.raster = Raster(
      camera: Self.wideCamera, size: movie.movie.size, rasterFromFull: .scale(from: movie.movie.size, to: movie.movie.size))
    images.timestamps = clock.times
    images.sourceIndex = clock.positions.map { $0.map { Int64($0) } ?? -1 }
    images.rows = nil
    episode.streams[Self.wideImage] = images
    episode.cameras[Self.wideCamera] = Camera(size: movie.movie.size, intrinsicsTrack: file.wideIntrinsics.map { IntrinsicsTrack($0) })
    return movie.movie.sounds
  }
}
