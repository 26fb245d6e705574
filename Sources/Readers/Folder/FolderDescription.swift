import Evidence
import Model
import Steps

/// What `takeset.yaml` says of a folder: where its images, depth, poses and tables are, and what their numbers mean.
///
///     try FolderDescription(FolderDescription.document("images: {camera_image: {files: \"rgb/*.png\", times: rgb.txt}}"))
struct FolderDescription: Sendable {
  static let fileName = "takeset.yaml"
  static let byteLimit = 1 << 20

  /// Where the times of files are from.
  enum Times {
    case table(Table, file: TableColumn?)
    case names
    case rate(Double)
  }

  struct Table {
    var path: String
    var time: TableColumn?
    var unit: TimeUnit
  }

  struct Images {
    enum Source {
      case files(FilePattern, Times)
      /// A video; its times are those of a table, or its own since a start.
      case video(String, Times?, start: Timestamp)
    }
    var name: StreamName
    var source: Source

    var camera: CameraName { CameraName(String(name.rawValue.dropLast(FolderDescription.imageEnding.count))) }
  }

  struct Depth {
    var name: StreamName
    var camera: CameraName
    var files: FilePattern
    var times: Times
    /// Meters of a value of 1.
    var scale: Double
  }

  /// The columns of a pose.
  enum PoseColumns {
    case tum, euroc, kitti
    case matrix([TableColumn])
    case columns([String: TableColumn])
  }

  struct Pose {
    var table: Table
    var columns: PoseColumns
    var times: Table?
    var part: FolderParts.Pose
    /// The pose of the camera in the body that the poses are of.
    var camera: Model.Pose?
  }

  struct Stream {
    var name: StreamName
    var table: Table
    var columns: [TableColumn]?
    var unit: String
  }

  struct Inertial {
    var table: Table
    var gyroTable: Table?
    var part: FolderParts.Inertial
  }

  /// The rows' images first.
  private(set) var images: [Images] = []
  private(set) var depth: [Depth] = []
  private(set) var pose: Pose?
  private(set) var streams: [Stream] = []
  private(set) var imu: Inertial?
  private(set) var cameras: [CameraName: FolderParts.Camera] = [:]
  private(set) var time = FolderParts.Time()
  private(set) var labels: [String: JSONValue] = [:]

  private static let imageEnding = "_image", depthEnding = "_depth"
  private static let members = ["images", "depth", "pose", "streams", "imu", "cameras", "time", "labels"]
  private static let mostCameras = 16, mostStreams = 64

  /// Throws `PipelineFileError` with line and column of a mistake in the text.
  static func document(_ text: String) throws -> YAMLDocument {
    guard let document = try YAMLDocument(text) else {
      throw PipelineFileError("", "the description is empty; expected images, and what else the folder has")
    }
    return document
  }

  /// Throws `PipelineFileError` with path, line and column of the first mistake.
  init(_ document: YAMLDocument) throws {
    do {
      try self.init(document.value)
    } catch var error as PipelineFileError {
      (error.line, error.column) = document.place(of: error.path) ?? (error.line, error.column)
      throw error
    }
  }

