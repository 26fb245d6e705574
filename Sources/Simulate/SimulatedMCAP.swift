import Codecs
import Evidence
import Foundation
import Media
package import Model

/// A synthetic recording in MCAP: of a robot with ROS 2, or in Foxglove's schemas.
package struct SimulatedMCAP: Sendable {
  /// How messages are written.
  package enum Form: String, Sendable, CaseIterable {
    /// ROS 2 in chunks of Zstandard: the odometry of a body, on which a camera is mounted, depth, an IMU, a gripper.
    case ros2
    /// Foxglove's schemas in Protocol Buffers, in chunks of LZ4: poses of the camera as transforms.
    case foxglove
    /// The same in JSON, without chunks.
    case json
    /// As `ros2`, split into two files, with the `metadata.yaml` of a bag.
    case bag
    /// As `ros2`, without its end, as where the recorder was killed.
    case unfinished
  }

  package var form = Form.ros2
  package var seconds = 2.0
  package var seed: UInt64 = 1
  package var size = ImageSize(width: 640, height: 480)
  package var depthSize = ImageSize(width: 320, height: 240)

  package init() {}

  /// Moments a second; images and depth maps are of every other one, poses of all.
  private static let rate = 60.0
  /// Unix time of the first frame, in nanoseconds.
  private static let start: Int64 = 1_780_000_000_250_000_000
  /// The pose of the camera on the body.
  private static let mount: [Double] = [0, 0, 1, 0.05, -1, 0, 0, -0.02, 0, -1, 0, 0.01, 0, 0, 0, 1]

  /// Writes a folder that is new or empty: the recording, and `truth.json`.
  package func write(to directory: String) throws {
    try SimulatedSession.makeEmptyDirectory(directory)
    let scene = PhoneScene(seconds: seconds, rate: Self.rate, seed: seed, size: size, depthSize: depthSize)
    let count = scene.path.samples.count
    let parts = form == .bag ? [0..<(count / 2), (count / 2)..<count] : [0..<count]
    let names = form == .bag ? parts.indices.map { "recording_\($0).mcap" } : ["recording.mcap"]
    for (name, part) in zip(names, parts) {
      let path = directory + "/" + name
      try Data().write(to: URL(fileURLWithPath: path))
      let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
      try write(part, scene, to: file)
      // In the middle of a chunk.
      if form == .unfinished { try file.truncate(atOffset: file.offset() / 8 * 7) }
      try file.close()
    }
    if form == .bag {
      let lines = ["rosbag2_bagfile_information:", "  version: 5", "  storage_identifier: mcap", "  relative_file_paths:"]
      let text = (lines + names.map { "    - \($0)" }).joined(separator: "\n") + "\n"
      try Data(text.utf8).write(to: URL(fileURLWithPath: directory + "/metadata.yaml"))
    }
    let images = scene.path.samples.indices.filter { $0 % 2 == 0 }
    let truth: JSONValue = [
      "frames": JSONValue(images.count), "frame_time_ns": .array(images.map { .integer(time($0, scene)) }),
      "camera_to_world": .array(
        images.map { .array(SimulatedFolder.upright(scene.path.samples[$0].matrix).map { .number($0) }) }),
      "gripper": .array(images.map { .number(Double(Float(SimulatedFolder.opening($0)))) }),
    ]
    try Data(truth.canonicalText.utf8).write(to: URL(fileURLWithPath: directory + "/truth.json"))
  }

  private func time(_ number: Int, _ scene: PhoneScene) -> Int64 { Self.start + scene.time(number) }

  /// The pose of the camera's optical axes in a world with z up.
  private func pose(_ number: Int, _ scene: PhoneScene) throws -> Pose {
    try Pose(rowMajor: SimulatedFolder.upright(scene.path.samples[number].matrix)).rotated(by: [1, 0, 0, 0])
  }

  /// Writes the frames of a part.
  private func write(_ part: Range<Int>, _ scene: PhoneScene, to output: FileHandle) throws {
    var file = try MCAPFile(
      library: "simulated", profile: form == .foxglove || form == .json ? "" : "ros2",
      compression: form == .foxglove ? .lz4 : form == .json ? nil : .zstd, chunkBytes: 64 << 10
    ) { try output.write(contentsOf: Data($0)) }
    let topics = form == .foxglove || form == .json ? try FoxgloveTopics(&file, isJSON: form == .json) : nil
    let ros = topics == nil ? try ROSTopics(&file) : nil
    let focal = scene.focalLength(0)
    let camera = Intrinsics(fx: focal, fy: focal, cx: Double(size.width) / 2, cy: Double(size.height) / 2)
    if let ros { try ros.addMount(Pose(rowMajor: Self.mount), at: time(part.lowerBound, scene), to: &file) }
    let imu = IMUSimulation(from: scene.path.samples[0].time, seconds: seconds, 0, seed).readings
    var next = 0
    try scene.renderInOrder { frame in
      guard part.contains(frame.number) else { return }
      let (number, stamp) = (frame.number, time(frame.number, scene))
      let pose = try pose(number, scene)
      if let ros {
        try ros.addPose(pose.composed(with: Pose(rowMajor: Self.mount).inverse), at: stamp, to: &file)
        while next < imu.count {
          let time = imu[next].time - scene.path.samples[0].time.nanoseconds + Self.start
          guard time <= stamp else { break }
          // A part of a bag begins where the one before ended.
          if part.lowerBound == 0 || time > self.time(part.lowerBound - 1, scene) { try ros.addReading(imu[next], at: time, to: &file) }
          next += 1
        }
      } else {
        try topics?.addPose(pose, at: stamp, to: &file)
      }
      guard number % 2 == 0 else { return }
      let image = try JPEGEncoder().encode(frame.pixels, size: size, quality: 90)
      let depth = frame.meters.map { $0 < 8 ? UInt16(($0 * 1000).rounded()) : 0 }
      if let ros {
        try ros.addImages(image, size, depth, depthSize, camera, at: stamp, to: &file)
        try ros.addGripper(Float(SimulatedFolder.opening(number)), at: stamp, to: &file)
      } else {
        try topics?.addImages(image, size, depth, depthSize, camera, at: stamp, to: &file)
      }
    }
    try file.finish()
  }
}

