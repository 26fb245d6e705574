import Evidence
import Foundation
import Media
package import Model

/// A synthetic scan of the 3D Scanner App, exported as "All Data": depth of each frame, and images of some.
package struct SimulatedScannerApp: Sendable {
  package var seconds = 2.0
  package var rate = 30.0
  package var seed: UInt64 = 1
  package var size = ImageSize(width: 960, height: 720)
  package var depthSize = ImageSize(width: 256, height: 192)
  /// Every so many frames, one has an image.
  package var imageEvery = 6
  package var quirks: [Quirk] = []

  /// A peculiarity of real scans that this one has.
  package enum Quirk: String, Sendable, CaseIterable {
    /// The JSON file of the second image is missing.
    case missingJSON = "missing-json"
    /// The JSON file of the third image is cut short.
    case truncatedJSON = "truncated-json"
    /// There are no depth maps, as in the high-resolution mode.
    case noDepth = "no-depth"
  }

  package init() {}

  /// Writes the scan into a directory that does not exist yet or is empty.
  ///
  /// - Throws: `UsageError` for any other directory.
  package func write(to directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    let scene = PhoneScene(seconds: seconds, rate: rate, seed: seed, size: size, depthSize: depthSize, focuses: true)
    try scene.render { try write($0, scene, to: directory) }
    func save(_ name: String, _ value: JSONValue) throws {
      try Data((value.canonicalText + "\n").utf8).write(to: URL(fileURLWithPath: "\(directory)/\(name)"))
    }
    // The app writes where the scan was made.
    try save("info.json", ["device": "iPhone", "latitude": .number(47.4), "longitude": .number(8.5)])
    try save("truth.json", scene.truth())
  }

  private func write(_ frame: PhoneScene.Frame, _ scene: PhoneScene, to directory: String) throws {
    let digits = String("0000\(frame.number)".suffix(5))
    func save(_ name: String, _ bytes: [UInt8]) throws { try Data(bytes).write(to: URL(fileURLWithPath: "\(directory)/\(name)")) }
    if !quirks.contains(.noDepth) {
      let millimeters = frame.meters.map { $0 < 5 ? UInt16(($0 * 1000).rounded()) : 0 }
      try save("depth_\(digits).png", PNG.encodeGray(millimeters.withUnsafeBytes { Array($0) }, bits: 16, size: depthSize))
      try save("conf_\(digits).png", PNG.encodeGray(frame.meters.map { UInt8($0 < 2 ? 2 : $0 < 3.5 ? 1 : 0) }, bits: 8, size: depthSize))
    }
    if frame.number % imageEvery == 0 { try save("frame_\(digits).jpg", JPEGEncoder().encode(frame.pixels, size: size, quality: 90)) }
    if quirks.contains(.missingJSON), frame.number == imageEvery { return }
    let focal = scene.focalLength(frame.number)
    func numbers(_ values: [Double]) -> JSONValue { .array(values.map { .number($0) }) }
    let json: JSONValue = [
      "cameraPoseARFrame": numbers(frame.sample.matrix.map { Double(Float($0)) }), "frame_index": JSONValue(frame.number),
      "intrinsics": numbers([focal, 0, Double(size.width) / 2, 0, focal, Double(size.height) / 2, 0, 0, 1]), "motionQuality": .number(0.9),
      "averageVelocity": .number(0.2), "averageAngularVelocity": .number(0.3), "exposureDuration": .number(0.008),
    ]
    // The digits of the time, which a number would round.
    var text = "{\"time\":\(frame.sample.seconds)," + json.canonicalText.dropFirst()
    if quirks.contains(.truncatedJSON), frame.number == 2 * imageEvery { text.removeLast(text.count / 2) }
    try save("frame_\(digits).json", Array(text.utf8))
  }
}
