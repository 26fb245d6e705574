import Evidence
import Model
import Steps

/// `data.jsonl` of Spectacular AI: an object a line, with frames and readings of sensors.
struct SpectacularLog {
  static let name = "data.jsonl"

  struct Frame {
    var time: Timestamp?
    var intrinsics: Intrinsics?
    /// Meters of one unit of its depth map.
    var depthScale: Double?
  }

  /// Frames by number, from 0.
  private(set) var frames: [Frame] = []
  private(set) var sensors = SeparateSensors()
  /// Sources of poses, such as `arkit`, which are not read: nothing says whether they are the camera's.
  private(set) var poseSources: Set<String> = []
  private(set) var hasLocation = false

  /// - Parameter frameLimit: Number of frames that a video may have.
  init(_ inputs: TakeInputs, _ entry: Int, limit: Int, frameLimit: Int, notes: FindingCollector) throws {
    var bytes: [UInt8] = []
    try inputs.read(entry, limit: limit, hasher: SHA256(), into: &bytes)
    var numbered: [Int: Frame] = [:]
    var unreadable = 0
    var line = 0
    var rest = bytes[...]
    // One line at a time: a hostile file may have millions.
    while !rest.isEmpty {
      line += 1
      let end = rest.firstIndex(of: UInt8(ascii: "\n"))
      let text = rest[..<(end ?? rest.endIndex)]
      rest = end.map { rest[($0 + 1)...] } ?? []
      guard text.contains(where: { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "\r") }) else { continue }
      do {
        if let (number, frame) = try read(Array(text), line: line), number < frameLimit { numbered[number] = numbered[number] ?? frame }
      } catch is JSONError {
        unreadable += 1
      }
    }
    if unreadable > 0 {
      notes.add(.posesUnreadable, "lines that are not an object of JSON are skipped", file: Self.name, count: unreadable)
    }
    guard let last = numbered.keys.max() else {
      throw TakeFailure(.noFrames, "no line has frames with a number from 0 to \(frameLimit - 1)", file: Self.name)
    }
    frames = (0...last).map { numbered[$0] ?? Frame() }
  }

  /// Reads a line; the frame that it is, with its number.
  private mutating func read(_ text: [UInt8], line: Int) throws -> (Int, Frame)? {
    let reader = JSONReader(text)
    var time: Timestamp?
    let members = try reader.object { key in
      guard key == "time", try reader.nextIsNumber else { return nil }
      time = try reader.seconds()
      return .null
    }
    try reader.expectEnd()
    if let sensor = members["sensor"] {
      let values = sensor["values"]?.array?.compactMap(\.double) ?? []
      switch sensor["type"]?.string {
      case "accelerometer": sensors.add(.accelerometer, time, values, from: line)
      case "gyroscope": sensors.add(.gyroscope, time, values, from: line)
      default: break
      }
    } else if let cameras = members["frames"]?.array, let number = members["number"]?.double.flatMap({ Int(exactly: $0) }), number >= 0 {
      var frame = Frame(time: time)
      for camera in cameras {
        switch camera["cameraInd"]?.double ?? 0 {
        case 0: frame.intrinsics = camera["cameraParameters"].flatMap(Self.intrinsics)
        case 1: frame.depthScale = camera["depthScale"]?.double
        default: break
        }
      }
      return (number, frame)
    } else if members["gps"] != nil {
      hasLocation = true
    } else {
      // In the order of their names, so that every run names the same.
      for source in members.keys.sorted() where members[source]?["position"] != nil && source.utf8.count <= 40 && poseSources.count < 10 {
        poseSources.insert(source)
      }
    }
    return nil
  }

  static func intrinsics(_ camera: JSONValue) -> Intrinsics? {
    let keys = ["focalLengthX", "focalLengthY", "principalPointX", "principalPointY"]
    return Intrinsics(keys.compactMap { camera[$0]?.double })
  }
}
