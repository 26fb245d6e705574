package import Evidence
package import Model
import Rasters
package import Steps

/// Rotates images, depth and confidence of every camera clockwise; intrinsics follow, and poses are those of the rotated camera.
///
///     - rotate: {degrees: 90}
///     - rotate: {degrees: upright}
///
/// `upright` chooses the rotation that brings the world's up nearest to the top of the images, averaged over the take.
package struct Rotate: MemberTransform {
  package static let name = "rotate"
  package static let summary = "Rotates images, depth and confidence clockwise, with intrinsics and poses"

  /// A rotation clockwise: by degrees, or the one that brings the world's up to the top.
  package enum Degrees: Sendable, Equatable, OptionValue {
    case by(Rotation90)
    case upright

    package var json: JSONValue {
      switch self {
      case .by(let rotation): .integer(Int64(rotation.rawValue))
      case .upright: "upright"
      }
    }

    package init?(json: JSONValue) {
      if json == "upright" {
        self = .upright
      } else if let rotation = json.integer.flatMap({ Rotation90(rawValue: Int(clamping: $0)) }), rotation != .none {
        self = .by(rotation)
      } else {
        return nil
      }
    }

    package static var schema: [String: JSONValue] { ["enum": [90, 180, 270, "upright"]] }
    package static var words: String { "90, 180, 270 or upright" }
    package static var choices: [String] { ["upright"] }
  }

  @StepOption("clockwise; upright: the rotation that brings the world's up to the top of the images") var degrees: Degrees? = nil
  @StepOption("of a take of several phones, only the streams of this member; null: of all") package var member: String? = nil

  package var changesImages: Bool { true }

  package init() {}

  /// Throws `OptionError` without degrees.
  package func validate() throws {
    if degrees == nil { throw OptionError("degrees", "give 90, 180, 270 or upright; without it nothing is rotated") }
  }

  /// Rotates all rasters of each camera and its poses. A camera without an upward direction stays as it is, with a finding.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    guard let degrees else { return episode }
    var rotated = episode
    for camera in Set(episode.streams.values.compactMap { $0.spec.raster?.camera }).sorted() {
      switch degrees {
      case .by(let rotation): rotated = rotated.rotating(camera, by: rotation)
      case .upright:
        if let rotation = try Self.upright(camera, of: rotated) {
          rotated = rotated.rotating(camera, by: rotation)
        } else {
          rotated.findings.append(
            Finding(
              .rotationUnknown, "which side of the images of \(camera) is up cannot be told from its poses; they are not rotated",
              field: camera.rawValue))
        }
      }
    }
    return rotated
  }

  /// The least length of the mean up direction in the plane of the image: below it, the camera looks up or down most of the time.
  private static let leastLength = 0.25

  /// The rotation of a camera's images after which the world's up is nearest to their top; `nil` where poses cannot tell.
  private static func upright(_ camera: CameraName, of episode: Episode) throws -> Rotation90? {
    guard let name = episode.cameras[camera]?.pose, let frame = episode.streams[name]?.spec.kind.poseFrame,
      let axes = frame.cameraAxes.arkitFromThese
    else { return nil }
    let up: SIMD3<Double>
    switch frame.worldAxes.up {
    case .y: up = [0, 1, 0]
    case .z: up = [0, 0, 1]
    case nil: return nil
    }
    let cameraFromBody = frame.body?.inverse ?? .identity
    let arkit = Pose(position: .zero, quaternion: axes)
    var rows = RowReader(episode)
    var (sum, count) = (SIMD3<Double>.zero, 0.0)
    for row in 0..<rows.count {
      guard let pose = try rows.pose(name, at: row) else { continue }
      // In ARKit's axes the image's right is x and its top is y.
      sum += pose.composed(with: cameraFromBody).composed(with: arkit.inverse).inverse.rotate(up)
      count += 1
    }
    guard count > 0 else { return nil }
    let (x, y) = (sum.x / count, sum.y / count)
    guard (x * x + y * y).squareRoot() >= leastLength else { return nil }
    if abs(y) >= abs(x) { return y >= 0 ? Rotation90.none : .half }
    // Up is at the left edge of the image: a turn to the right brings it to the top.
    return x < 0 ? .right : .left
  }
}
