import Evidence
import Foundation
import Media
package import Model

/// A synthetic take of AnySense: a portrait video, depth and poses of the sensor in landscape, times of writing.
package struct SimulatedAnySense: SimulatedApp {
  package static let command = "anysense"
  package static let abstract = "A take of AnySense: a portrait video, depth, poses of the sensor in landscape."
  package static let usualSize = ImageSize(width: 720, height: 960)

  package var seconds = 2.0
  package var seed: UInt64 = 1
  package var size = SimulatedAnySense.usualSize
  package var quirks: [Quirk] = []

  /// A peculiarity of real takes that this one has.
  package enum Quirk: String, Sendable, CaseIterable {
    /// The video lacks the fourth frame, whose pose is written.
    case skippedFrame = "skipped-frame"
    /// The last line of the poses is cut short.
    case cutLine = "cut-line"
    /// There is no depth.
    case noDepth = "no-depth"
  }

  package init() {}

  private static let rate = 30.0
  private static let start: Int64 = 1_771_446_000_123

  /// Writes the take into a directory that does not exist yet or is empty.
  ///
  /// - Throws: `UsageError` for any other directory.
  package func write(to directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    let stamp = "2026-02-18-20_20_00"
    let folder = "\(directory)/Depth_Images_\(stamp)"
    if !quirks.contains(.noDepth) { try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true) }
    // The camera of the portrait image, and its depth, which the app stores as the sensor has it.
    let portrait = ImageSize(width: 192, height: 256)
    let scene = PhoneScene(seconds: seconds, rate: Self.rate, seed: seed, size: size, depthSize: portrait)
    var options = MovieEncoder.Options(size: size)
    options.rate = Self.rate
    let encoder = try MovieEncoder("\(directory)/RGB_\(stamp).mp4", options)
    var lines: [String] = []
    try scene.renderInOrder { frame in
      if !quirks.contains(.skippedFrame) || frame.number != 3 {
        try encoder.add(frame.pixels, at: (scene.time(frame.number) * 600 + 500_000_000) / 1_000_000_000)
      }
      let milliseconds = Self.start + (scene.time(frame.number) + 500_000) / 1_000_000
      // A quarter turn about the optical axis: the sensor's x is the portrait image's -y.
      let half = -45 * Double.pi / 180
      let turn = Pose(position: .zero, quaternion: [0, 0, sin(half), cos(half)])
      let pose = try Pose(rowMajor: frame.sample.matrix).composed(with: turn)
      let (p, q) = (pose.position, pose.quaternion)
      lines.append("\"<\(milliseconds)>\" ," + [q.x, q.y, q.z, q.w, p.x, p.y, p.z].map { "\(Float($0))" }.joined(separator: ","))
      if quirks.contains(.noDepth) { return }
      var landscape = [Float](repeating: 0, count: portrait.width * portrait.height)
      for row in 0..<portrait.height {
        for column in 0..<portrait.width {
          let value = frame.meters[row * portrait.width + column]
          landscape[(portrait.width - 1 - column) * portrait.height + row] = value < 5 ? value : 0
        }
      }
      try Data(landscape.withUnsafeBytes { Array($0) }).write(to: URL(fileURLWithPath: "\(folder)/\(milliseconds).bin"))
    }
    try encoder.finish()
    var text = lines.joined(separator: "\n") + "\n"
    if quirks.contains(.cutLine) { text.removeLast(30) }
    try Data(text.utf8).write(to: URL(fileURLWithPath: "\(directory)/AR_Pose_\(stamp).txt"))
    try Data((scene.truth().canonicalText + "\n").utf8).write(to: URL(fileURLWithPath: directory + "/truth.json"))
  }
}
