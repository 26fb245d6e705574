import Evidence
import Model
import Steps

/// The contents of `transforms.json`: a camera, and frames with their images and poses, in any order.
struct TransformsFile {
  static let name = "transforms.json"
  static let limit = 256 << 20
  private static let frameLimit = 1 << 20
  private static let coefficients = ["k1", "k2", "k3", "k4", "p1", "p2"]
  /// Range of the angle that images span, in radians.
  private static let fieldsOfView = 0.001...3.141
  /// The range in which two times have a difference.
  private static let nanoseconds = -0x1p60...0x1p62

  struct Frame {
    /// Position in the file.
    var place: Int
    /// Path of the image, as written; some programs leave the ending out.
    var image: String
    var depth: String?
    var pose: Pose?
    var time: Timestamp?
    var intrinsics: GivenIntrinsics?
    /// Coefficients of the lens that are not 0.
    var distortion: [String] = []
    /// The camera's values in a frame; the file's hold for those that the frame lacks.
    fileprivate var camera: [String: JSONValue] = [:]
  }

  private(set) var frames: [Frame] = []
  /// Members of the file but for its frames.
  private(set) var members: [String: JSONValue] = [:]
  /// Whether frames have times, and paths without an ending, as NeRFCapture writes them.
  private(set) var isNeRFCapture = false
  /// Meters of a unit of depth maps.
  private(set) var depthScale = 0.001

  init(_ inputs: TakeInputs, _ entry: Int) throws {
    var frames: [Frame] = []
    var isNeRFCapture = false
    members = try inputs.readJSON(entry, limit: Self.limit) { reader in
      guard try reader.nextIsObject else { throw TakeFailure(.jsonType, "expected an object, found \(try reader.describeNext())") }
      let members = try reader.object { key in
        guard key == "frames" else { return nil }
        guard try reader.nextIsArray else {
          throw TakeFailure(.jsonType, "expected a list, found \(try reader.describeNext())", field: ".frames")
        }
        try reader.beginArray()
        var isFirst = true
        while try reader.nextElement(isFirst: &isFirst) {
          guard frames.count < Self.frameLimit else {
            throw TakeFailure(.limit, "there are more than \(Self.frameLimit) frames", field: ".frames")
          }
          let (frame, isOfApp) = try Self.frame(reader, place: frames.count)
          frames.append(frame)
          isNeRFCapture = isNeRFCapture || isOfApp
        }
        return .null
      }
      try reader.expectEnd()
      return members
    }
    (self.frames, self.isNeRFCapture) = (frames, isNeRFCapture)
    guard members["frames"] != nil else { throw TakeFailure(.jsonType, "the key is missing", file: Self.name, field: ".frames") }
    let file = JSONFields(members: members, file: Self.name)
    // Positions were multiplied by it.
    let scale = try file.scale("applied_scale") ?? 1
    depthScale = try file.scale("depth_unit_scale_factor") ?? depthScale
    let usual = try (intrinsics: Self.intrinsics(file), distortion: Self.distortion(file))
    for index in self.frames.indices {
      self.frames[index].pose?.position /= scale
      let own = self.frames[index].camera
      if own.isEmpty {
        (self.frames[index].intrinsics, self.frames[index].distortion) = usual
      } else {
        let camera = JSONFields(members: members.merging(own) { $1 }, file: Self.name, path: ".frames[\(index)]")
        self.frames[index].intrinsics = try Self.intrinsics(camera)
        self.frames[index].distortion = try Self.distortion(camera)
        self.frames[index].camera = [:]
      }
    }
  }

  /// Coefficients of the lens that are not 0, of the file or of a frame.
  var distortion: [String] { Set(frames.flatMap(\.distortion)).sorted() }

  private static func distortion(_ camera: JSONFields) throws -> [String] {
    try coefficients.filter { key in try camera.number(key).map { abs($0) > 1e-9 } ?? false }
  }

  private static let cameraKeys = Set(coefficients).union([
    "w", "h", "fl_x", "fl_y", "cx", "cy", "camera_angle_x", "camera_angle_y", "camera_model", "is_fisheye",
  ])

  private static func frame(_ reader: JSONReader, place: Int) throws -> (Frame, isNeRFCapture: Bool) {
    let path = ".frames[\(place)]"
    guard try reader.nextIsObject else {
      throw TakeFailure(.jsonType, "expected an object, found \(try reader.describeNext())", field: path)
    }
    var time: Timestamp?
    let members = try reader.object { key in
      guard key == "timestamp", try reader.nextIsNumber else { return nil }
      time = try reader.seconds()
      guard time != nil else {
        throw TakeFailure(
          .jsonType, "expected seconds, found a number of more than 292 years of them: it is in milliseconds or a smaller unit",
          field: path + ".timestamp")
      }
      return .null
    }
    let fields = JSONFields(members: members, path: path)
    // A time that is text is none, and no other is taken for it.
    _ = try fields.number("timestamp")
    let image = try fields.text("file_path") ?? ""
    let name = image.split { $0 == "/" || $0 == "\\" }.last ?? ""
    let isNeRFCapture = time != nil && !name.contains(".")
    if let nanoseconds = try fields.number("timestamp_ns", in: Self.nanoseconds) {
      time = Timestamp(nanoseconds: members["timestamp_ns"]?.integer ?? Int64(nanoseconds))
    }
    let rows = (members["transform_matrix"]?.array ?? []).flatMap { $0.array ?? [$0] }.compactMap(\.double)
    // Some programs leave the last row out.
    let matrix = rows.count == 12 ? rows + [0, 0, 0, 1] : rows
    return (
      Frame(
        place: place, image: image, depth: try fields.text("depth_file_path") ?? fields.text("depth_path"),
        pose: matrix.count == 16 ? try? Pose(rowMajor: matrix) : nil, time: time,
        camera: members.filter { cameraKeys.contains($0.key) && $0.value != .null }), isNeRFCapture
    )
  }

  /// Returns the intrinsics in pixels, or else as an angle; `nil` where there is nothing of either.
  private static func intrinsics(_ camera: JSONFields) throws -> GivenIntrinsics? {
    let model = try camera.text("camera_model") ?? (camera.members["is_fisheye"]?.bool == true ? "fisheye" : nil)
    if let problem = model.flatMap(GivenIntrinsics.problem) { return .unusable(problem) }
    let size = try camera.size("w", "h")
    let (fx, cx, cy) = try (camera.number("fl_x"), camera.number("cx"), camera.number("cy"))
    if let fx, let cx, let cy { return GivenIntrinsics([fx, try camera.number("fl_y") ?? fx, cx, cy], of: size) }
    guard let angle = try camera.number("camera_angle_x", in: fieldsOfView) else {
      return fx == nil && cx == nil && cy == nil ? nil : .unusable("expected fl_x, cx and cy, or camera_angle_x")
    }
    let given = GivenIntrinsics.angles(x: angle, y: try camera.number("camera_angle_y", in: fieldsOfView))
    guard let size, let middle = given.intrinsics(for: size) else { return given }
    return GivenIntrinsics([middle.fx, middle.fy, cx ?? middle.cx, cy ?? middle.cy], of: size)
  }
}
