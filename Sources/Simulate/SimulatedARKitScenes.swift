import Evidence
import Foundation
import Media
package import Model

/// A synthetic scene in the form of ARKitScenes: images and depth at times of their own, poses ten times a second, a world with z up.
package struct SimulatedARKitScenes: SimulatedApp {
  package static let command = "arkitscenes"
  package static let abstract = "A scene in the form of ARKitScenes: PNG images, depth with confidence, a trajectory of ten poses a second."
  package static let usualSize = ImageSize(width: 640, height: 480)

  package var seconds = 2.0
  package var seed: UInt64 = 1
  package var size = SimulatedARKitScenes.usualSize
  package var quirks: [Quirk] = []

  /// A peculiarity of real scenes that this one has.
  package enum Quirk: String, Sendable, CaseIterable {
    /// Names of intrinsics are a millisecond later than those of their images.
    case lateIntrinsics = "late-intrinsics"
    /// Three poses in a row are missing, so there are 0.4 s without one.
    case poseGap = "pose-gap"
    /// The last line of the trajectory is cut short.
    case cutLine = "cut-line"
    /// There is no depth.
    case noDepth = "no-depth"
  }

  package init() {}

  private static let video = "47333462"
  private static let depthSize = ImageSize(width: 256, height: 192)
  /// Renders sixty moments a second: depth is of each, images are of every other one, poses of every sixth.
  private static let rate = 60.0
  /// Frames before the first pose.
  private static let unposed = 9

  /// Writes the scene into a directory that is new or empty.
  package func write(to directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    let depthFolders = quirks.contains(.noDepth) ? [] : ["lowres_depth", "confidence"]
    for folder in ["vga_wide", "vga_wide_intrinsics"] + depthFolders {
      try FileManager.default.createDirectory(atPath: "\(directory)/\(folder)", withIntermediateDirectories: true)
    }
    let scene = PhoneScene(seconds: seconds, rate: Self.rate, seed: seed, size: size, depthSize: Self.depthSize, focuses: true)
    try scene.render { try write($0, scene, to: directory) }
    var lines: [String] = []
    for (number, sample) in scene.path.samples.enumerated() where number >= Self.unposed && (number - Self.unposed) % 6 == 0 {
      let place = (number - Self.unposed) / 6
      if quirks.contains(.poseGap), (2..<5).contains(place) { continue }
      let world = try Pose(rowMajor: Self.upright(sample.matrix))
      // OpenCV's axes of the camera, and the world in them.
      let inverse = world.rotated(by: [1, 0, 0, 0]).inverse
      let (r, t) = (inverse.rotationVector, inverse.position)
      lines.append(([Self.time(milliseconds(number, scene))] + [r.x, r.y, r.z, t.x, t.y, t.z].map { "\($0)" }).joined(separator: " "))
    }
    var text = lines.joined(separator: "\n") + "\n"
    if quirks.contains(.cutLine) {
      text.removeLast(text.count - (text.dropLast(30).lastIndex(of: " ").map { text.distance(from: text.startIndex, to: $0) } ?? 0))
    }
    try Data(text.utf8).write(to: URL(fileURLWithPath: directory + "/lowres_wide.traj"))
    let images = scene.path.samples.indices.filter { $0 % 2 == 0 }
    let truth: JSONValue = [
      "frames": JSONValue(images.count), "frame_time_ns": .array(images.map { .integer(milliseconds($0, scene) * 1_000_000) }),
      "camera_to_world": .array(images.map { .array(Self.upright(scene.path.samples[$0].matrix).map { .number($0) }) }),
    ]
    try Data((truth.canonicalText + "\n").utf8).write(to: URL(fileURLWithPath: directory + "/truth.json"))
  }

  private func milliseconds(_ number: Int, _ scene: PhoneScene) -> Int64 {
    (scene.path.samples[0].time.nanoseconds + scene.time(number)) / 1_000_000
  }

  private static func time(_ milliseconds: Int64) -> String { "\(milliseconds / 1000)." + "00\(milliseconds % 1000)".suffix(3) }

  /// A camera-to-world matrix in the world whose z axis is up.
  private static func upright(_ m: [Double]) -> [Double] { Array(m[0..<4]) + m[8..<12].map { -$0 } + m[4..<8] + m[12..<16] }

  private func write(_ frame: PhoneScene.Frame, _ scene: PhoneScene, to directory: String) throws {
    let time = milliseconds(frame.number, scene)
    func save(_ folder: String, _ time: Int64, _ ending: String, _ bytes: [UInt8]) throws {
      try Data(bytes).write(to: URL(fileURLWithPath: "\(directory)/\(folder)/\(Self.video)_\(Self.time(time)).\(ending)"))
    }
    if !quirks.contains(.noDepth) {
      let millimeters = frame.meters.map { $0 < 5 ? UInt16(($0 * 1000).rounded()) : 0 }
      try save("lowres_depth", time, "png", PNG.encodeGray(millimeters.withUnsafeBytes { Array($0) }, bits: 16, size: Self.depthSize))
      let levels = frame.meters.map { UInt8($0 < 2 ? 2 : $0 < 3.5 ? 1 : 0) }
      try save("confidence", time, "png", PNG.encodeGray(levels, bits: 8, size: Self.depthSize))
    }
    guard frame.number % 2 == 0 else { return }
    try save("vga_wide", time, "png", PNG.encode(frame.pixels, size: size, isFast: true))
    let focal = scene.focalLength(frame.number)
    let line = "\(size.width) \(size.height) \(focal) \(focal) \(Double(size.width) / 2) \(Double(size.height) / 2)"
    try save("vga_wide_intrinsics", time + (quirks.contains(.lateIntrinsics) ? 1 : 0), "pincam", Array(line.utf8))
  }
}
