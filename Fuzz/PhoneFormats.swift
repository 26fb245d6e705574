import Codecs
import Model

@testable import Readers
@testable import Steps

extension FuzzTarget {
  /// Depth maps and metadata of phone apps.
  static let phones = [lzfse, exr, record3d, iphumi, trajectory, spectacular, description, describedTable, mcap, mcapMessage]

  private static let lzfse = FuzzTarget("lzfse", throws: LZFSE.Failure.self) { bytes in
    try bytes.withUnsafeBytes { stream in
      let announced = LZFSE.decodedCount(stream)
      let count = min(announced ?? 4200, 1 << 20)
      var output: [UInt8] = []
      try LZFSE.decode(stream, count: count, into: &output)
      expect(output.count == count && announced == count, "\(output.count) bytes of \(announced ?? -1)")
    }
  }

  private static let exr = FuzzTarget("exr", throws: EXRDepth.Failure.self) { bytes in
    try bytes.withUnsafeBytes { file in
      let map = try EXRDepth(file, limit: 512)
      var values: [Float] = []
      try map.decode(file, into: &values)
      expect(values.count == map.width * map.height, "\(values.count) values of \(map.width)x\(map.height)")
    }
  }

  private static let record3d = FuzzTarget("record3d", throws: TakeFailure.self) { bytes in
    let metadata = try Record3DMetadata(FuzzFiles.shared.inputs("metadata", .metadata, bytes), 0, notes: FindingCollector())
    let norms = metadata.poses.compactMap(\.self).map { ($0.quaternion * $0.quaternion).sum() }
    expect(norms.allSatisfy { abs($0 - 1) < 1e-9 }, "a rotation that is no unit quaternion")
  }

  private static let iphumi = FuzzTarget("iphumi", throws: TakeFailure.self) { bytes in
    let file = try IPhUMIFile(FuzzFiles.shared.inputs("take.json", .metadata, bytes), 0, notes: FindingCollector())
    let presented = file.imageTimes.indices.map { Int64($0) * 16_666_667 }
    let clock = FrameClock(listed: file.imageTimes, presented: presented)
    let positions = clock.positions.compactMap(\.self)
    expect(isAscending(positions) && clock.times.count == clock.positions.count, "frames that do not ascend")
    for key in ["deviceName", "deviceIdentifier"] { expect(file.details[key] == nil, "the phone's name is kept") }
  }

  private static let trajectory = FuzzTarget("trajectory", throws: TakeFailure.self) { bytes in
    let table = try CSVFile(FuzzFiles.shared.inputs("lowres_wide.traj", .poses, bytes), 0, limit: 1 << 24, separator: " ")
    let trajectory = try Trajectory(scene: table, "lowres_wide.traj", FindingCollector())
    for second in [0, 1, 81_234, 1 << 32] {
      guard let pose = trajectory.pose(at: Timestamp(nanoseconds: Int64(second) * 1_000_000_000), limit: .max) else { continue }
      expect(pose.floats.allSatisfy(\.isFinite), "a pose that is not finite: \(pose)")
    }
  }

  private static let description = FuzzTarget("folder-description", throws: PipelineFileError.self) { bytes in
    let description = try FolderDescription(FolderDescription.document(String(decoding: bytes, as: UTF8.self)))
    let role = description.roles()
    for path in ["takeset.yaml", "rgb/000001.png", "../rgb.txt", "rgb/" + String(repeating: "a", count: 200)] { _ = role(path) }
    expect(!description.folders.contains { $0.hasPrefix("/") || $0.split(separator: "/").contains("..") }, "a folder outside of the take")
  }

  private static let describedTable = FuzzTarget("folder-table", throws: TakeFailure.self) { bytes in
    let inputs = FuzzFiles.shared.inputs("poses.csv", .poses, bytes)
    let description = must("the description") {
      try FolderDescription(
        FolderDescription.document(
          "{images: {camera_image: {files: '*.png', times: name}}, pose: {table: poses.csv, layout: tum, world-up: -z}}"))
    }
    guard let pose = description.pose else { return }
    let rows = try PoseRows(pose, inputs, limit: 1 << 24, FindingCollector())
    for time in rows.trajectory.times {
      guard let pose = rows.pose(at: time, limit: 0) else { continue }
      let norm = (pose.quaternion * pose.quaternion).sum()
      expect(pose.floats.allSatisfy(\.isFinite) && abs(norm - 1) < 1e-9, "no pose: \(pose)")
    }
  }

  private static let mcap = FuzzTarget("mcap", throws: TakeFailure.self) { bytes in
    let inputs = FuzzFiles.shared.inputs("recording.mcap", .stream, bytes)
    let log = try MCAPLog(["recording.mcap"], in: inputs, MCAPLog.Limits(chunk: 1 << 20, total: 1 << 24))
    let recording = try MCAPRecording(log, named: [:], usesStamps: true, FindingCollector())
    var data: [UInt8] = []
    for topic in recording.topics {
      for place in topic.places {
        must("a message that was read before") { try log.read(place, into: &data) }
        expect(data.count == place.count, "\(data.count) of \(place.count) bytes")
      }
      for pose in topic.poses + topic.transforms.map(\.pose) {
        expect(abs((pose.quaternion * pose.quaternion).sum() - 1) < 1e-9, "no pose: \(pose)")
      }
    }
  }

  /// A definition after its length, and a message.
  private static let mcapMessage = FuzzTarget("mcap-message", throws: MessageFault.self) { bytes in
    guard let isROS = bytes.first.map({ $0 % 2 == 0 }), bytes.count > 3 else { return }
    let (count, rest) = (Int(bytes[1]) | Int(bytes[2]) << 8, bytes.dropFirst(3))
    let (definition, message) = (Array(rest.prefix(count)), Array(rest.dropFirst(count)))
    for kind in TopicKind.byFields {
      let decoder: any MessageDecoder =
        if isROS {
          try CDRDecoder(MessageTypes(ros: String(decoding: definition, as: UTF8.self), name: "p/T"), "p/T", kind.wanted)
        } else {
          try ProtobufDecoder(MessageTypes(descriptors: definition), "p.T", kind.wanted)
        }
      try message.withUnsafeBytes { message in
        for case .bytes(let range)? in try decoder.decode(message) {
          expect(range.lowerBound >= 0 && range.upperBound <= message.count, "\(range) of \(message.count) bytes")
        }
      }
    }
  }

  private static let spectacular = FuzzTarget("spectacular", throws: TakeFailure.self) { bytes in
    let limit = 20_000
    let log = try SpectacularLog(
      FuzzFiles.shared.inputs(SpectacularLog.name, .metadata, bytes), 0, limit: 1 << 24, frameLimit: limit, notes: FindingCollector())
    expect(log.frames.count <= limit, "\(log.frames.count) frames")
    let presented = log.frames.indices.map { Int64($0) * 33_333_333 }
    let clock = FrameClock.exact(listed: log.frames.map(\.time), presented: presented)
    expect(isAscending(clock.positions.compactMap(\.self)), "frames that do not ascend")
    let inertial = log.sensors.table(SpectacularLog.name, FindingCollector()).stream(
      clock: .deviceUptime, file: SpectacularLog.name,
      in: .text(.line, InputOrigin(inputs: FuzzFiles.shared.inputs(SpectacularLog.name, .metadata, bytes), entry: 0)),
      notes: FindingCollector())
    expect(isAscending(inertial?.timestamps.map(\.nanoseconds) ?? [], orEqual: true), "readings that do not ascend")
  }
}
