import Evidence
import Foundation
import Media
package import Model

/// A synthetic take of the Record3D app: its `.r3d` contents as a folder or as that file, or its EXR export. `truth.json` next to them has the
/// exact ground truth.
package struct SimulatedRecord3D: Sendable {
  package var seconds = 2.0
  package var rate = 30.0
  package var seed: UInt64 = 1
  package var size = ImageSize(width: 720, height: 960)
  package var depthSize = ImageSize(width: 192, height: 256)
  package var form = Form.r3d
  package var quirks: [Quirk] = []

  /// The form in which the app exports a take.
  package enum Form: String, Sendable, CaseIterable {
    /// A folder with `metadata` and `rgbd/`.
    case folder
    /// The same in a file.
    case r3d
    /// A folder with `metadata.json`, `rgb/` and `depth/`.
    case exr
  }

  /// A form that takes have of some versions of the app, or of other programs.
  package enum Quirk: String, Sendable, CaseIterable {
    /// The third and the seventh image, and their depth, are missing.
    case missingImages = "missing-images"
    /// The metadata lack times and the size of depth maps, as older versions write them.
    case noTimes = "no-times"
    /// The metadata have intrinsics of each frame.
    case frameIntrinsics = "frame-intrinsics"
    /// Depth is NaN instead of 0 where it is unknown, as of TrueDepth cameras.
    case nanDepth = "nan-depth"
    /// The world begins at the first frame, as before about 2022.
    case firstFrameWorld = "first-frame-world"
    /// `K` is written row by row, and times are Unix times, by another program.
    case otherProgram = "other-program"
    /// The fifth image is cut short.
    case truncatedImage = "truncated-image"
    /// There are no confidence maps.
    case noConfidence = "no-confidence"
  }

  package init() {}

  /// Writes the take into a directory that does not exist yet or is empty; an `.r3d` gets the directory's name.
  ///
  /// - Throws: `UsageError` for any other directory.
  package func write(to directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    let scene = PhoneScene(
      seconds: seconds, rate: rate, seed: seed, size: size, depthSize: depthSize, focuses: quirks.contains(.frameIntrinsics))
    let name = URL(fileURLWithPath: directory).lastPathComponent
    let root = form == .r3d ? directory + "/" + name : directory
    for folder in form == .exr ? ["rgb", "depth"] : ["rgbd"] {
      try FileManager.default.createDirectory(atPath: "\(root)/\(folder)", withIntermediateDirectories: true)
    }
    try scene.render { try write($0, to: root) }
    try Data(metadata(scene).canonicalBytes).write(to: URL(fileURLWithPath: "\(root)/\(form == .exr ? "metadata.json" : "metadata")"))
    var truth = scene.truth()
    if quirks.contains(.firstFrameWorld), case .object(var members) = truth {
      let matrices = try poses(scene).map { try JSONValue.array(Self.matrix($0).map { .number($0) }) }
      members["camera_to_world"] = .array(matrices)
      truth = .object(members)
    }
    try Data((truth.canonicalText + "\n").utf8).write(to: URL(fileURLWithPath: directory + "/truth.json"))
    guard form == .r3d else { return }
    let members = try FileManager.default.subpathsOfDirectory(atPath: root).filter { $0 == "metadata" || $0.hasPrefix("rgbd/") }.sorted()
    try ZipFile.write(members.map { (name: $0, path: "\(root)/\($0)") }, to: root + ".r3d")
    try FileManager.default.removeItem(atPath: root)
  }

  private func write(_ frame: PhoneScene.Frame, to root: String) throws {
    if quirks.contains(.missingImages), [2, 6].contains(frame.number) { return }
    func write(_ name: String, _ bytes: [UInt8]) throws { try Data(bytes).write(to: URL(fileURLWithPath: "\(root)/\(name)")) }
    var jpeg = try JPEGEncoder().encode(frame.pixels, size: size, quality: 90)
    if quirks.contains(.truncatedImage), frame.number == 4 { jpeg.removeLast(jpeg.count / 2) }
    try write("\(form == .exr ? "rgb" : "rgbd")/\(frame.number).jpg", jpeg)
    // The sensor's range is 5 m.
    let unknown: Float = quirks.contains(.nanDepth) ? .nan : 0
    let meters = frame.meters.map { $0 < 5 ? $0 : unknown }
    if form == .exr { return try write("depth/\(frame.number).exr", exr(meters)) }
    try write("rgbd/\(frame.number).depth", Self.stored(meters.withUnsafeBytes { Array($0) }))
    if quirks.contains(.noConfidence) { return }
    try write("rgbd/\(frame.number).conf", Self.stored(frame.meters.map { UInt8($0 < 2 ? 2 : $0 < 3.5 ? 1 : 0) }))
  }

  private func metadata(_ scene: PhoneScene) throws -> JSONValue {
    let focal = scene.focalLength(0)
    let (cx, cy) = (Double(size.width) / 2, Double(size.height) / 2)
    let k = [focal, 0, 0, 0, focal, 0, cx, cy, 1]
    let rows = [focal, 0, cx, 0, focal, cy, 0, 0, 1]
    func numbers(_ values: [Double]) -> JSONValue { .array(values.map { .number($0) }) }
    var members: [String: JSONValue] = [
      "w": JSONValue(size.width), "h": JSONValue(size.height), "fps": .number(rate), "cameraType": 1,
      "K": numbers(quirks.contains(.otherProgram) ? rows : k), "initPose": numbers([0, 0, 0, 1, 0, 0, 0]),
      "poses": .array(
        try poses(scene).map { pose in
          let (p, q) = (pose.position, pose.quaternion)
          return numbers([q.x, q.y, q.z, q.w, p.x, p.y, p.z].map { Double(Float($0)) })
        }),
    ]
    if !quirks.contains(.noTimes) {
      members["dw"] = JSONValue(depthSize.width)
      members["dh"] = JSONValue(depthSize.height)
      let start: Int64 = quirks.contains(.otherProgram) ? 1_771_446_000_000_000_000 : 0
      members["frameTimestamps"] = .array(
        scene.path.samples.map { .number(Double(start + $0.time.since(scene.path.samples[0].time)) / 1e9) })
    }
    if quirks.contains(.frameIntrinsics) {
      members["perFrameIntrinsicCoeffs"] = .array(
        scene.path.samples.indices.map { numbers([scene.focalLength($0), scene.focalLength($0), cx, cy]) })
    }
    return .object(members)
  }

  private func poses(_ scene: PhoneScene) throws -> [Pose] {
    let poses = try scene.path.samples.map { try Pose(rowMajor: $0.matrix) }
    guard quirks.contains(.firstFrameWorld) else { return poses }
    return poses.map { poses[0].inverse.composed(with: $0) }
  }

  /// The 4x4 row-major matrix of a pose.
  private static func matrix(_ pose: Pose) throws -> [Double] {
    let (p, q) = (pose.position, pose.quaternion)
    let (x, y, z, w) = (q.x, q.y, q.z, q.w)
    return [
      1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w), p.x,
      2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w), p.y,
      2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y), p.z,
      0, 0, 0, 1,
    ]
  }

  /// An LZFSE stream of one stored block.
  private static func stored(_ bytes: [UInt8]) -> [UInt8] {
    Array("bvx-".utf8) + withUnsafeBytes(of: UInt32(bytes.count).littleEndian) { Array($0) } + bytes + Array("bvx$".utf8)
  }

  /// An OpenEXR file of 16-bit floats, not compressed.
  private func exr(_ meters: [Float]) -> [UInt8] {
    func integer(_ value: Int) -> [UInt8] { withUnsafeBytes(of: Int32(value).littleEndian) { Array($0) } }
    func attribute(_ name: String, _ type: String, _ value: [UInt8]) -> [UInt8] {
      Array(name.utf8) + [0] + Array(type.utf8) + [0] + integer(value.count) + value
    }
    let window = integer(0) + integer(0) + integer(depthSize.width - 1) + integer(depthSize.height - 1)
    var file: [UInt8] = [0x76, 0x2F, 0x31, 0x01] + integer(2)
    file += attribute("channels", "chlist", Array("R".utf8) + [0] + integer(1) + integer(0) + integer(1) + integer(1) + [0])
    file += attribute("compression", "compression", [0])
    file += attribute("dataWindow", "box2i", window) + attribute("displayWindow", "box2i", window)
    file += attribute("lineOrder", "lineOrder", [0]) + attribute("pixelAspectRatio", "float", [0, 0, 0x80, 0x3F])
    file += attribute("screenWindowCenter", "v2f", [UInt8](repeating: 0, count: 8))
    file += attribute("screenWindowWidth", "float", [0, 0, 0x80, 0x3F]) + [0]
    let line = 8 + 2 * depthSize.width
    let first = file.count + 8 * depthSize.height
    for y in 0..<depthSize.height { file += withUnsafeBytes(of: UInt64(first + y * line).littleEndian) { Array($0) } }
    for y in 0..<depthSize.height {
      file += integer(y) + integer(2 * depthSize.width)
      for value in meters[(y * depthSize.width)..<((y + 1) * depthSize.width)] {
        file += withUnsafeBytes(of: HalfFloat.bits(value).littleEndian) { Array($0) }
      }
    }
    return file
  }
}
