import Evidence
import Foundation
import Media
package import Model

/// A synthetic recording of Spectacular Rec: a video, lines of JSON with frames and sensors, depth maps, a calibration.
package struct SimulatedSpectacularRec: SimulatedApp {
  package static let command = "spectacular-rec"
  package static let abstract = "A recording of Spectacular Rec: a video, depth, an accelerometer and a gyroscope."
  package static let usualSize = ImageSize(width: 960, height: 720)

  package var seconds = 2.0
  package var seed: UInt64 = 1
  package var size = SimulatedSpectacularRec.usualSize
  package var quirks: [Quirk] = []

  /// A peculiarity of real recordings that this one has.
  package enum Quirk: String, Sendable, CaseIterable {
    /// Intrinsics are in calibration.json alone, for images of twice the size.
    case constantIntrinsics = "constant-intrinsics"
    /// Times in the video are those of a constant rate, and not the sensor's.
    case constantRate = "constant-rate"
    /// Depth maps are in units of a quarter of a millimeter.
    case fineDepth = "fine-depth"
    /// There is no depth.
    case noDepth = "no-depth"
    /// There are poses of ARKit, and positions of satellite navigation.
    case poses
    /// The last line is cut short.
    case cutLine = "cut-line"
  }

  package init() {}

  private static let rate = 30.0
  private static let depthSize = ImageSize(width: 256, height: 192)

  /// Writes the recording into a directory that is new or empty.
  package func write(to directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    let depthFolder = directory + "/frames2"
    if !quirks.contains(.noDepth) { try FileManager.default.createDirectory(atPath: depthFolder, withIntermediateDirectories: true) }
    let scene = PhoneScene(seconds: seconds, rate: Self.rate, seed: seed, size: size, depthSize: Self.depthSize, focuses: true)
    var options = MovieEncoder.Options(size: size)
    (options.rate, options.timescale) = (Self.rate, 10_000)
    let encoder = try MovieEncoder(directory + "/data.mov", options)
    let start = scene.path.samples[0].time
    let unit: Float = quirks.contains(.fineDepth) ? 0.00025 : 0.001
    var lines: [(time: Int64, text: String)] = []
    try scene.renderInOrder { frame in
      let (time, focal) = (scene.time(frame.number), scene.focalLength(frame.number))
      let ticks = quirks.contains(.constantRate) ? Int64(frame.number) * 10_000 / 30 : (time * 10_000 + 500_000_000) / 1_000_000_000
      try encoder.add(frame.pixels, at: ticks)
      var camera = "{\"cameraInd\":0"
      if !quirks.contains(.constantIntrinsics) {
        camera +=
          ",\"cameraParameters\":{\"focalLengthX\":\(focal),\"focalLengthY\":\(focal),\"principalPointX\":\(Double(size.width) / 2),\"principalPointY\":\(Double(size.height) / 2)}"
      }
      camera += "}"
      if !quirks.contains(.noDepth) {
        camera += ",{\"cameraInd\":1,\"depthScale\":\(unit)}"
        let units = frame.meters.map { $0 < 5 ? UInt16(($0 / unit).rounded()) : 0 }
        try Data(PNG.encodeGray(units.withUnsafeBytes { Array($0) }, bits: 16, size: Self.depthSize))
          .write(to: URL(fileURLWithPath: "\(depthFolder)/\(String("0000000\(frame.number)".suffix(8))).png"))
      }
      let stamp = Trajectory.decimal(start.nanoseconds + time)
      lines.append((time, "{\"frames\":[\(camera)],\"number\":\(frame.number),\"time\":\(stamp)}"))
      if quirks.contains(.poses) {
        lines.append(
          (time, "{\"arkit\":{\"orientation\":{\"w\":1,\"x\":0,\"y\":0,\"z\":0},\"position\":{\"x\":0,\"y\":0,\"z\":0}},\"time\":\(stamp)}")
        )
        lines.append((time, "{\"gps\":{\"accuracy\":4,\"altitude\":400,\"latitude\":47.4,\"longitude\":8.5},\"time\":\(stamp)}"))
      }
    }
    try encoder.finish()
    let sensors = SeparateSensors(from: start, seconds: seconds, seed: seed)
    for (name, readings) in [("accelerometer", sensors.accelerations), ("gyroscope", sensors.rotations)] {
      lines += readings.map { reading in
        let values = "[\(reading.value.x),\(reading.value.y),\(reading.value.z)]"
        return (
          reading.time - start.nanoseconds,
          "{\"sensor\":{\"type\":\"\(name)\",\"values\":\(values)},\"time\":\(Trajectory.decimal(reading.time))}"
        )
      }
    }
    var text = lines.sorted { ($0.time, $0.text) < ($1.time, $1.text) }.map(\.text).joined(separator: "\n") + "\n"
    if quirks.contains(.cutLine) { text.removeLast(20) }
    func save(_ name: String, _ text: String) throws { try Data(text.utf8).write(to: URL(fileURLWithPath: "\(directory)/\(name)")) }
    try save("data.jsonl", text)
    let (focal, scale) = (scene.focalLength(0), quirks.contains(.constantIntrinsics) ? 2.0 : 1)
    let camera: JSONValue = [
      "focalLengthX": .number(focal * scale), "focalLengthY": .number(focal * scale), "model": "pinhole", "distortionCoefficients": [],
      "principalPointX": .number(Double(size.width) / 2 * scale), "principalPointY": .number(Double(size.height) / 2 * scale),
      "imageWidth": .number(Double(size.width) * scale), "imageHeight": .number(Double(size.height) * scale),
    ]
    try save("calibration.json", (["cameras": [camera]] as JSONValue).canonicalText + "\n")
    try save("truth.json", scene.truth().canonicalText + "\n")
  }
}
