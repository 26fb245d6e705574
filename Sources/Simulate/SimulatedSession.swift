import Evidence
import Foundation
import Media
package import Model
import Steps
import TakesetRecorder

/// A synthetic StackCapture session of a camera moving through `Room`, with exact ground truth in `truth.json` next to the
/// session's own files.
package struct SimulatedSession: Sendable {
  /// A version of the app's format, or what a program has made of a session afterwards.
  package enum Variant: String, Sendable, CaseIterable {
    case v1, v2
    case v3Raw = "v3-raw"
    case v3SLAM = "v3-slam"
    case v3Scaled = "v3-scaled"
    case packed, synthetic

    /// Whether it is recorded without ARKit: with an IMU, and with poses computed later.
    var isLater: Bool { [.v3Raw, .v3SLAM, .v3Scaled, .packed].contains(self) }
    var hasEncoders: Bool { self != .v1 }
    /// Whether it has the video and the IMU readings, which packing omits.
    var hasMovie: Bool { [.v3Raw, .v3SLAM, .v3Scaled].contains(self) }
  }

  package var variant = Variant.v1
  package var seconds = 2.0
  package var rate = 60.0
  package var seed: UInt64 = 1
  /// Image size; `nil` for 1920x1440 in v1, 480x360 in later variants, as the app records, and 224x224 when packed.
  package var size: ImageSize?
  package var depthSize = ImageSize(width: 256, height: 192)
  package var trajectory: Trajectory?
  /// Quirks to apply to it.
  package var quirks: [SessionQuirk] = []
  /// Unix time of the first frame in nanoseconds, in place of the one that follows from `clockOffset`.
  package var startTime: Int64?
  /// Encoder epoch minus frame uptime in nanoseconds, which no file of a real session contains.
  package var clockOffset: Int64 = 1_771_446_000_000_000_000 - 81_000_000_000_000

  package var pace = SimulatedBundle.Pace.fast
  /// Called when the recorder has taken a frame, with its number and its seconds since the first.
  package var onFrame: @Sendable (Int, Double) -> Void = { _, _ in }

  package init() {}

  /// Lets the recording start later by some seconds.
  package mutating func start(later seconds: Double) {
    let shift = Int64((seconds * 1e9).rounded())
    clockOffset += shift
    startTime = startTime.map { $0 + shift }
  }

  private var imageSize: ImageSize {
    if let size { return size }
    return switch variant {
    case .v1: ImageSize(width: 1920, height: 1440)
    case .packed: ImageSize(width: 224, height: 224)
    default: ImageSize(width: 480, height: 360)
    }
  }

  /// Writes the session into a directory that does not exist yet or is empty.
  ///
  /// - Throws: `UsageError` for any other directory.
  package func write(to directory: String) throws {
    let path = trajectory ?? .smooth(seconds: seconds, rate: rate, seed: seed)
    var dated = self
    if let startTime { dated.clockOffset = startTime - path.samples[0].time.nanoseconds }
    try dated.write(path, to: directory)
  }

  private func write(_ path: Trajectory, to directory: String) throws {
    try Self.makeEmptyDirectory(directory)
    do {
      try record(path, in: directory)
    } catch let error as RecordingError {
      throw OutputFailure("\(error)")
    }
    // What is computed from a session later, or comes from other programs.
    if variant.hasMovie { try writeMovie(path, directory) }
    if variant.isLater, variant != .v3Raw {
      try write("360.0000 360.0000 240.0000 180.0000", "calib.txt", in: directory)
      try write(slamPoses(path), "poses.json", in: directory)
    }
    try rewriteMetadata(path, in: directory)
    try write(truth(path), "truth.json", in: directory)
    for rank in 0...SessionQuirk.lastRank {
      for quirk in quirks where quirk.rank == rank { try quirk.apply(to: directory) }
    }
  }

  private func record(_ path: Trajectory, in directory: String) throws {
    let (first, last) = (path.samples[0].time, path.samples[path.samples.count - 1].time)
    let recorder = try SessionRecorder(directory, description(start: first))
    var encoders = variant.hasEncoders ? EncoderSimulation(from: first, to: last, seed).readings[...] : []
    let seconds = Double(path.samples.count) / rate
    var motions = variant.hasMovie ? IMUSimulation(from: first, seconds: seconds, 0, seed).readings[...] : []
    /// Writes the samples that have arrived by a time, in nanoseconds.
    func deliver(until time: Int64) throws {
      while let reading = encoders.first, reading.arrival <= time {
        encoders.removeFirst()
        try recorder.add(.init(time: reading.arrival, sent: reading.sent, angles: reading.quantized))
      }
      while let reading = motions.first, reading.time <= time {
        motions.removeFirst()
        try recorder.add(.init(time: reading.time, acceleration: reading.acceleration, rotation: reading.gyro))
      }
    }
    let began = ProcessInfo.processInfo.systemUptime
    try render(path) { number, image, depth, center in
      let sample = path.samples[number]
      if pace == .realtime {
        let wait = began + Double(sample.time.since(first)) / 1e9 - ProcessInfo.processInfo.systemUptime
        if wait > 0 { Thread.sleep(forTimeInterval: wait) }
      }
      try deliver(until: sample.time.nanoseconds)
      let pose = variant.isLater ? nil : sample.matrix.map { Float($0) }
      try depth.withUnsafeBytes {
        try recorder.record(
          .init(time: sample.time.nanoseconds, image: image, pose: pose, depth: depth.isEmpty ? nil : $0, centerDepth: center))
      }
      onFrame(number, Double(sample.time.since(first)) / 1e9)
    }
    try deliver(until: .max)
    try recorder.finish(at: last.nanoseconds)
  }

  private func description(start: Timestamp) -> SessionDescription {
    // A packed session has the size that the camera had.
    let recorded = variant == .packed ? ImageSize(width: 480, height: 360) : imageSize
    var description = SessionDescription(
      deviceModel: "iPhone16,1", systemVersion: "17.2", width: recorded.width, height: recorded.height,
      start: ClockPair(uptime: start.nanoseconds, unix: start.nanoseconds + clockOffset))
    if variant == .v1 { (description.depthWidth, description.depthHeight) = (depthSize.width, depthSize.height) }
    if variant.isLater { description.source = "iphone_ultrawide" }
    if variant != .v1 { (description.isConnected, description.hasVideo) = (true, variant.isLater) }
    return description
  }

  /// Creates a directory unless it exists.
  ///
  /// - Throws: `UsageError` when it is not empty.
  static func makeEmptyDirectory(_ directory: String) throws {
    let files = FileManager.default
    if let members = try? files.contentsOfDirectory(atPath: directory), !members.isEmpty {
      throw UsageError("\(directory) is not empty; a simulated take needs an empty or new directory")
    }
    try files.createDirectory(atPath: directory, withIntermediateDirectories: true)
  }

  /// Index of each frame's depth map, if any. The app takes a depth map when 1/30 s have passed since the last one, in
  /// floating point: with frames at 60 Hz, after every two or three of them.
  private func depthIndices(_ times: [Timestamp]) -> [Int?] {
    guard variant == .v1 else { return times.map { _ in nil } }
    var last = -Double.infinity
    var next = 0
    return times.map { time in
      let seconds = Double(time.nanoseconds) / 1e9
      guard seconds - last >= 1 / 30.0 else { return nil }
      last = seconds
      defer { next += 1 }
      return next
    }
  }

  /// Renders frames a few at a time on all cores, and calls `visit` with each in order: its number, its JPEG, its depth map, and the depth at its
  /// center; the last two where the variant has them.
  private func render(_ path: Trajectory, _ visit: (Int, [UInt8], [Float], Float?) throws -> Void) throws {
    let room = Room(
      enclosing: path.samples.map { [Float($0.matrix[3]), Float($0.matrix[7]), Float($0.matrix[11])] })
    let batch = 8
    for start in stride(from: 0, to: path.samples.count, by: batch) {
      let numbers = Array(start..<min(start + batch, path.samples.count))
      let frames = Parallel.map(numbers) { index -> Result<([UInt8], [Float], Float?), any Error> in
        Result {
          let matrix = path.samples[index].matrix
          var pixels = room.image(from: Room.Camera(size: imageSize, matrix: matrix), seed: seed &* 1_000_003 &+ UInt64(index))
          FrameCode.draw(index, into: &pixels, size: imageSize)
          let jpeg = try JPEGEncoder().encode(pixels, size: imageSize, quality: variant == .v1 ? 85 : 80)
          let depth = variant == .v1 ? room.depth(from: Room.Camera(size: depthSize, matrix: matrix)) : []
          let center = Room.Camera(size: ImageSize(width: 1, height: 1), matrix: matrix)
          return (jpeg, depth, variant == .v2 ? room.depth(from: center)[0] : nil)
        }
      }
      for (number, frame) in zip(numbers, frames) {
        let (image, depth, center) = try frame.get()
        try visit(number, image, depth, center)
      }
    }
  }

  // MARK: JSON as the app writes it: sorted keys, a space before the colon, floats of 32 bits

  /// Writes the small video that the app records along with the images; its times are rounded to 1/600 s.
  private func writeMovie(_ path: Trajectory, _ directory: String) throws {
    let small = ImageSize(width: 64, height: 48)
    var options = MovieEncoder.Options(size: small)
    options.bitRate = 200_000
    options.rate = rate
    let encoder = try MovieEncoder(directory + "/video.mov", options)
    for (index, sample) in path.samples.enumerated() {
      let seconds = Double(sample.time.since(path.samples[0].time)) / 1e9
      var pixels = [UInt8](repeating: 90, count: small.width * small.height * 3)
      FrameCode.draw(index, into: &pixels, size: small)
      try encoder.add(pixels, at: Int64((seconds * 600).rounded()))
    }
    try encoder.finish()
  }

  /// Poses as SLAM computes them: OpenCV's camera axes, an arbitrary world and scale, and times that are image numbers over 60.
  private func slamPoses(_ path: Trajectory) -> String {
    let scale = variant == .v3Scaled ? 1.0 : 0.37
    let entries = path.samples.enumerated().map { index, sample in
      let m = sample.matrix
      // The world is rotated by 90 degrees about x; the camera's y and z axes are reversed.
      func row(_ a: Int, _ sign: Double) -> String {
        let numbers = [m[a * 4], -m[a * 4 + 1], -m[a * 4 + 2], m[a * 4 + 3] * scale].map { $0 * sign }
        return "[" + numbers.map { "\($0)" }.joined(separator: ", ") + "]"
      }
      let rows = [row(0, 1), row(2, -1), row(1, 1), "[0.0, 0.0, 0.0, 1.0]"].joined(separator: ", ")
      return "  {\"timestamp\": \(Double(index) / 60), \"rgbIndex\": \(index), \"depth\": null, \"transform\": [\(rows)]}"
    }
    return "[\n" + entries.joined(separator: ",\n") + "\n]\n"
  }

  /// Changes the metadata as programs do: those that compute poses later, and a generator of sessions.
  private func rewriteMetadata(_ path: Trajectory, in directory: String) throws {
    guard variant == .synthetic || (variant.isLater && variant != .v3Raw) else { return }
    let text = String(decoding: try Data(contentsOf: URL(fileURLWithPath: directory + "/metadata.json")), as: UTF8.self)
    var members: [String: String] = [:]
    for line in text.matches(of: /(?m)^  "(\w+)" : (.*?),?$/) { members[String(line.1)] = String(line.2) }
    let (first, last) = (path.samples[0].time, path.samples[path.samples.count - 1].time)
    members["poseCount"] = "\(path.samples.count)"
    members["durationSeconds"] = "\(Double(last.since(first)) / 1e9)"
    if variant == .synthetic {
      for key in ["startTime", "endTime", "iosVersion", "rgbFrameCount", "hasVideo"] { members[key] = nil }
      members["deviceModel"] = "\"synthetic\""
      members["frameCount"] = "\(path.samples.count)"
      members["synthetic"] = "true"
    } else {
      members["slamProcessed"] = "true"
      if variant == .v3Scaled { members["scale_factor"] = "2.7" }
    }
    let lines = members.sorted { $0.key < $1.key }.map { "  \"\($0)\" : \($1)" }
    try write("{\n" + lines.joined(separator: ",\n") + "\n}\n", "metadata.json", in: directory)
  }

  private func truth(_ path: Trajectory) -> String {
    let depths = depthIndices(path.samples.map(\.time))
    let truth: JSONValue = [
      "variant": .string(variant.rawValue), "seed": .integer(Int64(bitPattern: seed)), "frames": JSONValue(path.samples.count),
      "clock_offset_ns": .string(String(clockOffset)),
      "frame_time_ns": .array(path.samples.map { .integer($0.time.nanoseconds) }),
      "depth_index": .array(depths.map { $0.map { JSONValue($0) } ?? .null }),
      "camera_to_world": .array(path.samples.map { .array($0.matrix.map { .number($0) }) }),
    ]
    return truth.canonicalText + "\n"
  }

  private func write(_ text: String, _ name: String, in directory: String) throws {
    try Data(text.utf8).write(to: URL(fileURLWithPath: directory + "/" + name))
  }
}

