package import Model

/// A message of Foxglove's schemas in the encoding of Protocol Buffers.
///
/// Source: foxglove.dev's schemas for Protobuf, and "Encoding" of Protocol Buffers' documentation.
package struct FoxgloveMessage {
  package private(set) var bytes: [UInt8] = []

  mutating func add(_ field: Int, _ text: String) { add(field, Array(text.utf8)) }

  mutating func add(_ field: Int, _ data: [UInt8]) {
    add(tag: field, wire: 2)
    varint(UInt64(data.count))
    bytes += data
  }

  mutating func add(_ field: Int, _ message: FoxgloveMessage) { add(field, message.bytes) }

  mutating func add(_ field: Int, _ number: UInt32) {
    add(tag: field, wire: 5)
    withUnsafeBytes(of: number.littleEndian) { bytes += $0 }
  }

  mutating func add(_ field: Int, _ number: Double) {
    add(tag: field, wire: 1)
    withUnsafeBytes(of: number.bitPattern.littleEndian) { bytes += $0 }
  }

  mutating func add(_ field: Int, numbers: [Double]) {
    add(tag: field, wire: 2)
    varint(UInt64(8 * numbers.count))
    for number in numbers { withUnsafeBytes(of: number.bitPattern.littleEndian) { bytes += $0 } }
  }

  mutating func add(_ field: Int, whole number: Int64) {
    add(tag: field, wire: 0)
    varint(UInt64(bitPattern: number))
  }

  private mutating func add(tag field: Int, wire: UInt64) { varint(UInt64(field) << 3 | wire) }

  private mutating func varint(_ number: UInt64) {
    var rest = number
    while rest > 127 {
      bytes.append(UInt8(rest & 127) | 128)
      rest >>= 7
    }
    bytes.append(UInt8(rest))
  }

  // MARK: The messages

  private static func fields(_ body: (inout FoxgloveMessage) -> Void) -> FoxgloveMessage {
    var message = FoxgloveMessage()
    body(&message)
    return message
  }

  private static func time(_ nanoseconds: Int64) -> FoxgloveMessage {
    let (seconds, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
    return fields {
      $0.add(1, whole: rest < 0 ? seconds - 1 : seconds)
      $0.add(2, whole: rest < 0 ? rest + 1_000_000_000 : rest)
    }
  }

  package static func image(_ file: [UInt8], format: String, frame: String, at time: Int64) -> [UInt8] {
    fields {
      $0.add(1, Self.time(time))
      $0.add(2, file)
      $0.add(3, format)
      $0.add(4, frame)
    }.bytes
  }

  /// A depth map in whole millimeters.
  package static func depth(_ values: [UInt16], size: ImageSize, frame: String, at time: Int64) -> [UInt8] {
    fields {
      $0.add(1, Self.time(time))
      $0.add(2, UInt32(size.width))
      $0.add(3, UInt32(size.height))
      $0.add(4, "16UC1")
      $0.add(5, UInt32(2 * size.width))
      $0.add(6, values.withUnsafeBytes { Array($0) })
      $0.add(7, frame)
    }.bytes
  }

  /// - Parameter camera: With the origin at the outer corner of the top-left pixel; in the message, it is at the center of that pixel.
  package static func calibration(_ camera: Intrinsics, size: ImageSize, frame: String, at time: Int64) -> [UInt8] {
    let (cx, cy) = (camera.cx - 0.5, camera.cy - 0.5)
    return fields {
      $0.add(1, Self.time(time))
      $0.add(2, UInt32(size.width))
      $0.add(3, UInt32(size.height))
      $0.add(6, numbers: [camera.fx, 0, cx, 0, camera.fy, cy, 0, 0, 1])
      $0.add(7, numbers: [1, 0, 0, 0, 1, 0, 0, 0, 1])
      $0.add(8, numbers: [camera.fx, 0, cx, 0, 0, camera.fy, cy, 0, 0, 0, 1, 0])
      $0.add(9, frame)
    }.bytes
  }

  package static func pose(_ pose: Pose, world: String, at time: Int64) -> [UInt8] {
    fields {
      $0.add(1, Self.time(time))
      $0.add(2, world)
      $0.add(
        3,
        Self.fields {
          $0.add(1, Self.vector(pose))
          $0.add(2, Self.quaternion(pose))
        })
    }.bytes
  }

  package static func transform(_ pose: Pose, of child: String, in parent: String, at time: Int64) -> [UInt8] {
    fields {
      $0.add(1, Self.time(time))
      $0.add(2, parent)
      $0.add(3, child)
      $0.add(4, Self.vector(pose))
      $0.add(5, Self.quaternion(pose))
    }.bytes
  }

  private static func vector(_ pose: Pose) -> FoxgloveMessage {
    fields { message in
      for (field, number) in [pose.position.x, pose.position.y, pose.position.z].enumerated() { message.add(field + 1, number) }
    }
  }

  private static func quaternion(_ pose: Pose) -> FoxgloveMessage {
    let q = pose.quaternion
    return fields { message in for (field, number) in [q.x, q.y, q.z, q.w].enumerated() { message.add(field + 1, number) } }
  }
}

/// A description of messages, with which a reader decodes them without knowing them: a `FileDescriptorSet`.
package struct FoxgloveSchema {
  enum Field {
    case text, data, double, doubles, fixed
    case message(String)

    /// Numbers of `FieldDescriptorProto.Type`.
    fileprivate var type: Int64 {
      switch self {
      case .text: 9
      case .data: 12
      case .double, .doubles: 1
      case .fixed: 7
      case .message: 11
      }
    }
  }

  package let name: String
  package let descriptor: [UInt8]

  package static let image = FoxgloveSchema("CompressedImage", [("data", .data), ("format", .text), ("frame_id", .text)])
  package static let depth = FoxgloveSchema(
    "RawImage", [("width", .fixed), ("height", .fixed), ("encoding", .text), ("step", .fixed), ("data", .data), ("frame_id", .text)])
  package static let calibration = FoxgloveSchema(
    "CameraCalibration",
    [
      ("width", .fixed), ("height", .fixed), ("distortion_model", .text), ("D", .doubles), ("K", .doubles), ("R", .doubles),
      ("P", .doubles), ("frame_id", .text),
    ])
  package static let pose = FoxgloveSchema(
    "PoseInFrame", [("frame_id", .text), ("pose", .message("Pose"))],
    using: [("Pose", [("position", .message("Vector3")), ("orientation", .message("Quaternion"))]), vector, quaternion])
  package static let transform = FoxgloveSchema(
    "FrameTransform",
    [
      ("parent_frame_id", .text), ("child_frame_id", .text), ("translation", .message("Vector3")), ("rotation", .message("Quaternion")),
    ], using: [vector, quaternion])

  private typealias Message = (name: String, fields: [(String, Field)])
  private static let vector: Message = ("Vector3", [("x", .double), ("y", .double), ("z", .double)])
  private static let quaternion: Message = ("Quaternion", vector.fields + [("w", .double)])

  /// - Parameter fields: In the order of their numbers, after `timestamp`, which is the first of all messages.
  private init(_ name: String, _ fields: [(String, Field)], using others: [Message] = []) {
    self.name = "foxglove.\(name)"
    var file = FoxgloveMessage()
    file.add(1, "foxglove/\(name).proto")
    file.add(2, "foxglove")
    file.add(3, "google/protobuf/timestamp.proto")
    let messages = [(name, [("timestamp", Field.message("google.protobuf.Timestamp"))] + fields)] + others
    for message in messages { file.add(4, Self.describe(message.0, message.1)) }
    file.add(12, "proto3")
    var set = FoxgloveMessage()
    set.add(1, Self.timestamp)
    set.add(1, file)
    descriptor = set.bytes
  }

  private static func describe(_ name: String, _ fields: [(String, Field)]) -> FoxgloveMessage {
    var message = FoxgloveMessage()
    message.add(1, name)
    for (place, (name, field)) in fields.enumerated() {
      var description = FoxgloveMessage()
      description.add(1, name)
      description.add(3, whole: Int64(place + 1))
      var isRepeated = false
      if case .doubles = field { isRepeated = true }
      description.add(4, whole: isRepeated ? 3 : 1)
      description.add(5, whole: field.type)
      if case .message(let type) = field { description.add(6, type.contains(".") ? ".\(type)" : ".foxglove.\(type)") }
      message.add(2, description)
    }
    return message
  }

  private static var timestamp: FoxgloveMessage {
    var file = FoxgloveMessage()
    file.add(1, "google/protobuf/timestamp.proto")
    file.add(2, "google.protobuf")
    var message = FoxgloveMessage()
    message.add(1, "Timestamp")
    for (place, (name, type)) in [("seconds", Int64(3)), ("nanos", 5)].enumerated() {
      var field = FoxgloveMessage()
      field.add(1, name)
      field.add(3, whole: Int64(place + 1))
      field.add(4, whole: 1)
      field.add(5, whole: type)
      message.add(2, field)
    }
    file.add(4, message)
    file.add(12, "proto3")
    return file
  }
}
