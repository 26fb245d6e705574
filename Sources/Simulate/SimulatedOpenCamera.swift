import Evidence
import Foundation
import Media
package import Model

/// A synthetic recording of OpenCamera Sensors: a video, and tables of the times of its frames, of the gyroscope and of the accelerometer.
package struct SimulatedOpenCamera: SimulatedApp {
  package static let command = "opencamera-sensors"
  package static let abstract =
    "A recording of OpenCamera Sensors (Android): a video, the sensor's times, an accelerometer and a gyroscope."
  package static let usualSize = ImageSize(width: 1280, height: 720)

  package var seconds = 2.0
  package var seed: UInt64 = 1
  package var size = SimulatedOpenCamera.usualSize
  package var quirks: [Quirk] = []

  /// A peculiarity of real recordings that this one has.
  package enum Quirk: String, Sendable, CaseIterable {
    /// Tables are next to the video, and not in a folder that is named by the date.
    case flat
    /// The phone was held upright: the video is rotated for display.
    case portrait
    /// The video lacks the fourth frame, whose time is listed.
    case skippedFrame = "skipped-frame"
    /// There is no accelerometer.
    case noAccelerometer = "no-accelerometer"
  }

  package init() {}

  private static let rate = 30.0
  private static let date = "20260218_202000"

  /// Writes the recording into a directory that is new or empty.
  package func write(to directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    let stem = "VID_" + Self.date
    let folder = directory + (quirks.contains(.flat) ? "" : "/" + Self.date)
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    let scene = PhoneScene(seconds: seconds, rate: Self.rate, seed: seed, size: size, depthSize: ImageSize(width: 4, height: 3))
    var options = MovieEncoder.Options(size: size)
    (options.rate, options.timescale, options.rotation) = (Self.rate, 90_000, quirks.contains(.portrait) ? 90 : 0)
    let encoder = try MovieEncoder("\(directory)/\(stem).mp4", options)
    let start = scene.path.samples[0].time
    var times: [String] = []
    try scene.renderInOrder { frame in
      let time = scene.time(frame.number)
      times.append("\(start.nanoseconds + time)")
      if quirks.contains(.skippedFrame), frame.number == 3 { return }
      try encoder.add(frame.pixels, at: (time * 90_000 + 500_000_000) / 1_000_000_000)
    }
    try encoder.finish()
    func save(_ name: String, _ lines: [String]) throws {
      try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: URL(fileURLWithPath: "\(folder)/\(stem)_\(name).csv"))
    }
    func table(_ readings: [SeparateSensors.Reading]) -> [String] {
      readings.map { "\(Float($0.value.x)),\(Float($0.value.y)),\(Float($0.value.z)),\($0.time)" }
    }
    let sensors = SeparateSensors(from: start, seconds: seconds, seed: seed)
    try save("timestamps", times)
    try save("gyro", table(sensors.rotations))
    if !quirks.contains(.noAccelerometer) { try save("accel", table(sensors.accelerations)) }
    try save("magnetic", ["20.1,-4.2,-40.9,\(start.nanoseconds)"])
    try Data((scene.truth().canonicalText + "\n").utf8).write(to: URL(fileURLWithPath: directory + "/truth.json"))
  }
}
