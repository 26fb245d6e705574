import Evidence
import Foundation
import Media
package import Model
package import Steps

/// Recordings of OpenCamera Sensors on Android: `NAME.mp4` with `NAME_timestamps.csv`, `NAME_gyro.csv` and `NAME_accel.csv` next to it or in the
/// folder that the app names by the date.
///
///     reader: {name: opencamera-sensors, max-seconds: 1200}
package struct OpenCameraSensors: Reader {
  package static let name = "opencamera-sensors"
  package static let summary = "OpenCamera Sensors recordings (Android): video at the sensor's times, IMU; no poses"

  @StepOption("auto, apply: images are stored upright; keep: as coded") var rotation = VideoRotation.auto
  var video = VideoOptions()
  var pairing = MoviePairingOptions()
  @StepOption("a table larger than this fails the take (MiB)", 1...4096) var maxCsvMebibytes = 64
  var archive = Archive.Limits()

  package static let needsAlign = false

  package init() {}

  package func missing(in inputs: TakeInputs, hasRestedLong: Bool) throws -> String? { try inputs.unfinishedMovie() }

  // MARK: Files

  private static let movieEnding = ".mp4"
  private static let timesEnding = "_timestamps.csv", gyroEnding = "_gyro.csv", accelerationEnding = "_accel.csv"
  /// Tables that are not read.
  private static let otherEndings = ["_magnetic.csv", "_flash.csv", "_imu.csv"]

  /// Times for each frame that a video may have: some frames may be missing.
  private static let timesPerFrame = 2

  private static func role(of ending: String) -> TakeInputs.Role { ending == timesEnding ? .metadata : .imu }

  /// Folders of the tables, relative to that of the video: VID_20210811_120000.mp4 has its own in 20210811_120000/.
  private static func folders(_ stem: String) -> [String] {
    ["", stem + "/"] + (stem.hasPrefix("VID_") ? [stem.dropFirst(4) + "/"] : [])
  }

  /// Recognizes a video by the table of its frames' times, beside it or in the folder of its date; tables are its companions.
  package func recognize(_ place: TakePlace) throws -> Candidate? {
    guard !place.isDirectory else { return nil }
    guard place.name.hasSuffix(Self.movieEnding) else { return try archived(place) }
    let stem = String(place.name.dropLast(Self.movieEnding.count))
    let root = URL(fileURLWithPath: place.path).deletingLastPathComponent().path
    guard let folder = try Self.folders(stem).first(where: { try Directory.kind(at: "\(root)/\($0)\(stem)\(Self.timesEnding)") == .file })
    else { return nil }
    let endings = [Self.timesEnding, Self.gyroEnding, Self.accelerationEnding]
    let tables = (endings + Self.otherEndings).map { "\(root)/\(folder)\(stem)\($0)" }
    let others = folder.isEmpty ? tables : tables + ["\(root)/\(folder.dropLast())"]
    return Candidate(.certain, stem: stem, companions: others) {
      let tables = try endings.filter { try Directory.kind(at: "\(root)/\(folder)\(stem)\($0)") == .file }
        .map { TakeInputs.Entry(path: folder + stem + $0, role: Self.role(of: $0)) }
      return TakeInputs(
        root: root, entries: [TakeInputs.Entry(path: stem + Self.movieEnding, role: .movie)] + tables,
        ignored: try TakeListing.tables(in: root))
    }
  }

  /// An archive of one recording.
  private func archived(_ place: TakePlace) throws -> Candidate? {
    try place.candidate(inArchive: archive, .likely) { archive in
      let paths = archive.members.map(\.path).filter { !$0.split(separator: "/").contains { $0.hasPrefix(".") || $0 == "__MACOSX" } }
      let known = Set(paths)
      let found = paths.filter { $0.hasSuffix(Self.movieEnding) }.compactMap { path -> (root: String, stem: String, folder: String)? in
        let parts = path.split(separator: "/")
        let root = parts.dropLast().joined(separator: "/")
        let stem = String(parts.last?.dropLast(Self.movieEnding.count) ?? "")
        let prefix = root.isEmpty ? "" : root + "/"
        return Self.folders(stem).first { known.contains(prefix + $0 + stem + Self.timesEnding) }.map { (root, stem, $0) }
      }
      guard let (root, stem, folder) = found.first else { return nil }
      guard found.count == 1 else {
        throw TakeFailure(
          .archiveAmbiguous,
          "it holds \(found.count) recordings, \(found.prefix(3).map(\.stem).joined(separator: ", ")) among them; expected one")
      }
      return (
        root, Set([String(folder.dropLast())]),
        { path in
          if path == stem + Self.movieEnding { return .movie }
          let ending = [Self.timesEnding, Self.gyroEnding, Self.accelerationEnding].first { path == folder + stem + $0 }
          return ending.map(Self.role)
        }
      )
    }
  }

  // MARK: Opening

  package func open(_ take: Take) throws -> Episode {
    let inputs = take.inputs
    let notes = FindingCollector()
    func entry(_ ending: String) -> Int? { inputs.entries.firstIndex { $0.path.hasSuffix(ending) } }
    guard let table = entry(Self.timesEnding), let movieEntry = entry(Self.movieEnding) else {
      throw TakeFailure(.timesMissing, "the recording has no \(Self.timesEnding)")
    }
    let place = inputs.entries[table].path
    let times = try self.times(inputs, table, notes)
    let file = inputs.entries[movieEntry].path
    let movie = try MovieTake(
      inputs.slice(movieEntry), file: file, at: InputOrigin(inputs: inputs, entry: movieEntry), options: video, rotation: rotation)
    let timed = try TimedMovie(
      movie, in: inputs, listed: times, named: place, file: place, clock: .deviceUptime, options: pairing, notes: notes)
    var episode = try timed.episode(id: take.id, notes: notes)
    episode.cameras[.phone] = Camera(size: timed.size)
    episode = episode.rotating(.phone, by: movie.rotation)
    episode.streams[.imu] = try imu(entry(Self.accelerationEnding), entry(Self.gyroEnding), inputs, notes)
    notes.add(.intrinsicsAbsent, "the app writes no intrinsics, so pixels have no directions", file: file)
    episode.findings = notes.findings
    return episode
  }

  /// A time in nanoseconds a line, of each frame that the sensor made.
  private func times(_ inputs: TakeInputs, _ table: Int, _ notes: FindingCollector) throws -> [Timestamp?] {
    var times: [Timestamp?] = []
    var unreadable = 0
    try CSVFile(inputs, table, limit: maxCsvMebibytes << 20).forEachLine { line in
      if let time = Self.nanoseconds(line, 0) { times.append(time) } else if line.number > 1 { unreadable += 1 }
    }
    let path = inputs.entries[table].path
    guard times.count <= Self.timesPerFrame * video.maxSamples else {
      throw TakeFailure(
        .limit, "there are \(times.count) times, for a video of at most \(video.maxSamples) frames (max-samples)", file: path)
    }
    if unreadable > 0 {
      notes.add(.posesUnreadable, "lines that are not nanoseconds are skipped", file: path, count: unreadable)
    }
    guard !times.isEmpty else { throw TakeFailure(.timesMissing, "no line is a time in nanoseconds", file: path) }
    return times
  }

  private static func nanoseconds(_ line: CSVFile.Line, _ field: Int) -> Timestamp? {
    line.text(field).flatMap { Int64($0) }.flatMap { (0...(1 << 62)).contains($0) ? Timestamp(nanoseconds: $0) : nil }
  }

  /// Tables of x, y, z and a time in nanoseconds.
  private func imu(
    _ acceleration: Int?, _ gyro: Int?, _ inputs: TakeInputs, _ notes: FindingCollector
  ) throws -> SampleStream? {
    guard let acceleration, let gyro else {
      if let one = acceleration ?? gyro {
        notes.add(.imuUnusable, "one of the accelerometer and the gyroscope is missing; both are needed", file: inputs.entries[one].path)
      }
      return nil
    }
    var sensors = SeparateSensors()
    for (sensor, entry) in [(SeparateSensors.Sensor.accelerometer, acceleration), (.gyroscope, gyro)] {
      try CSVFile(inputs, entry, limit: maxCsvMebibytes << 20).forEachLine { line in
        let values = (0..<3).compactMap { line.number($0) }
        // The first line may be a header.
        if values.isEmpty, line.number == 1 { return }
        sensors.add(sensor, Self.nanoseconds(line, 3), values, from: line.number)
      }
    }
    return sensors.table(inputs.entries[gyro].path, notes).stream(
      clock: .deviceUptime, file: inputs.entries[gyro].path, in: .text(.line, InputOrigin(inputs: inputs, entry: gyro)), notes: notes)
  }
}
