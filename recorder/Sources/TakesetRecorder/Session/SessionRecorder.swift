import Foundation

/// Records a session: images with poses, smoothed depth, joint encoders and the IMU, each with its time.
///
/// Everything is written in place, the entry of a frame after its files, and the JSON files are valid after every write: a session needs no recovery
/// after a kill. Times are whole nanoseconds.
///
/// `@unchecked Sendable`: `lock` guards everything that changes.
///
///     let recorder = try SessionRecorder(folder, description)
///     try recorder.record(.init(time: time, image: jpeg, pose: cameraToWorld))         // each frame
///     try recorder.add(.init(time: time, acceleration: acceleration, rotation: rotation))
///     try recorder.finish(at: time)
public final class SessionRecorder: @unchecked Sendable {
  /// A frame of the camera, whose image the app has compressed.
  public struct Frame {
    /// Time on the clock of the frames, in nanoseconds.
    public var time: Int64
    /// The compressed image, a JPEG.
    public var image: [UInt8]
    /// Camera to world, 4x4, row-major, in ARKit's axes; `nil` for a camera without poses.
    public var pose: [Float]?
    /// 32-bit floats in meters, rows without padding, which are read before `record` returns.
    public var depth: UnsafeRawBufferPointer?
    /// Depth at the image's center in meters, for apps that keep no maps.
    public var centerDepth: Float?

    public init(time: Int64, image: [UInt8], pose: [Float]?, depth: UnsafeRawBufferPointer? = nil, centerDepth: Float? = nil) {
      (self.time, self.image, self.pose, self.depth, self.centerDepth) = (time, image, pose, depth, centerDepth)
    }
  }

  /// One reading of a glove with four joints.
  public struct EncoderReading: Sendable {
    /// Time of arrival on the clock of the frames, in nanoseconds.
    public var time: Int64
    /// Milliseconds on the sender's own clock.
    public var sent: Int64
    /// Degrees: index MCP and PIP, three fingers' MCP and PIP.
    public var angles: [Float]

    public init(time: Int64, sent: Int64, angles: [Float]) { (self.time, self.sent, self.angles) = (time, sent, angles) }
  }

  /// One reading of the phone's IMU, in the device's axes.
  public struct MotionReading: Sendable {
    /// Time on the clock of the frames, in nanoseconds.
    public var time: Int64
    /// Acceleration without gravity, in g.
    public var acceleration: SIMD3<Double>
    /// Angular velocity in rad/s.
    public var rotation: SIMD3<Double>

    public init(time: Int64, acceleration: SIMD3<Double>, rotation: SIMD3<Double>) {
      (self.time, self.acceleration, self.rotation) = (time, acceleration, rotation)
    }
  }

  /// The reason why a frame was not recorded.
  public enum Drop: String, Sendable { case encoder, late, storage }

  private static let times = Int64.min / 2...Int64.max / 2

  public let folder: String
  private let description: SessionDescription
  private let lock = NSLock()
  private let syncing = DispatchQueue(label: "takeset.recorder.session")
  private let poses: JSONListFile
  private var encoders, motions: JSONListFile?
  private var counts = SessionDescription.Counts()
  private var depthRule = DepthRule()
  /// The time of the frame after which the lists were last synced.
  private var synced: Int64?
  private var isFinished = false

  /// Makes the folder, which must not exist or be empty, with `metadata.json` first.
  ///
  /// - Throws: `RecordingError`.
  public init(_ folder: String, _ description: SessionDescription) throws {
    (self.folder, self.description) = (folder, description)
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    guard try FileManager.default.contentsOfDirectory(atPath: folder).isEmpty else {
      throw RecordingError(path: folder, reason: "there is something already")
    }
    try Files.write(description.json(nil, end: nil), to: folder + "/metadata.json")
    guard mkdir(folder + "/rgb", 0o755) == 0 else { throw RecordingError.system("cannot be made", folder + "/rgb") }
    if description.depthWidth != nil, mkdir(folder + "/depth", 0o755) != 0 {
      throw RecordingError.system("cannot be made", folder + "/depth")
    }
    poses = try JSONListFile(creating: folder + "/poses.json")
    if description.isConnected == true { encoders = try JSONListFile(creating: folder + "/encoders.json") }
    try Files.syncFolder(folder)
  }

