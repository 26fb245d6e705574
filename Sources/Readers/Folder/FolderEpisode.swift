import Evidence
import Media
import Model
import Steps

/// The parts of a described folder, from their files to an episode.
struct FolderEpisode {
  let description: FolderDescription
  let inputs: TakeInputs
  let notes: FindingCollector
  /// Bytes of a table.
  let limit: Int
  /// The clock of all times, once the rows are known.
  private(set) var clock = Clock.deviceUptime

  init(description: FolderDescription, inputs: TakeInputs, notes: FindingCollector, limit: Int) {
    (self.description, self.inputs, self.notes, self.limit) = (description, inputs, notes, limit)
  }

  /// The years 2010 to 2096, in seconds.
  private static let unixSeconds: Range<Int64> = 1_262_304_000..<4_000_000_000

  private func clock(of first: Timestamp?, isAssumed: Bool = false) -> Clock {
    if isAssumed, description.pose == nil { return .frameNumber }
    let isUnix = description.time.unix ?? first.map { Self.unixSeconds.contains($0.nanoseconds / 1_000_000_000) } ?? false
    return isUnix ? .phoneUnix : .deviceUptime
  }

  private func intrinsics(of camera: CameraName) -> GivenIntrinsics? {
    description.cameras[camera].flatMap { part in
      let half = part.center == .pixel ? 0.5 : 0
      guard let fx = part.fx, let cx = part.cx, let cy = part.cy else { return nil }
      let size = part.width.flatMap { width in part.height.map { ImageSize(width: width, height: $0) } }
      return GivenIntrinsics([fx, part.fy ?? fx, cx + half, cy + half], of: size)
    }
  }

  // MARK: Rows

  /// The episode of the images of `camera_image`, which have rows at their times.
  mutating func episode(
    of pattern: FilePattern, _ times: FolderDescription.Times, id: String, maxImageSide: Int, keepsLocation: Bool
  ) throws -> Episode {
    let timed = try TimedFiles(pattern, times, unit: description.time.unit, inputs, limit: limit, notes)
    clock = clock(of: timed.files.lazy.compactMap(\.time).first, isAssumed: timed.isAssumed)
    var images: [Int64: Int] = [:]
    for file in timed.files { images[file.number] = file.entry }
    var list = try PoseList(
      timed.files.map { file in
        PoseList.Entry(number: file.number, timestamp: file.time ?? Timestamp(nanoseconds: 0), hasTime: file.time != nil, pose: .identity)
      }, file: timed.origin, number: "the files", notes: notes)
    list.what = "times"
    var capture = NumberedCapture(
      inputs: inputs, notes: notes, poses: list, poseFrame: nil, clock: clock, images: images, imagePlace: pattern.text,
      maxImageSide: maxImageSide, keepsLocation: keepsLocation)
    capture.usualIntrinsics = intrinsics(of: .phone)
    var episode = try capture.episode(id: id) { _ in (nil, nil) }
    episode.variant = "files"
    return episode
  }

  /// The episode of a video whose frames are the rows.
  mutating func episode(
    ofVideo path: String, _ times: FolderDescription.Times?, _ start: Timestamp, id: String, options: VideoOptions,
    pairing: MoviePairingOptions
  ) throws -> Episode {
    let movie = try movie(path, options)
    let (listed, origin) = try frameTimes(of: movie, times, start)
    clock = clock(of: listed.lazy.compactMap(\.self).first)
    let timed = try TimedMovie(
      movie, in: inputs, listed: listed, named: origin, file: origin, clock: clock, options: pairing, notes: notes)
    var episode = try timed.episode(id: id, notes: notes)
    episode.cameras[.phone] = camera(.phone, timed.size)
    episode.variant = "video"
    return episode
  }

  private func movie(_ path: String, _ options: VideoOptions) throws -> MovieTake {
    guard let entry = inputs.index(of: path) else {
      throw TakeFailure(.noFrames, "the description names it, and there is no such file", file: path)
    }
    return try MovieTake(inputs.slice(entry), file: path, at: InputOrigin(inputs: inputs, entry: entry), options: options, rotation: nil)
  }

  /// The times of a video's frames, by a table or its own, and the file that they are from.
  private func frameTimes(of movie: MovieTake, _ times: FolderDescription.Times?, _ start: Timestamp) throws -> ([Timestamp?], String) {
    guard case .table(let table, _)? = times else {
      let first = movie.movie.nanoseconds.first ?? 0
      return (movie.movie.nanoseconds.map { start.advanced(by: $0 - first) }, movie.file)
    }
    let listed = try DescribedTable(inputs, table.path, limit: limit).times(table, "time", notes)
    let frames = movie.movie.nanoseconds.count
    guard listed.count >= frames else {
      throw TakeFailure(
        .movieTimesDiffer,
        "the video has \(frames) frames, and \(table.path) \(listed.count) lines; which frames have none is not certain; expected a line for each",
        file: movie.file)
    }
    return (listed, table.path)
  }