  /// Throws `PipelineFileError` with the path of the first mistake.
  init(_ json: JSONValue) throws {
    guard let object = json.object else { throw PipelineFileError("", "expected the members of a description, found \(json.kind)") }
    if let key = object.keys.sorted().first(where: { !Self.members.contains($0) }) {
      throw PipelineFileError(
        key,
        "unknown member; a description has \(Self.members.joined(separator: ", "))\(Spelling.hint(for: key, among: Self.members, inQuotes: true))"
      )
    }
    time = try Options.decode(FolderParts.Time.self, over: object["time"], at: "time")
    try readImages(object["images"])
    try readDepth(object["depth"])
    if let json = object["pose"] { pose = try readPose(json) }
    for (name, json) in try Self.named(object["streams"], "streams", most: Self.mostStreams) {
      let path = "streams.\(name)"
      let part = try Options.decode(FolderParts.Stream.self, over: json, at: path)
      let stream = StreamName(name)
      guard StreamName.isName(name), name.utf8.count <= 64, !stream.isReserved,
        ![.pose, .imu].contains(stream), !images.contains(where: { $0.name == stream }), !depth.contains(where: { $0.name == stream })
      else {
        throw PipelineFileError(
          path,
          stream.isReserved
            ? "a dataset has something else of this name; choose another one"
            : "expected a name of lowercase letters, digits and underscores that nothing else in the take has")
      }
      if part.columns?.isEmpty == true { throw PipelineFileError("\(path).columns", "the list is empty; leave it out for all columns") }
      streams.append(Stream(name: stream, table: try table(part.source, path), columns: part.columns, unit: part.unit))
    }
    if let json = object["imu"] { imu = try readInertial(json) }
    for (name, json) in try Self.named(object["cameras"], "cameras", most: Self.mostCameras) {
      let path = "cameras.\(name)"
      let camera = CameraName(name)
      guard images.contains(where: { $0.camera == camera }) else {
        let known = images.map(\.camera.rawValue)
        throw PipelineFileError(
          path,
          "no images are of this camera; \(known.joined(separator: ", ")) \(known.count == 1 ? "has" : "have") some: the images NAME_image are those of NAME"
        )
      }
      let part = try Options.decode(FolderParts.Camera.self, over: json, at: path)
      for (key, value) in [("fx", part.fx), ("cx", part.cx), ("cy", part.cy)] where value == nil {
        throw PipelineFileError("\(path).\(key)", "the number is missing; fx, cx and cy are needed")
      }
      guard (part.width == nil) == (part.height == nil) else {
        throw PipelineFileError(path, "expected both of width and height, or neither")
      }
      cameras[camera] = part
    }
    if let json = object["labels"] {
      guard let found = json.object else {
        throw PipelineFileError("labels", "expected labels, such as {task: fold the towel}, found \(json.kind)")
      }
      for (name, value) in found {
        do { labels[name] = try LabelValue.checked(name, value) } catch let mistake as LabelValue.Mistake {
          throw PipelineFileError("labels", "\(mistake)")
        }
      }
    }
  }

  // MARK: Parts

  private static func named(_ json: JSONValue?, _ path: String, most: Int) throws -> [(String, JSONValue)] {
    guard let json, json != .null else { return [] }
    guard let object = json.object else { throw PipelineFileError(path, "expected names with what each is, found \(json.kind)") }
    guard object.count <= most else { throw PipelineFileError(path, "expected at most \(most), found \(object.count)") }
    return object.sorted { $0.key < $1.key }
  }

  private mutating func readImages(_ json: JSONValue?) throws {
    for (name, json) in try Self.named(json, "images", most: Self.mostCameras) {
      let path = "images.\(name)"
      guard name.hasSuffix(Self.imageEnding), name.count > Self.imageEnding.count, StreamName.isName(name), name.utf8.count <= 64 else {
        throw PipelineFileError(
          path, "expected a name that ends in _image, such as camera_image or wrist_image: what is before it names the camera")
      }
      let part = try Options.decode(FolderParts.Images.self, over: json, at: path)
      switch (part.files, part.video) {
      case (let files?, nil):
        if part.start != nil { throw PipelineFileError("\(path).start", "it is of a video; times has those of files") }
        let pattern = try FilePattern(files, at: "\(path).files")
        images.append(Images(name: StreamName(name), source: .files(pattern, try times(part.times, "\(path).times"))))
      case (nil, let video?):
        try FilePattern.check(video, "\(path).video")
        var times: Times?
        if let json = part.times, json != .null {
          guard case .table(let table, nil) = try self.times(json, "\(path).times") else {
            throw PipelineFileError(
              "\(path).times",
              "expected a table with a line for each frame, which needs no file; without one, frames have the times of the video, from start on"
            )
          }
          times = .table(table, file: nil)
          if part.start != nil { throw PipelineFileError("\(path).start", "the times of the frames are in a table; remove one of the two") }
        }
        images.append(
          Images(name: StreamName(name), source: .video(video, times, start: try Self.seconds(part.start, "\(path).start"))))
      default: throw PipelineFileError(path, "expected one of files and video")
      }
    }
    guard let rows = images.firstIndex(where: { $0.name == .image }) else {
      throw PipelineFileError("images", "expected images named camera_image: each of them is a row of the dataset")
    }
    images.insert(images.remove(at: rows), at: 0)
  }

