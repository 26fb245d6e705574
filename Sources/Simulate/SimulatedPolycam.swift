import Evidence
import Foundation
import Media
package import Model

/// Synthetic raw data of Polycam: keyframes at irregular times, with cameras as tracked and as corrected, which are in another world.
package struct SimulatedPolycam: Sendable {
  package var seconds = 4.0
  package var seed: UInt64 = 1
  package var size = ImageSize(width: 1024, height: 768)
  package var depthSize = ImageSize(width: 256, height: 192)
  package var quirks: [Quirk] = []

  /// A peculiarity of real captures that this one has.
  package enum Quirk: String, Sendable, CaseIterable {
    /// The session is too long for the app to correct it.
    case notCorrected = "not-corrected"
    /// The app corrected half of the keyframes.
    case halfCorrected = "half-corrected"
    /// Depth and confidence of the third keyframe are missing.
    case missingDepth = "missing-depth"
  }

  package init() {}

  private static let rate = 30.0

  /// Writes the capture into a directory that does not exist yet or is empty.
  ///
  /// - Throws: `UsageError` for any other directory.
  package func write(to directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    let folders =
      ["images", "cameras", "depth", "confidence"] + (quirks.contains(.notCorrected) ? [] : ["corrected_images", "corrected_cameras"])
    for folder in folders {
      try FileManager.default.createDirectory(atPath: "\(directory)/keyframes/\(folder)", withIntermediateDirectories: true)
    }
    let scene = PhoneScene(seconds: seconds, rate: Self.rate, seed: seed, size: size, depthSize: depthSize, focuses: true)
    // One keyframe after 4 to 9 frames.
    var random = SplitMix(seed: seed)
    var chosen = [0]
    while let last = chosen.last {
      let next = last + 4 + Int(random.next() % 6)
      guard next < scene.path.samples.count else { break }
      chosen.append(next)
    }
    let keyframes = chosen
    let corrected = quirks.contains(.notCorrected) ? 0 : quirks.contains(.halfCorrected) ? keyframes.count / 2 : keyframes.count
    try scene.render { frame in
      guard let index = keyframes.firstIndex(of: frame.number) else { return }
      try write(
        frame, scene, isCorrected: index < corrected, lacksDepth: quirks.contains(.missingDepth) && index == 2, to: directory + "/keyframes"
      )
    }
    let samples = keyframes.map { scene.path.samples[$0] }
    func matrices(_ change: (Trajectory.Sample) -> [Double]) -> JSONValue {
      .array(samples.map { .array(change($0).map { .number($0) }) })
    }
    let truth: JSONValue = [
      "frames": .array(keyframes.map { JSONValue($0) }), "frame_time_ns": .array(samples.map { .integer(Self.stem($0) * 1000) }),
      "camera_to_world": matrices(\.matrix), "corrected_camera_to_world": matrices { Self.corrected($0.matrix) },
    ]
    try Data((truth.canonicalText + "\n").utf8).write(to: URL(fileURLWithPath: directory + "/truth.json"))
  }

  private static func stem(_ sample: Trajectory.Sample) -> Int64 { sample.time.nanoseconds / 1000 }

  /// The pose in the corrected world, which is rotated by a right angle about y and moved.
  private static func corrected(_ m: [Double]) -> [Double] {
    Array(m[8..<12]) + Array(m[4..<8]) + m[0..<4].map { -$0 } + [0, 0, 0, 1]
  }

  private func write(_ frame: PhoneScene.Frame, _ scene: PhoneScene, isCorrected: Bool, lacksDepth: Bool, to root: String) throws {
    let stem = Self.stem(frame.sample)
    func save(_ name: String, _ bytes: [UInt8]) throws { try Data(bytes).write(to: URL(fileURLWithPath: "\(root)/\(name)")) }
    let jpeg = try JPEGEncoder().encode(frame.pixels, size: size, quality: 90)
    try save("images/\(stem).jpg", jpeg)
    try save("cameras/\(stem).json", Array(camera(frame.sample.matrix, scene.focalLength(frame.number)).utf8))
    if isCorrected {
      try save("corrected_images/\(stem).jpg", jpeg)
      try save("corrected_cameras/\(stem).json", Array(camera(Self.corrected(frame.sample.matrix), scene.focalLength(frame.number)).utf8))
    }
    if lacksDepth { return }
    let millimeters = frame.meters.map { $0 < 5 ? UInt16(($0 * 1000).rounded()) : 0 }
    try save("depth/\(stem).png", PNG.encodeGray(millimeters.withUnsafeBytes { Array($0) }, bits: 16, size: depthSize))
    try save("confidence/\(stem).png", PNG.encodeGray(frame.meters.map { $0 < 2 ? 255 : $0 < 3.5 ? 127 : 0 }, bits: 8, size: depthSize))
  }

  private func camera(_ matrix: [Double], _ focal: Double) -> String {
    var members: [String: JSONValue] = [
      "fx": .number(focal), "fy": .number(focal), "cx": .number(Double(size.width) / 2), "cy": .number(Double(size.height) / 2),
      "width": JSONValue(size.width), "height": JSONValue(size.height), "blur_score": .number(120.5),
    ]
    for place in 0..<12 { members["t_\(place / 4)\(place % 4)"] = .number(Double(Float(matrix[place]))) }
    return JSONValue.object(members).canonicalText
  }
}
