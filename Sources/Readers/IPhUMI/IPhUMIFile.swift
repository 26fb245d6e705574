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
  private(set) var isRepeat: [Bool] = []
  private(set) var intrinsics: Intrinsics?
  private(set) var wideIntrinsics: Intrinsics?
  /// What is kept for the record: side, type, names of the session, the gripper and the tasks.
  private(set) var details: [String: JSONValue] = [:]

  /// Keys that only these files have.
  static let keys = [
    "poseTransforms", "poseTimes", "rgbTimes", "ultrawideRGBTimes", "depthTimes", "depthFrameIsRepeat", "mainCameraIntrinsics",
    "ultrawideCameraIntrinsics", "gripperID", "gripperCalibrationRunName", "taskStartTimestamps", "taskEndTimestamps", "recordingStartTime",
    "isErrorCorrection", "narration",
  ]
  private static let kept = [
    "side", "type", "sessionName", "gripperID", "gripperCalibrationRunName", "taskNames", "taskStartTimestamps", "taskEndTimestamps",
    "isErrorCorrection", "formatVersion", "recordingStartTime",
  ]

  init(_ inputs: TakeInputs, _ entry: Int, notes: FindingCollector) throws {
    let file = inputs.entries[entry].path
    var lists: [String: [Timestamp?]] = [:]
    var poses: [Pose?] = []
    var repeats: [Bool] = []
    let members = try inputs.readJSON(entry, limit: Self.limit) { reader in
      guard try reader.nextIsObject else { throw TakeFailure(.jsonType, "expected an object, found \(try reader.describeNext())") }
      let members = try reader.object { key in
        switch key {
        case "poseTimes", "rgbTimes", "ultrawideRGBTimes", "depthTimes":
          lists[key] = try Self.list(reader, key) { UnixTime.nanoseconds(rfc3339: $0.string ?? "").map { Timestamp(nanoseconds: $0) } }
        case "poseTransforms": poses = try Self.list(reader, key) { Self.pose($0) }
        case "depthFrameIsRepeat": repeats = try Self.list(reader, key) { $0.bool ?? false }
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
    imageTimes = lists["rgbTimes"] ?? []
    wideTimes = lists["ultrawideRGBTimes"] ?? []
    depthTimes = lists["depthTimes"] ?? []
    isRepeat = repeats
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
    for key in Self.kept { details[key] = members[key].flatMap { $0 == .null ? nil : $0 } }
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