  private func camera(_ name: CameraName, _ size: ImageSize) -> Camera {
    let given = intrinsics(of: name)
    let full = given?.size ?? size
    notes.add([Intrinsics.scaling(from: full, to: size, "the images are")].compactMap(\.self))
    if let problem = given?.problem {
      notes.add(.intrinsicsUnusable, problem, file: FolderDescription.fileName, field: "cameras.\(name)")
    } else if given == nil {
      notes.add(
        .intrinsicsAbsent, "the description has no intrinsics of \(name), so its pixels have no directions",
        file: FolderDescription.fileName)
    }
    return Camera(size: full, intrinsicsTrack: given?.intrinsics(for: full).map { IntrinsicsTrack($0) })
  }

  // MARK: Poses

  /// Adds the pose of each row, and drops rows without one.
  func addPoses(_ pose: FolderDescription.Pose, _ episode: inout Episode, gap: Int64) throws {
    let rows = try PoseRows(pose, inputs, limit: limit, notes)
    let posed = PosedRows(frame: rows.frame, clock: clock, file: rows.file, times: rows.trajectory.times, gap: gap)
    try posed.add(to: &episode, notes) { rows.pose(at: $0, limit: gap) }
    if episode.streams[.pose] != nil, rows.frame.unit == .arbitrary {
      notes.add(.scaleArbitrary, "the description says that the unit of the poses is arbitrary", file: rows.file)
    }
  }

  // MARK: Other cameras and depth

  /// Adds the images of a further camera, whose pose is not described.
  func add(_ images: FolderDescription.Images, _ episode: inout Episode, maxImageSide: Int, options: VideoOptions) throws {
    switch images.source {
    case .files(let pattern, let times):
      let timed = try TimedFiles(pattern, times, unit: description.time.unit, inputs, limit: limit, notes)
      timed.noteMissing(.imageMissing, notes)
      let files = timed.ordered(notes)
      let entries = files.map(\.entry)
      let size = try ImageFiles.size(of: FileSamples(inputs: inputs, entries: entries), limit: maxImageSide)
      let source = ImageFiles(
        samples: FileSamples(inputs: inputs, entries: entries), size: size, limit: maxImageSide, keepsMetadata: options.keepLocation)
      let camera = camera(images.camera, size)
      var spec = StreamSpec(
        raster: Raster(camera: images.camera, size: size, covering: camera.size), kind: .image, type: .uint8, channels: 3,
        unit: "sRGB 0..255",
        clock: clock)
      spec.sourceEncoding = source.encoding
      episode.cameras[images.camera] = camera
      episode.streams[images.name] = SampleStream(
        spec: spec, source: source, timestamps: files.map(\.time), sourceIndex: files.map(\.number))
    case .video(let path, let times, let start):
      let movie = try movie(path, options)
      notes.add(movie.findings)
      let (listed, origin) = try frameTimes(of: movie, times, start)
      let frames = FrameClock.exact(listed: listed, presented: movie.movie.nanoseconds)
      guard var stream = movie.episode(id: "", snapsRate: false).streams[.image], !frames.isAmbiguous,
        frames.positions.count(where: { $0 == nil }) * 5 <= frames.positions.count
      else {
        throw TakeFailure(
          .movieTimesDiffer, "the \(frames.positions.count) frames of the video are not at the \(listed.count) times in \(origin)",
          file: path)
      }
      let camera = camera(images.camera, movie.movie.size)
      stream.spec.clock = clock
      stream.spec.raster = Raster(camera: images.camera, size: movie.movie.size, covering: camera.size)
      stream.timestamps = frames.times
      stream.sourceIndex = frames.positions.map { $0.map { Int64($0) } ?? -1 }
      stream.rows = nil
      episode.cameras[images.camera] = camera
      episode.streams[images.name] = stream
    }
  }

  /// Adds depth maps, which cover the images of their camera.
  func add(_ depth: FolderDescription.Depth, _ episode: inout Episode) throws {
    let timed = try TimedFiles(depth.files, depth.times, unit: description.time.unit, inputs, limit: limit, notes)
    timed.noteMissing(.depthMissing, notes)
    let files = timed.ordered(notes)
    let byNumber = Dictionary(files.map { ($0.number, $0.entry) }) { first, _ in first }
    guard let maps = try NumberedCapture.Maps.gray(byNumber, of: depth.scale, in: inputs), let full = episode.cameras[depth.camera]?.size
    else {
      return
    }
    try maps.check(depth.files.text)
    episode.streams[depth.name] = SampleStream(
      spec: StreamSpec(
        raster: Raster(camera: depth.camera, size: maps.size, covering: full), kind: .depth, type: maps.type, channels: 1, unit: maps.unit,
        clock: clock),
      source: maps.source(files.map(\.entry)), timestamps: files.map(\.time), sourceIndex: files.map(\.number))
  }

  // MARK: Tables