/// Readings of a four-joint glove: 50 Hz on the sender's own clock, in steps of 45/512 degrees within 0 to 360, which reach
/// the phone up to 15 ms late.
struct EncoderSimulation {
  struct Reading {
    /// Nanoseconds of device uptime.
    var arrival: Int64
    var sent: Int64
    var angles: [Double]

    /// The angles as the sensor sends them, in degrees.
    var quantized: [Float] { angles.map { Float(EncoderSimulation.quantized($0)) } }
  }
  private(set) var readings: [Reading] = []

  init(from first: Timestamp, to last: Timestamp, _ seed: UInt64) {
    var random = SplitMix(seed: seed ^ 0xE5C0)
    let boot = Int64(random.next() % 500_000) + 30_000
    // The app starts recording encoders before frames; the first notification falls within the first 20 ms.
    let lead = Int64(random.next() % 15_000_000)
    var time = first.nanoseconds + lead
    while time <= last.nanoseconds {
      let late = 2_000_000 + Int64(random.next() % 13_000_000)
      readings.append(
        Reading(
          arrival: time + late, sent: boot + (time - first.nanoseconds) / 1_000_000,
          angles: (0..<4).map { Self.angle(joint: $0, seconds: Double(time - first.nanoseconds) / 1e9) }))
      time += 20_000_000
    }
  }

  /// True angle in degrees, before quantization and wrapping; joint 0 passes through 0 so that unwrapping is exercised.
  static func angle(joint: Int, seconds: Double) -> Double {
    let center = [2.0, 40, 120, 200][joint]
    return center - (15 + 5 * Double(joint)) * sin(2 * .pi * seconds / (2.5 + 0.4 * Double(joint)))
  }

  /// The angle as the sensor sends it, quantized and wrapped.
  private static func quantized(_ angle: Double) -> Double {
    let step = 45.0 / 512
    let wrapped = angle - (angle / 360).rounded(.down) * 360
    return (wrapped / step).rounded(.down) * step
  }
}
