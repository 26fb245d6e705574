/// The name of a stream, as stored in files: `camera_image`, `left_joints`.
///
/// The constants are the names that readers of one camera and one hand use. Nothing in the core depends on them: a stream's spec
/// describes it.
package struct StreamName: Hashable, Comparable, Sendable, Codable, ExpressibleByStringLiteral, CustomStringConvertible {
  package let rawValue: String
  package init(_ rawValue: String) { self.rawValue = rawValue }
  package init(stringLiteral value: String) { rawValue = value }
  package init(from decoder: any Decoder) throws { rawValue = try decoder.singleValueContainer().decode(String.self) }
  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(rawValue)
  }

  package var description: String { rawValue }
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
}

/// The name of a camera, shared by an image, its depth map and their confidence.
package struct CameraName: Hashable, Comparable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
  package let rawValue: String
  package init(_ rawValue: String) { self.rawValue = rawValue }
  package init(stringLiteral value: String) { rawValue = value }
  package var description: String { rawValue }
  package static func < (a: CameraName, b: CameraName) -> Bool { a.rawValue < b.rawValue }

  /// The only camera of a phone.
  package static let phone: CameraName = "camera"
}
