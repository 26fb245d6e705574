/// The name of a stream, as stored in files: `camera_image`, `left_joints`.
///
/// The constants are the names that readers of one camera and one hand use. Nothing in the core depends on them: a stream's spec
/// describes it.
package struct StreamName: Hashable, Comparable, Sendable, Codable, ExpressibleByStringLiteral, CustomStringConvertible {
  package let rawValue: String
  package init(_ rawValue: String) { self.rawValue = rawValue }
  package init(stringLiteral value: String) { rawValue = value }
  package init(from decoder: any Decoder) throws { rawValue = try decoder.singleValueContainer().decode(String.self) }
  /// Encodes the bare name.
  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(rawValue)
  }

  package var description: String { rawValue }
  /// Orders by the name's characters.
  package static func < (a: StreamName, b: StreamName) -> Bool { a.rawValue < b.rawValue }

  package static let pose: StreamName = "pose"
  package static let image: StreamName = "camera_image"
  package static let depth: StreamName = "camera_depth"
  package static let confidence: StreamName = "camera_depth_confidence"
  package static let joints: StreamName = "joints"
  package static let depthPoint: StreamName = "depth_point"
  package static let imu: StreamName = "imu"
  package static let actions: StreamName = "actions"
  package static let actionChunk: StreamName = "action_chunk"

  /// The name of a part of the actions: `action_dict/joints`.
  package static func actionPart(_ name: String) -> StreamName { StreamName(actionFolder + "/" + name) }
  package static let actionFolder = "action_dict"

  /// The name that the stream has in a joined take, as that of a member: `left_camera_image`; the same without one.
  package func of(_ member: String?) -> StreamName { member.map { StreamName("\($0)_\(rawValue)") } ?? self }

  /// Whether a name that a user gives matches `^[a-z][a-z0-9_]*$`.
  package static func isName(_ text: some StringProtocol) -> Bool {
    func isLetter(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) }
    func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
    return text.utf8.first.map(isLetter) == true && text.utf8.allSatisfy { isLetter($0) || isDigit($0) || $0 == UInt8(ascii: "_") }
  }

  /// Whether datasets or their exports have something else of this name beside streams.
  package var isReserved: Bool { Self.reserved.contains(rawValue) || Self.endings.contains(where: rawValue.hasSuffix) }

  private static let reserved: Set<String> = [
    // In shards
    "action_chunk", "action_dict", "actions", "chunk_crc32", "dones", "gaps", "intrinsics", "next_obs", "obs", "quality", "rewards",
    "row_sha256", "segment", "source_index", "statistics", "streams", "timestamp_ns",
    // In Zarr arrays and samples of WebDataset
    "action", "clock", "row", "take", "valid",
  ]
  private static let endings = ["_intrinsics", "_raw", "_valid"]
}

/// The name of a camera, shared by an image, its depth map and their confidence.
package struct CameraName: Hashable, Comparable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
  package let rawValue: String
  package init(_ rawValue: String) { self.rawValue = rawValue }
  package init(stringLiteral value: String) { rawValue = value }
  package var description: String { rawValue }
  /// Orders by the name's characters.
  package static func < (a: CameraName, b: CameraName) -> Bool { a.rawValue < b.rawValue }

  /// The only camera of a phone.
  package static let phone: CameraName = "camera"
}
