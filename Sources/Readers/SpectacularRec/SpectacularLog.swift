import Evidence
import Model
import Steps

/// `data.jsonl` of Spectacular AI: an object a line, with frames and readings of sensors.
struct SpectacularLog {
  static let name = "data.jsonl"

  struct Frame {
    var time: Timestamp?
    /// The intrinsics as the line has them.
    var intrinsics: JSONValue?
    var hasDepth = false
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
    var unreadable: [Finding] = []
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
      } catch let error as JSONError {
        unreadable.note(Self.skipped(error.message, line))
      } catch let failure as SampleFailure {
        unreadable.note(failure.finding)
      }
    }
    notes.add(unreadable)
    guard let last = numbered.keys.max() else {
      throw TakeFailure(
        .noFrames, "no line has frames with a number from 0 to \(frameLimit - 1)" + (unreadable.first.map { "; \($0.message)" } ?? ""),
        file: Self.name)
    }
    frames = (0...last).map { numbered[$0] ?? Frame() }
  }

  private static func skipped(_ reason: String, _ line: Int) -> Finding {
    Finding(.posesUnreadable, "lines that cannot be read are skipped, the first: \(reason)", file: name, field: ", line \(line)")
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
    let fields = JSONFields(members: members, file: Self.name, path: ", line \(line), ")
    if let sensor = members["sensor"] {
      let values = sensor["values"]?.array?.compactMap(\.double) ?? []
      switch sensor["type"]?.string {
      case "accelerometer": sensors.add(.accelerometer, time, values, from: line)
      case "gyroscope": sensors.add(.gyroscope, time, values, from: line)
      default: break
      }
    } else if let cameras = members["frames"]?.array {
      guard let number = try fields.number("number").flatMap({ Int(exactly: $0) }), number >= 0 else {
        throw SampleFailure(finding: Self.skipped("frames without a whole number from 0", line))
      }
      var frame = Frame(time: time)
      for (place, camera) in cameras.enumerated() {
        let camera = JSONFields(members: camera.object ?? [:], file: Self.name, path: "\(fields.path).frames[\(place)]")
        switch try camera.number("cameraInd") ?? 0 {
        case 0: frame.intrinsics = camera.members["cameraParameters"]
        case 1: (frame.hasDepth, frame.depthScale) = (true, try camera.scale("depthScale"))
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

  /// Focal lengths and principal point of a camera, in pixels of images of a size.
  static func intrinsics(_ camera: JSONValue, of size: ImageSize?) -> GivenIntrinsics {
    let keys = ["focalLengthX", "focalLengthY", "principalPointX", "principalPointY"]
    return GivenIntrinsics(keys.compactMap { camera[$0]?.double }, of: size)
  }
}
