import Evidence
import Model
import Steps

/// The JSON file of an iPhUMI take. Lists of times and poses have an element for each frame of the session; a frame's position in them is its
/// number. What names the phone is not kept.
struct IPhUMIFile {
  static let limit = 256 << 20
  private static let frameLimit = 1 << 20

  private(set) var poses: [Pose?] = []
  /// Unix time, rounded to a millisecond; `nil` where a list has none.
  private(set) var poseTimes: [Timestamp?] = []
  private(set) var imageTimes: [Timestamp?] = []
  private(set) var wideTimes: [Timestamp?] = []
  private(set) var depthTimes: [Timestamp?] = []
  /// Whether the depth map of each frame repeats the one before it; empty where the file does not say so of any.
  private(set) var isRepeat: [Bool] = []
  private(set) var intrinsics: Intrinsics?
  private(set) var wideIntrinsics: Intrinsics?
  /// Details for the record: side, type, names of the session, the gripper and the tasks.
  private(set) var details: [String: JSONValue] = [:]

  /// Keys that only these files have.
  static let keys = [
    "poseTransforms", "poseTimes", "rgbTimes", "ultrawideRGBTimes", "depthTimes", "depthFrameIsRepeat", "mainCameraIntrinsics",
    "ultrawideCameraIntrinsics", "gripperID", "gripperCalibrationRunName", "taskStartTimestamps", "taskEndTimestamps", "recordingStartTime",
    "isErrorCorrection", "narration",
  ]
  private static let kept = [
    "side", "type", "sessionName", "gripperID", "gripperCalibrationRunName", "taskNames", "taskStartTimestamps", "taskEndTimestamps",
    "isErrorCorrection", "formatVersion", "recordingStartTime", "labelType", "sidesPresent", "hasAudio", "isVoiceHost",
  ]

  init(_ inputs: TakeInputs, _ entry: Int, notes: FindingCollector) throws {
    let file = inputs.entries[entry].path
    var lists: [String: [Timestamp?]] = [:]
    var poses: [Pose?] = []
    var repeats: [Bool?] = []
    let members = try inputs.readJSON(entry, limit: Self.limit) { reader in
      guard try reader.nextIsObject else { throw TakeFailure(.jsonType, "expected an object, found \(try reader.describeNext())") }
      let members = try reader.object { key in
        switch key {
        case "poseTimes", "rgbTimes", "ultrawideRGBTimes", "depthTimes":
          lists[key] = try Self.list(reader, key) { UnixTime.nanoseconds(rfc3339: $0.string ?? "").map { Timestamp(nanoseconds: $0) } }
        case "poseTransforms": poses = try Self.list(reader, key) { Self.pose($0) }
        case "depthFrameIsRepeat": repeats = try Self.list(reader, key) { $0.bool ?? Self.flag($0.integer) }
        default: return nil
        }
        return .null
      }
      try reader.expectEnd()
      return members
    }
    for key in ["poseTransforms", "poseTimes", "rgbTimes"] where members[key] == nil {
      throw TakeFailure(.jsonType, "the key is missing", file: file, field: ".\(key)")
    }
    self.poses = poses
    poseTimes = lists["poseTimes"] ?? []
    // Which pose has no time, or which time no pose, is not known; those after it would be of other frames.
    guard poses.count == poseTimes.count else {
      throw TakeFailure(
        .countMismatch, "there are \(poses.count) poses and \(poseTimes.count) times in poseTimes; expected one time for each pose",
        file: file, field: ".poseTransforms")
    }
    imageTimes = lists["rgbTimes"] ?? []
    wideTimes = lists["ultrawideRGBTimes"] ?? []
    depthTimes = lists["depthTimes"] ?? []
    isRepeat = Self.repeats(repeats, of: depthTimes.count, file, notes)
    func matrix(_ key: String) -> Intrinsics? {
      guard let rows = members[key]?.array else { return nil }
      let k = rows.flatMap { $0.array ?? [$0] }.compactMap(\.double)
      let found = k.count == 9 ? Intrinsics([k[0], k[4], k[2], k[5]]) : nil
      if found == nil {
        notes.add(.intrinsicsUnusable, "expected three rows of three numbers, with positive focal lengths", file: file, field: ".\(key)")
      }
      return found
    }
    intrinsics = matrix("mainCameraIntrinsics")
    wideIntrinsics = matrix("ultrawideCameraIntrinsics")
    let tasks = ["taskNames", "taskStartTimestamps", "taskEndTimestamps"].compactMap { key in members[key]?.array.map { (key, $0.count) } }
    if Set(tasks.map { $0.1 }).count > 1 {
      notes.add(
        .countMismatch, "\(tasks.map { "\($0) has \($1)" }.joined(separator: ", ")) elements; which belong together is unknown", file: file)
    }
    for key in Self.kept { details[key] = members[key].flatMap { $0 == .null ? nil : $0 } }
  }