  /// Adds a table of numbers as a stream. A field without a number is absent.
  func add(_ described: FolderDescription.Stream, _ episode: inout Episode) throws {
    let table = try DescribedTable(inputs, described.table.path, limit: limit)
    let member = "streams.\(described.name)"
    let time = try table.timeColumn(described.table, "\(member).time")
    let columns =
      try described.columns?.map { try table.column($0, "\(member).columns") }
      ?? (0..<table.columnCount).filter { $0 != time && !table.isIndex($0) }
    guard !columns.isEmpty else { throw TakeFailure(.csvInvalid, "it has no column but the times", file: table.path) }
    for column in columns where described.unit != "as recorded" {
      try table.check(column, is: described.unit, among: ["deg", "rad", "m", "mm", "cm"], "unit")
    }
    var (numbers, unreadable) = (NumberColumns(width: columns.count), UnreadableLines())
    func failure(_ line: CSVFile.Line, _ message: String, column: Int? = nil) -> TakeFailure {
      let place = column.map { ", column \(table.headings.isEmpty ? "\($0 + 1)" : String(table.headings[$0].onOneLine.prefix(60)))" } ?? ""
      return TakeFailure(.csvInvalid, message, file: table.path, field: ", line \(line.number)\(place)")
    }
    func read(_ line: CSVFile.Line) throws {
      guard let found = table.time(line, time, described.table.unit) else { return unreadable.add(line) }
      for column in columns {
        let text = (line.text(column) ?? "").lowercased()
        guard let number = DescribedTable.absent.contains(text) ? .nan : table.number(line, column) else {
          throw failure(
            line, "expected a number, found \"\(text.onOneLine.prefix(40))\"; the member columns says which columns are numbers",
            column: column)
        }
        numbers.add(number)
      }
      numbers.endLine(line.number, at: found)
    }
    try table.forEachRow(notes, read) { line in
      throw failure(line, "expected \(table.columnCount) fields, found \(line.fields.count)")
    }
    let expected = "a time in \(described.table.unit.rawValue) in column \(time + 1)"
    unreadable.note("lines without \(expected) are skipped", table.path, notes)
    guard numbers.count > 0, unreadable.count * 5 <= numbers.count + unreadable.count else {
      throw TakeFailure(
        .tooFewTimes,
        "\(unreadable.count) of \(numbers.count + unreadable.count) lines have no time: expected \(expected); \(unreadable.words)",
        file: table.path)
    }
    episode.streams[described.name] = numbers.stream(
      unit: described.unit, clock: clock, columns: table.headings.isEmpty ? nil : columns.map(table.name),
      in: .text(.line, InputOrigin(inputs: inputs, entry: table.entry)), file: table.path, notes)
  }

  /// The readings of an IMU in m/s² and rad/s.
  func imu(_ imu: FolderDescription.Inertial) throws -> SampleStream? {
    let table = try DescribedTable(inputs, imu.table.path, limit: limit)
    let (accel, gyro) = (imu.part.accelUnit == .g ? InertialTable.gravity : 1, imu.part.gyroUnit == .deg ? Double.pi / 180 : 1)
    func read(
      _ table: DescribedTable, _ columns: [TableColumn], _ member: String, _ factors: [Double],
      _ body: (Timestamp?, [Double], Int) -> Void
    ) throws {
      let time = try table.timeColumn(imu.table, "imu.time")
      let places = try columns.map { try table.column($0, member) }
      try table.forEachRow(notes) { line in
        let numbers = zip(places, factors).compactMap { place, factor in table.number(line, place).map { $0 * factor } }
        body(table.time(line, time, imu.table.unit), numbers, line.number)
      } other: {
        body(nil, [], $0.number)
      }
    }
    var readings = InertialTable()
    if let other = imu.gyroTable {
      var sensors = SeparateSensors()
      let gyroTable = try DescribedTable(inputs, other.path, limit: limit)
      try read(table, imu.part.accel, "imu.accel", [accel, accel, accel]) { sensors.add(.accelerometer, $0, $1, from: $2) }
      try read(gyroTable, imu.part.gyro, "imu.gyro", [gyro, gyro, gyro]) { sensors.add(.gyroscope, $0, $1, from: $2) }
      readings = sensors.table(other.path, notes)
      return readings.stream(
        clock: clock, file: other.path, in: .text(.line, InputOrigin(inputs: inputs, entry: gyroTable.entry)), notes: notes)
    }
    try read(table, imu.part.accel + imu.part.gyro, "imu", [accel, accel, accel, gyro, gyro, gyro]) { time, numbers, line in
      if let time, numbers.count == 6 { readings.add(time, numbers.map { Float($0) }, from: line) } else { readings.skip() }
    }
    readings.noteGravity(table.path, notes)
    return readings.stream(clock: clock, file: table.path, in: .text(.line, InputOrigin(inputs: inputs, entry: table.entry)), notes: notes)
  }
}