  private mutating func readDepth(_ json: JSONValue?) throws {
    for (name, json) in try Self.named(json, "depth", most: Self.mostCameras) {
      let path = "depth.\(name)"
      guard name.hasSuffix(Self.depthEnding),
        let camera = images.first(where: { $0.camera.rawValue == name.dropLast(Self.depthEnding.count) })?.camera
      else {
        throw PipelineFileError(path, "expected the name of a camera that has images, and _depth: camera_depth for camera_image")
      }
      let part = try Options.decode(FolderParts.Depth.self, over: json, at: path)
      guard let files = part.files else { throw PipelineFileError("\(path).files", "the files are missing, such as \"depth/*.png\"") }
      depth.append(
        Depth(
          name: StreamName(name), camera: camera, files: try FilePattern(files, at: "\(path).files"),
          times: try times(part.times, "\(path).times"), scale: part.scale * part.unit.meters))
    }
  }

  private func times(_ json: JSONValue?, _ path: String) throws -> Times {
    switch json ?? .null {
    case .null:
      throw PipelineFileError(
        path, "the times are missing; expected a table, name where they are in the names of the files, or {rate: 30}")
    case .string("name"):
      if time.unit == .iso8601 { throw PipelineFileError(path, "names have numbers as times; iso8601 is a unit of tables") }
      return .names
    case .string(let file):
      try FilePattern.check(file, path)
      return .table(Table(path: file, time: nil, unit: time.unit), file: nil)
    case let other:
      let part = try Options.decode(FolderParts.FileTimes.self, over: other, at: path)
      if let rate = part.rate {
        if part.source.table != nil { throw PipelineFileError(path, "expected one of rate and table") }
        return .rate(rate)
      }
      return .table(try table(part.source, path), file: part.file)
    }
  }

  private func table(_ source: FolderParts.Table, _ path: String, unit: TimeUnit? = nil) throws -> Table {
    guard let table = source.table else { throw PipelineFileError("\(path).table", "the table is missing") }
    try FilePattern.check(table, "\(path).table")
    return Table(path: table, time: source.time, unit: source.timeUnit ?? unit ?? time.unit)
  }

  private func readPose(_ json: JSONValue) throws -> Pose {
    let part = try Options.decode(FolderParts.Pose.self, over: json, at: "pose")
    let given = [part.layout != nil, part.columns != nil, part.matrix != nil].count { $0 }
    guard given == 1 else {
      throw PipelineFileError("pose", "expected one of layout, columns and matrix, found \(given == 0 ? "none" : "\(given)")")
    }
    var columns: PoseColumns
    switch (part.layout, part.matrix) {
    case (.tum, _): columns = .tum
    case (.euroc, _): columns = .euroc
    case (.kitti, _): columns = .kitti
    case (nil, let matrix?):
      guard [12, 16].contains(matrix.count) else {
        throw PipelineFileError("pose.matrix", "expected 12 or 16 columns, by rows, found \(matrix.count)")
      }
      columns = .matrix(matrix)
    default: columns = .columns(try Self.poseColumns(part.columns ?? [:]))
    }
    var table = try self.table(part.source, "pose", unit: part.layout == .euroc ? .ns : nil)
    if case .columns(let named) = columns, let time = named["time"] {
      if table.time != nil { throw PipelineFileError("pose.time", "the column of the times is in columns, too") }
      table.time = time
    }
    var times: Table?
    if let path = part.times {
      guard part.layout == .kitti else { throw PipelineFileError("pose.times", "only the layout kitti has its times in another table") }
      try FilePattern.check(path, "pose.times")
      times = Table(path: path, time: nil, unit: part.source.timeUnit ?? self.time.unit)
    } else if part.layout == .kitti {
      throw PipelineFileError("pose.times", "the layout kitti has no times; name the table of the times, such as times.txt")
    }
    var camera: Model.Pose?
    if let numbers = part.cameraInBody {
      camera = numbers.count == 16 ? try? Model.Pose(rowMajor: numbers) : Model.Pose(measured: numbers)
      if camera == nil {
        throw PipelineFileError(
          "pose.camera-in-body",
          "expected the 16 numbers of a rotation and a position by rows, or x, y, z, qx, qy, qz, qw, found \(numbers.count) numbers that are neither"
        )
      }
      if part.unit == .arbitrary, camera.map({ $0.position != .zero }) == true {
        throw PipelineFileError(
          "pose.camera-in-body", "its position is in meters, and the unit of the poses is arbitrary; expected the position 0, 0, 0")
      }
      if part.maps == .worldToCamera { throw PipelineFileError("pose.maps", "poses of a body map its coordinates to those of the world") }
    }
    return Pose(table: table, columns: columns, times: times, part: part, camera: camera)
  }

