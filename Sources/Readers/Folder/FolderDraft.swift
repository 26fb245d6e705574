import Foundation
import Media
import Model
import Steps

/// A first `takeset.yaml` for a folder, by looking at its names and at the first lines of its tables. What nobody can know by looking is a question in a
/// comment.
///
///     try FolderDraft("/data/realsense-1").text          // "# A draft: …"
package struct FolderDraft {
  /// Files of one folder and ending.
  struct Group {
    var folder: String
    var ending: String
    var names: [String]
    /// Of the first file that has one.
    var size: ImageSize?
    var isDepth = false

    var pattern: String { (folder.isEmpty ? "" : folder + "/") + "*." + ending }
    func path(_ name: String) -> String { folder.isEmpty ? name : "\(folder)/\(name)" }
  }

  private static let imageEndings: Set<String> = ["png", "jpg", "jpeg"]
  private static let tableEndings: Set<String> = ["csv", "txt", "tsv", "dat", "log"]
  private static let deepest = 5, mostFiles = 1_000_000, mostTables = 64
  /// Bytes of a table that are looked at; a larger one is not.
  private static let tableLimit = 256 << 20
  private static let tablesInComments = 20

  private let root: String
  private var images: [Group] = [], depth: [Group] = []
  private var videos: [String] = [], tablePaths: [String] = []
  private var lines: [String] = []
  private var questions = 0
  /// Names of images without endings, and what the description says of their times.
  private struct TimedNames {
    var stems: Set<String>
    var words: String
  }
  /// Images whose times a table has by their names.
  private var timed: [TimedNames] = []
  /// Tables of times, also those that images have.
  private var timesTables: [DraftedTable] = []

  /// The draft.
  package var text: String { lines.joined(separator: "\n") + "\n" }

  /// What a folder seems to hold, in a few words: `60 images in rgb/, 1 table`; `nil` where there are no images and no video.
  package static func words(for folder: String) -> String? {
    guard let draft = try? FolderDraft(listing: folder), !draft.images.isEmpty || !draft.videos.isEmpty else { return nil }
    let parts =
      draft.images.prefix(2).map { "\($0.names.count) images \($0.pattern)" }
      + draft.depth.prefix(1).map { "\($0.names.count) depth maps \($0.pattern)" }
      + draft.videos.prefix(1).map { "the video \($0)" }
      + (draft.tablePaths.isEmpty
        ? [] : [draft.tablePaths.count == 1 ? "the table \(draft.tablePaths[0])" : "\(draft.tablePaths.count) tables"])
    return parts.joined(separator: ", ").onOneLine
  }

  /// Throws `FileError` where the folder cannot be listed, and `UsageError` where nothing in it could be a take.
  package init(_ folder: String) throws {
    try self.init(listing: folder)
    guard !images.isEmpty || !videos.isEmpty else {
      throw UsageError(
        "\(folder) has no images (PNG, JPEG) and no video in it, down to \(Self.deepest) folders; a take needs one of them")
    }
    try describe()
  }

  private init(listing folder: String) throws {
    root = folder
    var groups: [String: Group] = [:]
    var count = 0
    func list(_ prefix: String, _ depth: Int) throws {
      for member in try Directory.members(of: prefix.isEmpty ? folder : folder + "/" + prefix.dropLast()) where !member.name.hasPrefix(".")
      {
        let path = prefix + member.name
        if member.kind == .directory, depth < Self.deepest { try list(path + "/", depth + 1) }
        guard member.kind == .file, count < Self.mostFiles else { continue }
        count += 1
        let ending = URL(name: member.name).pathExtension
        let kind = ending.lowercased()
        if Self.imageEndings.contains(kind) {
          groups[prefix + ending, default: Group(folder: String(prefix.dropLast()), ending: ending, names: [])].names.append(member.name)
        } else if MovieFile.endings.contains(kind) {
          videos.append(path)
        } else if Self.tableEndings.contains(kind) {
          tablePaths.append(path)
        }
      }
    }
    try list("", 0)
    for var group in groups.values.sorted(by: { ($0.folder, $0.ending) < ($1.folder, $1.ending) }) {
      for name in group.names.prefix(3) where group.size == nil {
        guard let start = try? InputFile.start(of: root + "/" + group.path(name), count: 1 << 16) else { continue }
        start.withUnsafeBytes { bytes in
          group.isDepth = (try? PNG.graySize(of: bytes, bits: 16)) != nil
          group.size = (try? PNG.size(of: bytes)) ?? (try? JPEGDecoder().size(of: bytes))
        }
      }
      if group.isDepth { depth.append(group) } else if group.names.count > 1 { images.append(group) }
    }
    images.sort { $0.names.count > $1.names.count }
  }

  // MARK: Writing

  private mutating func ask(_ question: String, indent: Int = 0) {
    questions += 1
    lines.append(String(repeating: " ", count: indent) + "# ? " + question)
  }

  /// Words that YAML reads as something else.
  private static let special: Set<String> = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "~"]

  private static func quoted(_ text: String) -> String {
    let isPlain =
      text.first.map { $0.isASCII && $0.isLetter } == true
      && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "_./-".contains($0)) }
    return isPlain && !special.contains(text.lowercased())
      ? text : "\"\(text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))\""
  }

  private static func list(_ columns: [TableColumn]) -> String {
    "[" + columns.map(word).joined(separator: ", ") + "]"
  }

  static func word(_ column: TableColumn) -> String {
    switch column {
    case .heading(let text): quoted(text)
    case .number(let number): "\(number)"
    }
  }

  private mutating func describe() throws {
    let folders = Set(
      (tablePaths + images.map { $0.path("x") } + depth.map { $0.path("x") }).map {
        PathParts.folder(of: $0)
      })
    let tables = try TakeListing(folder: root, subfolders: folders.subtracting([""])).inputs { tablePaths.contains($0) ? .stream : nil }
    var found = tablePaths.prefix(Self.mostTables).compactMap { path -> DraftedTable? in
      guard let table = try? DescribedTable(tables, path, limit: Self.tableLimit) else { return nil }
      return DraftedTable(table, images + depth)
    }
    timesTables = found.filter { $0.kind == .times }
    let isUnix = found.contains(where: \.isUnix) || images.contains { DraftedTable.isUnix($0.names) }
    lines = [
      "# A draft: takeset init --for folder looked at names and first lines. Lines that begin with \"# ?\" are what it cannot know.", "",
    ]
    let unit = describeImages(&found)
    describeDepth(&found, unit)
    describePose(&found, unit)
    describeOthers(&found, unit)
    describeCameras()
    lines += ["", "time: {unit: \(unit.rawValue)}"]
    if !isUnix { ask("Is that the unit? It is a guess from the steps of the times.") }
    lines += ["", "# labels: {task: fold the towel}"]
    lines.insert(
      questions == 0
        ? "# There are no questions." : "# \(questions) \(questions == 1 ? "question" : "questions"); then: takeset inspect FOLDER", at: 1)
  }

  private mutating func describeImages(_ tables: inout [DraftedTable]) -> TimeUnit {
    var unit: TimeUnit?
    lines.append("images:")
    var name = "camera_image"
    for (place, group) in images.prefix(8).enumerated() {
      if place > 0 { name = Self.name(of: group.folder, "_image", taken: lines) }
      lines += [
        "  \(name):", "    files: \(Self.quoted(group.pattern))  # \(group.names.count) images\(group.size.map { " of \($0)" } ?? "")",
      ]
      describeTimes(of: group, &tables, &unit)
    }
    for (place, video) in videos.prefix(8).enumerated() {
      let isRows = images.isEmpty && place == 0
      let own =
        isRows
        ? name
        : Self.name(
          of: URL(name: String(video.split(separator: "/").last ?? "")).deletingPathExtension().lastPathComponent, "_image", taken: lines)
      lines += ["  \(own):", "    video: \(Self.quoted(video))"]
      if let times = tables.firstIndex(where: { $0.kind == .times }), isRows {
        let table = tables[times]
        lines.append("    times: \(Self.times(table, unit: nil))")
        unit = unit ?? table.unit
        tables.remove(at: times)
      } else {
        lines.append("    start: 0")
        ask(
          "When was its first frame, in seconds on the clock of the tables? Or is there a table with the time of each frame (times: FILE)?",
          indent: 4)
      }
    }
    return unit ?? tables.compactMap(\.unit).first ?? .s
  }

  /// A table of times, with the column of these where it is not the first.
  private static func times(_ table: DraftedTable, unit: TimeUnit?) -> String {
    if table.timeColumn == 0, unit == nil { return quoted(table.path) }
    return
      "{table: \(quoted(table.path)), time: \(word(table.column(table.timeColumn)))\(unit.map { ", time-unit: \($0.rawValue)" } ?? "")}"
  }

  /// `wrist_image` for the folder `data/wrist`.
  private static func name(of folder: String, _ ending: String, taken: [String]) -> String {
    let plain = (folder.split(separator: "/").last ?? "other").lowercased().map {
      $0.isASCII && ($0.isLetter || $0.isNumber) ? String($0) : "_"
    }.joined()
    var name = (plain.first?.isLetter == true ? plain : "other_" + plain).prefix(40) + ending
    while taken.contains("  \(name):") { name = "more_" + name }
    return String(name)
  }

  private static func stem(_ name: String) -> String { URL(name: name).deletingPathExtension().lastPathComponent }

  private mutating func describeTimes(of group: Group, _ tables: inout [DraftedTable], _ unit: inout TimeUnit?) {
    let inNames = DraftedTable.times(inNames: group.names)
    let stems = Set(group.names.map(Self.stem))
    if let other = timed.first(where: { stems.intersection($0.stems).count * 2 > stems.count }) {
      // Maps and images with one name were taken together.
      lines.append("    times: \(other.words)")
    } else if let index = tables.firstIndex(where: { $0.files == group.pattern }) {
      let table = tables[index]
      // A log has other numbers beside the names.
      if table.kind == .times || table.kind == .numbers && table.others.isEmpty { tables.remove(at: index) }
      let isOther = unit != nil && unit != table.unit
      unit = unit ?? table.unit
      let words = Self.times(table, unit: isOther ? table.unit : nil)
      timed.append(TimedNames(stems: stems, words: words))
      lines.append("    times: \(words)")
    } else if let own = inNames, unit == nil || unit == own {
      lines.append("    times: name")
      unit = own
    } else if let index = tables.firstIndex(where: { $0.kind == .times && $0.rows == group.names.count }) {
      let table = tables.remove(at: index)
      lines.append("    times: \(Self.times(table, unit: nil))  # one line for each image")
      unit = unit ?? table.unit
    } else {
      lines.append("    times: {rate: 30}")
      ask("When were they taken? Nothing here has their times: give the table, or the frames per second.", indent: 4)
    }
  }

  private mutating func describeDepth(_ tables: inout [DraftedTable], _ given: TimeUnit) {
    if depth.isEmpty || images.isEmpty { return }
    lines += ["", "depth:"]
    for (place, group) in depth.prefix(images.count).enumerated() {
      let camera = place == 0 ? "camera" : String(Self.name(of: images[place].folder, "", taken: []))
      lines += [
        "  \(camera)_depth:",
        "    files: \(Self.quoted(group.pattern))  # \(group.names.count) maps\(group.size.map { " of \($0)" } ?? "")",
      ]
      var unit: TimeUnit? = given
      describeTimes(of: group, &tables, &unit)
      lines += ["    scale: 0.001", "    unit: m"]
      ask("What is a value of 1? 0.001 m in most dumps of RealSense and Azure Kinect, 0.0002 m in TUM RGB-D.", indent: 4)
      if place == 1 { ask("Whose depth is it? A map is named after the images that it covers: camera_depth for camera_image.", indent: 4) }
    }
  }

  private mutating func describePose(_ tables: inout [DraftedTable], _ unit: TimeUnit) {
    guard let index = tables.firstIndex(where: { if case .pose = $0.kind { true } else { false } }),
      case .pose(let words) = tables[index].kind
    else {
      lines += ["", "# pose: {table: poses.csv, layout: tum, axes: opencv, world-up: z}"]
      return ask("No table looks like poses.")
    }
    // A log has other numbers beside its poses.
    let table = tables[index]
    if table.others.isEmpty { tables.remove(at: index) } else { tables[index].kind = .numbers }
    lines += ["", "pose:", "  table: \(Self.quoted(table.path))"] + words.map { "  " + $0 }
    if words.contains("layout: kitti") {
      let times = timesTables.first { $0.rows == table.rows }
      lines.append("  times: \(times.map { Self.quoted($0.path) } ?? "times.txt")")
      if times == nil { ask("Which table has the time of each pose? None here has as many lines.", indent: 2) }
    } else if table.timeColumn != 0 {
      lines.append("  time: \(Self.word(table.column(table.timeColumn)))")
    }
    if let own = table.unit, own != unit, !words.contains("layout: euroc") { lines.append("  time-unit: \(own.rawValue)") }
    lines.append("  # axes: opencv")
    ask(
      "Which axes has the camera: opencv (x right, y down, z forward), arkit or opengl (x right, y up, z back), ros (x forward, y left, z up)?",
      indent: 2)
    lines.append("  # world-up: z")
    ask("Which axis of the world points up: x, y or z, or -x, -y, -z?", indent: 2)
    ask("Are positions in meters (else: unit: mm), and do the poses map camera to world (else: maps: world-to-camera)?", indent: 2)
    ask("Are they poses of the camera? Of a body, such as a gripper or an IMU: camera-in-body: [x, y, z, qx, qy, qz, qw].", indent: 2)
    if words.contains("layout: tum") {
      ask("Is the order of the quaternion x, y, z, w? With w first: columns, or layout: euroc for nanoseconds.", indent: 2)
    }
  }

  private mutating func describeOthers(_ tables: inout [DraftedTable], _ unit: TimeUnit) {
    func time(_ table: DraftedTable) -> String {
      (table.timeColumn == 0 ? "" : ", time: \(Self.word(table.column(table.timeColumn)))")
        + (table.unit.map { $0 == unit ? "" : ", time-unit: \($0.rawValue)" } ?? "")
    }
    if let index = tables.firstIndex(where: { if case .imu = $0.kind { true } else { false } }),
      case .imu(let accel, let gyro) = tables[index].kind
    {
      let table = tables.remove(at: index)
      lines += [
        "", "imu:",
        "  {table: \(Self.quoted(table.path)), accel: \(Self.list(accel)), gyro: \(Self.list(gyro)), accel-unit: m/s^2, gyro-unit: rad/s\(time(table))}",
      ]
      ask("Are these the units? Accelerations may be in g, rotations in deg/s.")
    }
    func sensor(_ word: String) -> Int? {
      tables.firstIndex { table in
        table.kind == .numbers && table.others.count == 3 && table.unit != nil
          && (table.path.split(separator: "/").last ?? "").lowercased().contains(word)
      }
    }
    if let first = sensor("acc"), let second = sensor("gyr"), !lines.contains("imu:"), tables[first].timeColumn == tables[second].timeColumn
    {
      let (accel, gyro) = (tables[first], tables[second])
      lines += [
        "", "imu:",
        "  {table: \(Self.quoted(accel.path)), accel: \(Self.list(accel.others)), gyro-table: \(Self.quoted(gyro.path)), gyro: \(Self.list(gyro.others)), accel-unit: m/s^2, gyro-unit: rad/s\(time(accel))}",
      ]
      ask("Are these the units? Accelerations may be in g, rotations in deg/s.")
      tables.removeAll { $0.path == accel.path || $0.path == gyro.path }
    }
    let numbers = tables.filter { $0.kind == .numbers && !$0.others.isEmpty }
    if !numbers.isEmpty {
      lines += ["", "streams:"]
      var taken: Set<String> = ["pose", "imu"]
      for table in numbers.prefix(Self.tablesInComments) {
        let stem = URL(name: String(table.path.split(separator: "/").last ?? "")).deletingPathExtension().lastPathComponent
        var name = String(Self.name(of: stem, "", taken: []))
        if StreamName(name).isReserved { name += "_table" }
        while !taken.insert(name).inserted { name = "more_" + name }
        let unit = table.otherUnit.map(Self.quoted) ?? "as recorded"
        lines.append("  \(name): {table: \(Self.quoted(table.path)), columns: \(Self.list(table.others)), unit: \(unit)\(time(table))}")
      }
    }
    for table in tables where table.kind != .numbers || table.others.isEmpty { lines.append("# Not used: \(table.path.onOneLine)") }
  }

  private mutating func describeCameras() {
    let size = images.first?.size
    lines += [
      "", "# cameras:",
      "#   camera: {fx: 600, fy: 600, cx: \((size?.width ?? 640) / 2), cy: \((size?.height ?? 480) / 2), width: \(size?.width ?? 640), height: \(size?.height ?? 480), center: pixel}",
    ]
    ask("What are the intrinsics? center: pixel where the principal point counts from the middle of the first pixel, as OpenCV and ROS do.")
  }
}
