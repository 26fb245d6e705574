import Evidence
import Foundation
import Media
package import Model

/// A synthetic take of iPhUMI: a video, an ultra-wide video, depth maps one after the other, and a JSON file with poses and times.
package struct SimulatedIPhUMI: SimulatedApp {
  package static let command = "iphumi"
  package static let abstract = "A take of iPhUMI: a video, an ultra-wide video, depth, poses."
  package static let usualSize = ImageSize(width: 1920, height: 1440)

  package var seconds = 2.0
  package var seed: UInt64 = 1
  package var size = SimulatedIPhUMI.usualSize
  package var quirks: [Quirk] = []

  /// A peculiarity of real takes that this one has.
  package enum Quirk: String, Sendable, CaseIterable {
    /// The writer of the video skipped the fourth and the tenth frame, whose times are listed.
    case skippedFrames = "skipped-frames"
    /// The depth file ends within a map.
    case cutDepth = "cut-depth"
    /// There is no ultra-wide video.
    case noWide = "no-wide"
    /// There is no depth.
    case noDepth = "no-depth"
  }

  package init() {}

  private static let rate = 60.0
  private static let depthSize = ImageSize(width: 256, height: 192)
  private static let start: Int64 = 1_771_446_000_123_000_000

  /// Writes `NAME.json` and the files that belong to it into a directory, where NAME is the directory's name.
  ///
  /// - Throws: `UsageError` for a directory that is not empty.
  package func write(to directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    let name = URL(fileURLWithPath: directory).lastPathComponent
    let stem = "\(directory)/\(name)"
    let scene = PhoneScene(seconds: seconds, rate: Self.rate, seed: seed, size: size, depthSize: Self.depthSize)
    let skipped: Set<Int> = quirks.contains(.skippedFrames) ? [3, 9] : []
    var options = MovieEncoder.Options(size: size)
    (options.rate, options.timescale) = (Self.rate, 10_000)
    let encoder = try MovieEncoder(stem + "_rgb.mp4", options)
    let wideSize = ImageSize(width: 640, height: 480)
    var wideOptions = MovieEncoder.Options(size: wideSize)
    (wideOptions.rate, wideOptions.timescale) = (10, 10_000)
    let wide = quirks.contains(.noWide) ? nil : try MovieEncoder(stem + "_ultrawidergb.mp4", wideOptions)
    var depth = Data()
    var last: [UInt16] = []
    try scene.renderInOrder { frame in
      let tick = (scene.time(frame.number) + 50_000) / 100_000
      if !skipped.contains(frame.number) { try encoder.add(frame.pixels, at: tick) }
      if frame.number % 6 == 0, let wide {
        var pixels = [UInt8](repeating: 90, count: wideSize.width * wideSize.height * 3)
        FrameCode.draw(frame.number, into: &pixels, size: wideSize)
        try wide.add(pixels, at: tick)
      }
      // The sensor measures at half the rate.
      if frame.number % 2 == 0 { last = frame.meters.map { HalfFloat.bits($0 < 5 ? $0 : 0) } }
      if !quirks.contains(.noDepth) { last.withUnsafeBytes { depth.append(contentsOf: $0) } }
    }
    try encoder.finish()
    try wide?.finish()
    if quirks.contains(.cutDepth) { depth.removeLast(100_000) }
    if !quirks.contains(.noDepth) { try depth.write(to: URL(fileURLWithPath: stem + "_depth.raw")) }
    try Data(json(scene, name).canonicalBytes).write(to: URL(fileURLWithPath: stem + ".json"))
    try Data((scene.truth().canonicalText + "\n").utf8).write(to: URL(fileURLWithPath: directory + "/truth.json"))
  }

  private func json(_ scene: PhoneScene, _ name: String) -> JSONValue {
    let numbers = scene.path.samples.indices
    func time(_ number: Int) -> JSONValue {
      let milliseconds = (Self.start + scene.time(number) + 500_000) / 1_000_000
      let fraction = String(String(1000 + milliseconds % 1000).dropFirst())
      return .string(UnixTime.rfc3339(seconds: milliseconds / 1000).dropLast() + ".\(fraction)Z")
    }
    func matrix(_ focal: Double, _ size: ImageSize) -> JSONValue {
      let rows = [[focal, 0, Double(size.width) / 2], [0, focal, Double(size.height) / 2], [0, 0, 1]]
      return .array(rows.map { .array($0.map { .number($0) }) })
    }
    let times = JSONValue.array(numbers.map(time))
    return [
      "formatVersion": "v1", "sessionName": .string(name), "side": "right", "type": "demonstration", "gripperID": "g1",
      "deviceName": "Somebody's iPhone", "deviceIdentifier": "00008120-0000000000000000", "frameCount": JSONValue(numbers.count),
      "isErrorCorrection": false, "recordingStartTime": time(0), "taskNames": ["pour"], "poseTimes": times, "rgbTimes": times,
      "depthTimes": quirks.contains(.noDepth) ? .array(numbers.map { _ in "" }) : times,
      "depthFrameIsRepeat": .array(numbers.map { .bool($0 % 2 == 1) }),
      "ultrawideRGBTimes": .array(numbers.map { $0 % 6 == 0 && !quirks.contains(.noWide) ? time($0) : "" }),
      "poseTransforms": .array(
        scene.path.samples.map { sample in
          .array((0..<4).map { row in .array(sample.matrix[(4 * row)..<(4 * row + 4)].map { .number(Double(Float($0))) }) })
        }),
      "mainCameraIntrinsics": matrix(scene.focalLength(0), size),
      "ultrawideCameraIntrinsics": matrix(300, ImageSize(width: 640, height: 480)),
    ]
  }
}