  /// The rotations that columns may have.
  static let rotations = [["qx", "qy", "qz", "qw"], ["rx", "ry", "rz"], ["roll", "pitch", "yaw"]]

  private static func poseColumns(_ columns: [String: JSONValue]) throws -> [String: TableColumn] {
    let known = ["time", "x", "y", "z"] + rotations.joined()
    var given: [String: TableColumn] = [:]
    for (name, json) in columns {
      guard let column = TableColumn(json: json) else {
        throw PipelineFileError("pose.columns.\(name)", "expected \(TableColumn.words), found \(json.kind)")
      }
      given[name] = column
    }
    if let other = given.keys.sorted().first(where: { !known.contains($0) }) {
      throw PipelineFileError(
        "pose.columns.\(other)",
        "unknown; expected \(known.joined(separator: ", "))\(Spelling.hint(for: other, among: known, inQuotes: true))")
    }
    if let missing = ["x", "y", "z"].first(where: { given[$0] == nil }) {
      throw PipelineFileError("pose.columns.\(missing)", "the column is missing")
    }
    let present = rotations.filter { $0.contains { given[$0] != nil } }
    guard present.count == 1, present[0].allSatisfy({ given[$0] != nil }) else {
      throw PipelineFileError("pose.columns", "expected all of one rotation: qx, qy, qz, qw; or rx, ry, rz; or roll, pitch, yaw")
    }
    return given
  }

  private func readInertial(_ json: JSONValue) throws -> Inertial {
    let part = try Options.decode(FolderParts.Inertial.self, over: json, at: "imu")
    for (name, columns) in [("accel", part.accel), ("gyro", part.gyro)] where columns.count != 3 {
      throw PipelineFileError("imu.\(name)", "expected three columns, of x, y and z, found \(columns.count)")
    }
    let table = try self.table(part.source, "imu")
    var gyroTable: Table?
    if let path = part.gyroTable {
      try FilePattern.check(path, "imu.gyro-table")
      gyroTable = Table(path: path, time: table.time, unit: table.unit)
    }
    return Inertial(table: table, gyroTable: gyroTable, part: part)
  }

  /// Seconds as a number, which YAML rounds, or exactly as text.
  private static func seconds(_ json: JSONValue?, _ path: String) throws -> Timestamp {
    if let text = json?.string, DecimalNumber.isDecimal(text), let time = Timestamp(decimalSeconds: text.utf8) { return time }
    switch json ?? .null {
    case .null: return Timestamp(nanoseconds: 0)
    case .integer(let whole) where whole.magnitude < 4_000_000_000: return Timestamp(nanoseconds: whole * 1_000_000_000)
    // A double of this size is exact to a quarter of a microsecond.
    case .number(let seconds) where abs(seconds) < 4e9: return Timestamp(nanoseconds: Int64((seconds * 1e6).rounded()) * 1000)
    case let other: throw PipelineFileError(path, "expected seconds, found \(other.kind)")
    }
  }
}
