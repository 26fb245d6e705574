import Evidence
import Foundation
import Media
package import Model
import Rasters
package import Steps

/// Takes of the AnySense app: a folder with `RGB_T.mp4`, `AR_Pose_T.txt` and, as far as present, `Depth_Images_T/`.
///
///     reader: {name: anysense, max-seconds: 1200}
package struct AnySense: Reader {
  package static let name = "anysense"
  package static let summary = "AnySense takes: portrait video, depth, poses; no intrinsics"

  /// The sensor's depth maps, in landscape.
  private static let depthSize = ImageSize(width: 256, height: 192)
  /// Unix times in milliseconds, up to 2096.
  private static let milliseconds: ClosedRange<Int64> = 0...4_000_000_000_000
  private static let poseStart = "AR_Pose_", movieStart = "RGB_", depthStart = "Depth_Images_"

  var video = VideoOptions()
  var pairing = MoviePairingOptions()
  @StepOption("a table larger than this fails the take (MiB)", 1...4096) var maxCsvMebibytes = 64
  var archive = Archive.Limits()

  package init() {}

  package func missing(in inputs: TakeInputs, hasRestedLong: Bool) throws -> String? { try inputs.unfinishedMovie() }

  // MARK: Files

  /// Recognizes a folder, or an archive, with a table of AR poses.
  package func recognize(_ place: TakePlace) throws -> Candidate? {
    guard place.isDirectory else { return try archived(place) }
    let members = try place.members()
    guard members.contains(where: { Self.role(of: $0.name) == .poses }) else { return nil }
    let folders = Set(members.map(\.name).filter { $0.hasPrefix(Self.depthStart) })
    return Candidate(.certain, stem: place.name) { [path = place.path] in
      try TakeListing(folder: path, subfolders: folders).inputs(role: Self.role)
    }
  }

  private func archived(_ place: TakePlace) throws -> Candidate? {
    try place.candidate(inArchive: archive) { archive in
      let names = archive.members.flatMap { $0.path.split(separator: "/").map(String.init) }
      let tables = Set(names.filter { Self.role(of: $0) == .poses })
      guard !tables.isEmpty, let root = try archive.root(holding: tables, folders: []) else { return nil }
      return (root, Set(names.filter { $0.hasPrefix(Self.depthStart) }), Self.role)
    }
  }

  private static func role(of path: String) -> TakeInputs.Role? {
    if path.hasPrefix(poseStart), path.hasSuffix(".txt"), !path.contains("/") { return .poses }
    if path.hasPrefix(movieStart), path.hasSuffix(".mp4"), !path.contains("/") { return .movie }
    let parts = path.split(separator: "/")
    let isMap = parts.count == 2 && parts[0].hasPrefix(depthStart) && parts[1].hasSuffix(".bin")
    return isMap && NumberedFiles.plainNumber(in: parts[1]) != nil ? .depth : nil
  }

  // MARK: Opening

  package func open(_ take: Take) throws -> Episode {
    let inputs = take.inputs
    let notes = FindingCollector()
    let tables = inputs.entries.indices.filter { inputs.entries[$0].role == .poses }
    guard let table = tables.first else { throw TakeFailure(.posesMissing, "the take has no AR_Pose_….txt") }
    let place = inputs.entries[table].path
    guard tables.count == 1 else {
      throw TakeFailure(.videoAmbiguous, "there are \(tables.count) tables of poses; expected one take in a folder", file: place)
    }
    // The files of a take share the time in their names.
    let stamp = String(place.dropFirst(Self.poseStart.count).dropLast(".txt".count))
    guard let entry = inputs.index(of: Self.movieStart + stamp + ".mp4") else {
      throw TakeFailure(.noFrames, "there is no \(Self.movieStart)\(stamp).mp4", file: place)
    }
    let poses = try self.poses(inputs, table, notes)
    let movie = try MovieTake(
      inputs.slice(entry), file: inputs.entries[entry].path, at: InputOrigin(inputs: inputs, entry: entry), options: video, rotation: nil)
    // Times are those of writing: a frame is the one nearest to them.
    let period = Cadence(poses.compactMap(\.time)).nominalPeriod ?? 33_333_333
    let timed = try TimedMovie(
      movie, in: inputs, listed: poses.map(\.time), named: place,
      poses: poses.compactMap { line in line.time.map { (time: $0, pose: line.pose) } }, file: place, clock: .phoneUnix,
      tolerance: max(FrameClock.tolerance, Int64(period / 2)), options: pairing, notes: notes)
    var episode = try timed.episode(id: take.id, poseFrame: .arkit, notes: notes)
    let images = episode.streams.removeValue(forKey: .image)
    // Poses and depth are those of the sensor in landscape, whose image rotated clockwise is the portrait one.
    let landscape = timed.size.transposed
    let pose = episode.streams[.pose].map { _ in StreamName.pose }
    episode.cameras[.phone] = Camera(size: landscape, pose: pose)
    episode.streams[.depth] = try depth(inputs, in: Self.depthStart + stamp, landscape, notes)
    if timed.size.height > timed.size.width {
      episode = episode.rotating(.phone, by: .right)
      if var images {
        images.spec.raster = Raster(size: landscape, covering: landscape).applying(.rotate(.right))
        episode.streams[.image] = images
      }
    } else {
      // Nothing is known of images in landscape; they are stored with the sensor's poses.
      episode.cameras[.phone] = Camera(size: timed.size, pose: pose)
      episode.streams[.image] = images
    }
    notes.add(.intrinsicsAbsent, "the app writes no intrinsics, so pixels have no directions", file: place)
    episode.variant = episode.streams[.depth] == nil ? "rgb" : "rgbd"
    episode.findings = notes.findings
    return episode
  }

  /// Lines such as `"<1719000000000>" ,qx,qy,qz,qw,tx,ty,tz`.
  private func poses(_ inputs: TakeInputs, _ table: Int, _ notes: FindingCollector) throws -> [(time: Timestamp?, pose: Pose?)] {
    var lines: [(time: Timestamp?, pose: Pose?)] = []
    var unreadable = 0
    try CSVFile(inputs, table, limit: maxCsvMebibytes << 20).forEachLine { line in
      let digits = (line.text(0) ?? "").filter { !"\"<> ".contains($0) }
      guard (12...13).contains(digits.utf8.count), let milliseconds = Int64(digits), Self.milliseconds.contains(milliseconds) else {
        return unreadable += 1
      }
      let numbers = (1...7).compactMap { line.number($0) }
      let pose = numbers.count == 7 && line.fields.count == 8 ? Pose(measured: Array(numbers[4...]) + numbers[..<4]) : nil
      lines.append((Timestamp(nanoseconds: milliseconds * 1_000_000), pose))
    }
    let path = inputs.entries[table].path
    if unreadable > 0 { notes.add(.posesUnreadable, "lines without a time are skipped", file: path, count: unreadable) }
    guard !lines.isEmpty else { throw TakeFailure(.noFrames, "no line has a time; expected \"<1719000000000>\" ,qx,qy,…", file: path) }
    return lines
  }

  /// Maps are named by their times.
  private func depth(_ inputs: TakeInputs, in folder: String, _ landscape: ImageSize, _ notes: FindingCollector) throws -> SampleStream? {
    let files = inputs.entries.enumerated().compactMap { index, entry -> (time: Int64, file: Int)? in
      guard entry.role == .depth, entry.path.hasPrefix(folder + "/"), let slash = entry.path.firstIndex(of: "/"),
        let time = NumberedFiles.plainNumber(in: entry.path[slash...].dropFirst()), Self.milliseconds.contains(time)
      else { return nil }
      return (time, index)
    }.sorted { $0.time < $1.time }
    let others = inputs.entries.filter { $0.role == .depth && !$0.path.hasPrefix(folder + "/") }
    if let other = others.first {
      notes.add(
        .depthOrphaned, "depth maps that are not in \(folder), the folder of the poses' time, are skipped", file: other.path,
        count: others.count)
    }
    guard !files.isEmpty else { return nil }
    let count = 4 * Self.depthSize.width * Self.depthSize.height
    return SampleStream(
      spec: StreamSpec(
        raster: Raster(size: Self.depthSize, covering: landscape), kind: .depth, type: .float32, channels: 1, unit: "m", clock: .phoneUnix),
      source: DecodedFiles(inputs: inputs, files: files.map(\.file), undecodable: .depthWrongSize) { file, rows in
        guard file.count == count else { throw DecodedFiles.Problem("\(file.count) bytes; expected \(count) for \(Self.depthSize)") }
        rows = file
        clearInvalidDepth(in: &rows)
      },
      timestamps: files.map { Timestamp(nanoseconds: $0.time * 1_000_000) }, sourceIndex: files.map(\.time))
  }
}