  /// Whether a file is that of a gripper's calibration.
  static func isCalibration(_ inputs: TakeInputs, _ entry: Int) throws -> Bool {
    try inputs.readJSON(entry, limit: limit) { try $0.object { _ in nil } }["type"]?.string == "gripper_calibration"
  }

  /// What the file says of the take: a task, where it has one, a segment for each task with its times, and whether a mistake is corrected. What
  /// was spoken is left out: tasks are what was understood of it.
  func labels(since first: Timestamp) -> [String: JSONValue] {
    var labels: [String: JSONValue] = [:]
    if let flag = details["isErrorCorrection"]?.bool ?? Self.flag(details["isErrorCorrection"]?.integer) {
      labels["error_correction"] = .bool(flag)
    }
    let names = (details["taskNames"]?.array ?? []).map { $0.string ?? "" }
    guard details["labelType"]?.string != "None", !names.contains("") else { return labels }
    if let name = names.first, Set(names).count == 1 { labels["task"] = .string(name) }
    func seconds(_ key: String) -> [Double] {
      (details[key]?.array ?? []).compactMap { UnixTime.nanoseconds(rfc3339: $0.string ?? "") }.map {
        Double(Timestamp(nanoseconds: $0).since(first)) / 1e9
      }
    }
    let (starts, ends) = (seconds("taskStartTimestamps"), seconds("taskEndTimestamps"))
    // Of lists that differ in length, nobody knows which belong together.
    if !names.isEmpty, starts.count == names.count, ends.count == names.count {
      labels["segments"] = .array(
        zip(names, zip(starts, ends)).map { ["text": .string($0), "start": .number($1.0), "end": .number($1.1)] })
    }
    return labels
  }

  /// 0 or 1, as some programs write truth values.
  private static func flag(_ number: Int64?) -> Bool? { number == 0 ? false : number == 1 ? true : nil }

  /// Returns which maps repeat the one before them. If the list cannot be that of the maps, none is known to be new.
  private static func repeats(_ list: [Bool?], of maps: Int, _ file: String, _ notes: FindingCollector) -> [Bool] {
    let known = list.compactMap(\.self)
    if list.isEmpty || known.count == maps && known.count == list.count { return known }
    let words =
      known.count == list.count ? "\(list.count) elements" : "\(list.count - known.count) elements that are neither true nor false"
    notes.add(
      .countMismatch, "it has \(words), and depthTimes has \(maps); no map is taken for a new measurement", file: file,
      field: ".depthFrameIsRepeat")
    return Array(repeating: true, count: maps)
  }

  private static func list<Element>(_ reader: JSONReader, _ key: String, _ element: (JSONValue) -> Element) throws -> [Element] {
    guard try reader.nextIsArray else {
      throw TakeFailure(.jsonType, "expected a list, found \(try reader.describeNext())", field: ".\(key)")
    }
    try reader.beginArray()
    var (elements, isFirst): ([Element], Bool) = ([], true)
    while try reader.nextElement(isFirst: &isFirst) {
      guard elements.count < frameLimit else { throw TakeFailure(.limit, "there are more than \(frameLimit) frames", field: ".\(key)") }
      elements.append(element(try reader.value()))
    }
    return elements
  }

  /// Four rows of four numbers.
  private static func pose(_ value: JSONValue) -> Pose? {
    let numbers = (value.array ?? []).flatMap { $0.array ?? [$0] }.compactMap(\.double)
    return numbers.count == 16 ? try? Pose(rowMajor: numbers) : nil
  }
}