  /// Frames recorded so far.
  public var frames: Int { lock.withLock { counts.frames } }

  /// Records a frame: its image, its depth map when one is due, then its entry. A frame that is not later than the last one is left out.
  ///
  /// - Throws: `RecordingError`; nothing of the frame is then in the session.
  public func record(_ frame: Frame) throws {
    // The difference of two such times fits, too.
    guard Self.times.contains(frame.time) else {
      throw RecordingError(path: folder, reason: "a frame's time is \(frame.time) ns; expected less than 146 years from 0")
    }
    try lock.withLock {
      guard !isFinished, frame.time > counts.last ?? .min else { return }
      let number = counts.frames
      let image = "\(folder)/rgb/\(Self.sixDigits(number)).jpg"
      try write(frame.image, to: image)
      var map: Int?
      var rule = depthRule
      if description.depthWidth != nil, let depth = frame.depth, rule.takes(frame.time) {
        do {
          try checkDepth(depth)
          try write(Array(depth), to: "\(folder)/depth/\(Self.sixDigits(counts.depthMaps)).bin")
        } catch {
          unlink(image)
          throw error
        }
        map = counts.depthMaps
      }
      if let pose = frame.pose {
        do {
          try poses.append(Self.entry(frame, pose, number, depth: map))
        } catch {
          unlink(image)
          if let map { unlink("\(folder)/depth/\(Self.sixDigits(map)).bin") }
          throw error
        }
        counts.poses += 1
      }
      if map != nil { counts.depthMaps += 1 }
      depthRule = rule
      counts.frames += 1
      (counts.first, counts.last) = (counts.first ?? frame.time, frame.time)
      syncIfDue(frame.time)
    }
  }

  /// Counts a frame that was not recorded.
  public func drop(_ reason: Drop) { lock.withLock { counts.dropped[reason.rawValue, default: 0] += 1 } }

