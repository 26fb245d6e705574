import Evidence
import Foundation
import Media
package import Model

/// A synthetic Stray Scanner recording of a camera moving through `Room`: a video whose first frame an edit list hides, depth in millimeters
/// with confidence, odometry with the intrinsics of each frame, and an IMU. `truth.json` has the exact ground truth.
package struct SimulatedStrayScan: Sendable {
  package var seconds = 2.0
  package var rate = 60.0
  package var seed: UInt64 = 1
  package var size = ImageSize(width: 1920, height: 1440)
  package var depthSize = ImageSize(width: 256, height: 192)
  package var codec = "h264"
  package var hasMovie = true
  /// Whether `odometry.csv` lacks intrinsics, as older versions of the app write it.
  package var isOld = false
  /// Number of frames that the camera drops in one burst, from the tenth on; they are visible only in the timestamps.
  package var dropped = 0
  package var quirks: [Quirk] = []

  /// A form that recordings had before, or get from other programs.
  package enum Quirk: String, Sendable, CaseIterable {
    /// The form before February 2022: the video shows every frame.
    case noEditList = "no-edit-list"
    /// The form before February 2025: accelerations are in m/s² instead of g.
    case siAcceleration = "si-acceleration"
    /// Another program has encoded the frames that players show, and the hidden one is lost.
    case encodedAgain = "encoded-again"
    /// Another program has resized the video; the intrinsics are still for 1920x1440.
    case resized
  }

  package init() {}

  /// One frame of the recording.
  private struct Frame {
    var number: Int
    var sample: Trajectory.Sample
    /// Focal length as a fraction of the usual one, changed by autofocus.
    var zoom: Float
  }

  /// Writes the recording into a directory that does not exist yet or is empty.
  ///
  /// - Throws: `UsageError` for any other directory.
  package func write(to directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    for folder in ["depth", "confidence"] {
      try FileManager.default.createDirectory(atPath: "\(directory)/\(folder)", withIntermediateDirectories: true)
    }
    let path = Trajectory.smooth(seconds: seconds, rate: rate, seed: seed)
    let kept = path.samples.enumerated().filter { !(10..<(10 + dropped)).contains($0.offset) }
    let frames = kept.enumerated().map { number, sample in
      Frame(number: number, sample: sample.element, zoom: isOld ? 1 : 1 + 0.004 * Float(sin(Double(sample.offset) / rate * 2)))
    }
    try render(frames, directory)
    try write(odometry(frames), "odometry.csv", in: directory)
    let focal = Room.Camera(size: calibratedSize, matrix: []).focalLength
    let (cx, cy) = (Double(calibratedSize.width) / 2, Double(calibratedSize.height) / 2)
    try write("\(focal), 0.0, \(cx)\n0.0, \(focal), \(cy)\n0.0, 0.0, 1.0", "camera_matrix.csv", in: directory)
    let imu = IMUSimulation(from: path.samples[0].time, seconds: seconds, 0, seed)
    try write(imu.csv(inG: !quirks.contains(.siAcceleration)), "imu.csv", in: directory)
    let truth: JSONValue = [
      "seed": .integer(Int64(bitPattern: seed)), "frames": JSONValue(frames.count),
      "frame_time_ns": .array(frames.map { .integer($0.sample.time.nanoseconds) }),
      "camera_to_world": .array(frames.map { .array($0.sample.matrix.map { .number($0) }) }),
    ]
    try write(truth.canonicalText + "\n", "truth.json", in: directory)
  }

  /// The size of the images that the intrinsics are for.
  private var calibratedSize: ImageSize { quirks.contains(.resized) ? ImageSize(width: 1920, height: 1440) : size }

  /// Writes the video, the depth maps and their confidence. The video has a constant rate, regardless of the frames' timestamps.
  private func render(_ frames: [Frame], _ directory: String) throws {
    let room = Room(enclosing: [])
    var options = MovieEncoder.Options(size: size)
    options.codec = codec
    options.rate = rate
    // Each seed is a day of its own.
    options.created = UnixTime.rfc3339(seconds: 1_771_446_000 + Int64(seed % 1000) * 86_400)
    let isEncodedAgain = quirks.contains(.encodedAgain)
    let hidden = isEncodedAgain || quirks.contains(.noEditList) ? 0 : 1
    let encoder = hasMovie ? try MovieEncoder(directory + "/rgb.mp4", options) : nil
    let batch = 8
    for start in stride(from: 0, to: frames.count, by: batch) {
      let rendered = Parallel.map(Array(frames[start..<min(start + batch, frames.count)])) { frame in
        var pixels: [UInt8] = []
        if hasMovie {
          pixels = room.image(
            from: Room.Camera(size: size, matrix: frame.sample.matrix, zoom: frame.zoom), seed: seed &* 1_000_003 &+ UInt64(frame.number))
          FrameCode.draw(frame.number, into: &pixels, size: size)
        }
        let meters = room.depth(from: Room.Camera(size: depthSize, matrix: frame.sample.matrix, zoom: frame.zoom))
        return (frame: frame, pixels: pixels, meters: meters)
      }
      for (frame, pixels, meters) in rendered {
        // The app counts frames from -1; what is before 0 is hidden.
        if !isEncodedAgain || frame.number > 0 {
          try encoder?.add(pixels, at: Int64((Double(frame.number - hidden) * 600 / rate).rounded()))
        }
        let name = frame.number.padded(to: 6) + ".png"
        // The sensor's range is 5 m.
        let millimeters = meters.map { $0 < 5 ? UInt16(($0 * 1000).rounded()) : 0 }
        let levels = meters.map { UInt8($0 < 2 ? 2 : $0 < 3.5 ? 1 : 0) }
        let depth = try PNG.encodeGray(millimeters.withUnsafeBytes { Array($0) }, bits: 16, size: depthSize)
        try Data(depth).write(to: URL(fileURLWithPath: "\(directory)/depth/\(name)"))
        try Data(PNG.encodeGray(levels, bits: 8, size: depthSize)).write(to: URL(fileURLWithPath: "\(directory)/confidence/\(name)"))
      }
    }
    try encoder?.finish()
  }

  private func odometry(_ frames: [Frame]) throws -> String {
    var names = ["timestamp", "frame", "x", "y", "z", "qx", "qy", "qz", "qw"]
    if !isOld { names += ["fx", "fy", "cx", "cy", "distortion_center_x", "distortion_center_y"] }
    let lines = try frames.map { frame in
      let m = frame.sample.matrix
      // The app's camera has y down and z forward.
      var flipped = m
      for index in [1, 2, 5, 6, 9, 10] { flipped[index] = -m[index] }
      let pose = try Pose(rowMajor: flipped)
      let (p, q) = (pose.position, pose.quaternion)
      let numbers: [Double] = [p.x, p.y, p.z, q.x, q.y, q.z, q.w]
      var fields: [String] = [frame.sample.seconds, frame.number.padded(to: 6)]
      fields += numbers.map { "\(Float($0))" }
      if !isOld {
        let focal = Room.Camera(size: calibratedSize, matrix: [], zoom: frame.zoom).focalLength
        fields += ["\(focal)", "\(focal)", "\(Double(calibratedSize.width) / 2)", "\(Double(calibratedSize.height) / 2)", "", ""]
      }
      return fields.joined(separator: ", ")
    }
    return ([names.joined(separator: ", ")] + lines).joined(separator: "\n") + "\n"
  }

  private func write(_ text: String, _ name: String, in directory: String) throws {
    try Data(text.utf8).write(to: URL(fileURLWithPath: directory + "/" + name))
  }
}
