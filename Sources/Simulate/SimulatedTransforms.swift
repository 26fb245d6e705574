import Evidence
import Foundation
import Media
package import Model

/// A synthetic capture with a `transforms.json`, as nerfstudio's importers or the NeRFCapture app make it.
package struct SimulatedTransforms: Sendable {
  package var seconds = 2.0
  package var rate = 30.0
  package var seed: UInt64 = 1
  package var size = ImageSize(width: 960, height: 720)
  package var depthSize = ImageSize(width: 256, height: 192)
  package var form = Form.nerfstudio
  package var quirks: [Quirk] = []

  /// The program whose form the files have.
  package enum Form: String, Sendable, CaseIterable {
    /// JPEG images, depth in millimeters, no times.
    case nerfstudio
    /// PNG images whose paths lack the ending, depth as pictures, times.
    case nerfcapture
  }

  /// A peculiarity of real captures that this one has.
  package enum Quirk: String, Sendable, CaseIterable {
    /// Frames are in another order.
    case shuffled
    /// There is no depth.
    case noDepth = "no-depth"
    /// The lens has distortion.
    case distortion
    /// The camera is an angle, as in synthetic scenes.
    case cameraAngle = "camera-angle"
    /// Depth is in tenths of a millimeter.
    case finerDepth = "finer-depth"
    /// Frames have their times.
    case times
  }

  package init() {}

  /// Writes the capture into a directory that does not exist yet or is empty.
  ///
  /// - Throws: `UsageError` for any other directory.
  package func write(to directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    for folder in ["images", "depth"] {
      try FileManager.default.createDirectory(atPath: "\(directory)/\(folder)", withIntermediateDirectories: true)
    }
    let scene = PhoneScene(seconds: seconds, rate: rate, seed: seed, size: size, depthSize: depthSize)
    try scene.render { try write($0, to: directory) }
    func save(_ name: String, _ value: JSONValue) throws {
      try Data((value.canonicalText + "\n").utf8).write(to: URL(fileURLWithPath: "\(directory)/\(name)"))
    }
    try save("transforms.json", transforms(scene))
    try save("truth.json", scene.truth())
  }

  private func write(_ frame: PhoneScene.Frame, to directory: String) throws {
    func save(_ name: String, _ bytes: [UInt8]) throws { try Data(bytes).write(to: URL(fileURLWithPath: "\(directory)/\(name)")) }
    if form == .nerfcapture {
      try save("images/\(frame.number).png", PNG.encode(frame.pixels, size: size, isFast: true))
      if quirks.contains(.noDepth) { return }
      let picture = frame.meters.map { UInt8(min($0, 1) * 255) }
      return try save("images/\(frame.number).depth.png", PNG.encodeGray(picture, bits: 8, size: depthSize))
    }
    try save("images/\(Self.name(frame.number)).jpg", JPEGEncoder().encode(frame.pixels, size: size, quality: 90))
    if quirks.contains(.noDepth) { return }
    let units: Float = quirks.contains(.finerDepth) ? 10_000 : 1000
    let values = frame.meters.map { $0 < 5 ? UInt16(($0 * units).rounded()) : 0 }
    try save("depth/\(Self.name(frame.number)).png", PNG.encodeGray(values.withUnsafeBytes { Array($0) }, bits: 16, size: depthSize))
  }

  /// Returns the name without leading zeros, so that the order of the names is not that of their bytes.
  private static func name(_ number: Int) -> String { "frame_\(number + 1)" }

  private func transforms(_ scene: PhoneScene) -> JSONValue {
    var members: [String: JSONValue] = ["w": JSONValue(size.width), "h": JSONValue(size.height)]
    if quirks.contains(.cameraAngle) {
      members["camera_angle_x"] = .number(2 * atan(Double(size.width) / 2 / scene.focalLength(0)))
    } else {
      members.merge([
        "fl_x": .number(scene.focalLength(0)), "fl_y": .number(scene.focalLength(0)), "cx": .number(Double(size.width) / 2),
        "cy": .number(Double(size.height) / 2), "camera_model": "OPENCV",
      ]) { $1 }
    }
    if quirks.contains(.distortion) { members["k1"] = .number(0.03) }
    if quirks.contains(.finerDepth) { members["depth_unit_scale_factor"] = .number(0.0001) }
    var numbers = Array(scene.path.samples.indices)
    if quirks.contains(.shuffled) || form == .nerfcapture {
      var random = SplitMix(seed: seed)
      numbers.shuffle(using: &random)
    }
    members["frames"] = .array(numbers.map { frame($0, scene) })
    return .object(members)
  }

  private func frame(_ number: Int, _ scene: PhoneScene) -> JSONValue {
    let sample = scene.path.samples[number]
    let rows = (0..<4).map { row in JSONValue.array(sample.matrix[(4 * row)..<(4 * row + 4)].map { .number(Double(Float($0))) }) }
    var members: [String: JSONValue] = ["transform_matrix": .array(rows)]
    if form == .nerfcapture {
      members["file_path"] = .string("images/\(number)")
      members["timestamp"] = .number(Double(sample.time.nanoseconds) / 1e9)
      if !quirks.contains(.noDepth) { members["depth_path"] = .string("images/\(number).depth.png") }
    } else {
      members["file_path"] = .string("./images/\(Self.name(number)).jpg")
      if !quirks.contains(.noDepth) { members["depth_file_path"] = .string("depth/\(Self.name(number)).png") }
      if quirks.contains(.times) { members["timestamp"] = .number(Double(sample.time.nanoseconds) / 1e9) }
    }
    return .object(members)
  }
}