extension SimulatedMCAP {
  /// Topics with Foxglove's schemas.
  private struct FoxgloveTopics {
    let isJSON: Bool
    let image, info, depth, transform: UInt16

    init(_ file: inout MCAPFile, isJSON: Bool) throws {
      self.isJSON = isJSON
      func add(_ topic: String, _ schema: FoxgloveSchema) throws -> UInt16 {
        try file.addChannel(
          topic, schema: schema.name, isJSON ? Array("{\"type\":\"object\"}".utf8) : schema.descriptor,
          schemaEncoding: isJSON ? "jsonschema" : "protobuf", encoding: isJSON ? "json" : "protobuf")
      }
      image = try add("/front/image", .image)
      info = try add("/front/info", .calibration)
      depth = try add("/front/depth", .depth)
      transform = try add("/tf", .transform)
    }

    private func stamp(_ time: Int64) -> JSONValue { ["sec": .integer(time / 1_000_000_000), "nsec": .integer(time % 1_000_000_000)] }

    func addPose(_ pose: Pose, at time: Int64, to file: inout MCAPFile) throws {
      let (p, q) = (pose.position, pose.quaternion)
      let message: JSONValue = [
        "timestamp": stamp(time), "parent_frame_id": "world", "child_frame_id": "front",
        "translation": ["x": .number(p.x), "y": .number(p.y), "z": .number(p.z)],
        "rotation": ["x": .number(q.x), "y": .number(q.y), "z": .number(q.z), "w": .number(q.w)],
      ]
      let bytes = isJSON ? message.canonicalBytes : FoxgloveMessage.transform(pose, of: "front", in: "world", at: time)
      try file.addMessage(bytes, on: transform, sequence: 0, at: UInt64(time))
    }

    func addImages(
      _ jpeg: [UInt8], _ size: ImageSize, _ maps: [UInt16], _ depthSize: ImageSize, _ camera: Intrinsics, at time: Int64,
      to file: inout MCAPFile
    ) throws {
      func text(_ bytes: [UInt8]) -> JSONValue { .string(Data(bytes).base64EncodedString()) }
      let k: [Double] = [camera.fx, 0, camera.cx - 0.5, 0, camera.fy, camera.cy - 0.5, 0, 0, 1]
      let messages: [(UInt16, JSONValue, [UInt8])] = [
        (
          info,
          [
            "timestamp": stamp(time), "frame_id": "front", "width": JSONValue(size.width), "height": JSONValue(size.height),
            "K": .array(k.map { .number($0) }), "D": [], "distortion_model": "",
          ], FoxgloveMessage.calibration(camera, size: size, frame: "front", at: time)
        ),
        (
          image, ["timestamp": stamp(time), "frame_id": "front", "format": "jpeg", "data": isJSON ? text(jpeg) : ""],
          FoxgloveMessage.image(jpeg, format: "jpeg", frame: "front", at: time)
        ),
        (
          depth,
          [
            "timestamp": stamp(time), "frame_id": "front", "width": JSONValue(depthSize.width), "height": JSONValue(depthSize.height),
            "encoding": "16UC1", "step": JSONValue(2 * depthSize.width), "data": isJSON ? text(maps.withUnsafeBytes { Array($0) }) : "",
          ], FoxgloveMessage.depth(maps, size: depthSize, frame: "front", at: time)
        ),
      ]
      for (channel, json, protobuf) in messages {
        try file.addMessage(isJSON ? json.canonicalBytes : protobuf, on: channel, sequence: 0, at: UInt64(time))
      }
    }
  }
}