  /// Records a reading in `encoders.json`, with its time as Unix seconds. Throws `RecordingError` unless it has four finite angles.
  public func add(_ reading: EncoderReading) throws {
    let names = ["index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]
    guard reading.angles.count == names.count, reading.angles.allSatisfy(\.isFinite) else {
      throw RecordingError(path: folder + "/encoders.json", reason: "a reading is not of \(names.count) numbers: \(reading.angles)")
    }
    var members = ["    \"esp_timestamp_ms\" : \(reading.sent)"]
    members += zip(names, reading.angles).map { "    \"\($0)\" : \($1)" }
    members.append("    \"timestamp\" : \(Self.seconds(description.start.unix(of: reading.time)))")
    try lock.withLock {
      guard !isFinished else { return }
      let list = try encoders ?? JSONListFile(creating: folder + "/encoders.json")
      encoders = list
      try list.append("  {\n" + members.joined(separator: ",\n") + "\n  }")
      counts.encoders += 1
    }
  }

  /// Records a reading in `imu.json`, with its time as Unix seconds. Throws `RecordingError` where a number is not finite.
  public func add(_ reading: MotionReading) throws {
    let numbers = [reading.acceleration, reading.rotation].flatMap { [$0.x, $0.y, $0.z] }
    guard numbers.allSatisfy(\.isFinite) else {
      throw RecordingError(path: folder + "/imu.json", reason: "a reading is not of numbers: \(numbers)")
    }
    func list(_ vector: SIMD3<Double>) -> String { "\(vector.x),\n      \(vector.y),\n      \(vector.z)" }
    let entry =
      "  {\n    \"accel\" : [\n      \(list(reading.acceleration))\n    ],\n    \"gyro\" : [\n      \(list(reading.rotation))\n    ],\n"
      + "    \"timestamp\" : \(Self.seconds(description.start.unix(of: reading.time)))\n  }"
    try lock.withLock {
      guard !isFinished else { return }
      let list = try motions ?? JSONListFile(creating: folder + "/imu.json")
      motions = list
      try list.append(entry)
    }
  }

  /// Ends the session: `metadata.json` gets its end and its counts.
  ///
  /// - Parameter time: On the clock of the frames.
  public func finish(at time: Int64) throws {
    try lock.withLock {
      guard !isFinished else { return }
      for list in [poses, encoders, motions] { _ = list?.descriptor.sync() }
      try Files.write(description.json(counts, end: time), to: folder + "/metadata.json")
      try Files.syncFolder(folder)
      isFinished = true
    }
  }

  // MARK: Parts

  private func checkDepth(_ depth: UnsafeRawBufferPointer) throws {
    let expected = (description.depthWidth ?? 0) * (description.depthHeight ?? 0) * 4
    guard depth.count == expected else {
      throw RecordingError(path: folder, reason: "a depth map has \(depth.count) bytes; expected \(expected)")
    }
  }

  private func write(_ bytes: [UInt8], to path: String) throws {
    // What an attempt has left, which the disk had no room for.
    unlink(path)
    let file = try AppendedFile(creating: path)
    do {
      try file.append(bytes)
    } catch {
      unlink(path)
      throw error
    }
  }

  /// Once a second, not on the camera's thread, so that an empty battery costs no more than a kill.
  private func syncIfDue(_ time: Int64) {
    if let synced, time - synced < 1_000_000_000 { return }
    synced = time
    let descriptors = [poses, encoders, motions].compactMap { $0?.descriptor }
    syncing.async { for descriptor in descriptors { _ = descriptor.sync() } }
  }

  private static func entry(_ frame: Frame, _ pose: [Float], _ number: Int, depth: Int?) throws -> String {
    guard pose.count == 16, pose.allSatisfy(\.isFinite) else {
      throw RecordingError(path: "poses.json", reason: "the pose of frame \(number) is not a matrix of 16 numbers")
    }
    let rows = (0..<4).map { row in "      [ " + pose[(row * 4)..<(row * 4 + 4)].map(Self.number).joined(separator: ", ") + " ]" }
    var members: [String] = []
    // A place without depth is usual.
    if let center = frame.centerDepth, center.isFinite { members.append("    \"depth\" : \(center)") }
    if let depth { members.append("    \"depthIndex\" : \(depth)") }
    members.append("    \"rgbIndex\" : \(number)")
    members.append("    \"timestamp\" : \(seconds(frame.time))")
    members.append("    \"transform\" : [\n" + rows.joined(separator: ",\n") + "\n    ]")
    return "  {\n" + members.joined(separator: ",\n") + "\n  }"
  }

  private static func number(_ value: Float) -> String {
    value == value.rounded() && abs(value) < 1e6 ? "\(Int(value))" : "\(value)"
  }

  /// Nanoseconds as seconds with nine decimals.
  static func seconds(_ time: Int64) -> String {
    let fraction = String((time % 1_000_000_000).magnitude)
    let whole = time / 1_000_000_000
    return (time < 0 && whole == 0 ? "-" : "") + "\(whole)." + String(repeating: "0", count: 9 - fraction.count) + fraction
  }

  static func sixDigits(_ number: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, 6 - digits.count)) + digits
  }
}

/// The rule for frames with a depth map: those a thirtieth of a second after the last that had one, or later, by the app's seconds in
/// floating point.
struct DepthRule: Equatable {
  private var last = -Double.infinity

  mutating func takes(_ time: Int64) -> Bool {
    let seconds = Double(time) / 1e9
    guard seconds - last >= 1 / 30.0 else { return false }
    last = seconds
    return true
  }
}
