import Evidence
import Model

@testable import Readers
@testable import Steps

extension FuzzTarget {
  /// Files of StackCapture sessions.
  static let sessions = [poses, encoders, inertial, sessionMetadata, depthMap]

  private static let limit = 1 << 20

  private static let poses = FuzzTarget("poses", throws: TakeFailure.self) { bytes in
    let notes = FindingCollector()
    let file = try PosesFile(FuzzFiles.shared.inputs(PosesFile.name, .poses, bytes), 0, limit: limit, notes: notes)
    expect(isAscending(file.entries.map(\.number)), "numbers of frames do not ascend")
    expect(isAscending(file.entries.filter(\.isInOrder).map(\.timestamp)), "times of frames in order do not ascend")
    for entry in file.entries { _ = (file.depthPoint(entry), file.hasNullDepth(entry)) }
    for pose in file.entries.compactMap(\.pose) {
      let norm = (pose.quaternion * pose.quaternion).sum()
      expect(abs(norm - 1) < 1e-6, "a rotation of norm \(norm)")
    }
  }

  static func isAscending(_ values: [some Comparable], orEqual: Bool = false) -> Bool {
    zip(values, values.dropFirst()).allSatisfy { $0 < $1 || orEqual && $0 == $1 }
  }

  /// The phone's readings, or a laptop's table, by the first byte.
  private static let encoders = FuzzTarget("encoders", throws: TakeFailure.self) { bytes in
    guard let first = bytes.first else { return }
    let name = first % 2 == 0 ? "encoders.json" : "encoders_1.csv"
    let file = try EncodersFile(
      FuzzFiles.shared.inputs(name, .encoders, Array(bytes.dropFirst())), 0, limit: limit, startTime: 1_771_532_632_000_000_000,
      signs: [1, 1, -1, -1], csvOffset: first % 4 == 1 ? 0.25 : nil, notes: FindingCollector())
    guard let stream = file.stream else { return }
    expect(isAscending(stream.timestamps, orEqual: true), "times of readings descend")
    expect(stream.timestamps.count == file.count && stream.sourceIndex.count == file.count, "readings are lost")
    try readAll(stream)
  }

  private static let inertial = FuzzTarget("imu", throws: TakeFailure.self) { bytes in
    let file = try IMUFile(FuzzFiles.shared.inputs(IMUFile.name, .imu, bytes), 0, limit: limit, notes: FindingCollector())
    guard let stream = file.stream else { return }
    expect(isAscending(stream.timestamps, orEqual: true), "times of readings descend")
    _ = file.span
    try readAll(stream)
  }

  static func readAll(_ stream: SampleStream) throws {
    let cursor = try stream.source.makeCursor(SampleRequest())
    var sample: [UInt8] = []
    try read(cursor, stream.timestamps.indices, into: &sample)
  }

  private static func read(_ cursor: some SampleCursor, _ samples: Range<Int>, into sample: inout [UInt8]) throws {
    var cursor = cursor
    for index in samples { do { try cursor.read(index, into: &sample) } catch is SampleFailure {} }
  }

  /// Metadata, or, by the first byte, the calibration that SLAM writes.
  private static let sessionMetadata = FuzzTarget("session-metadata", throws: TakeFailure.self) { bytes in
    guard let first = bytes.first else { return }
    let isCalibration = first % 8 == 0
    let (name, other) = isCalibration ? ("calib.txt", SessionMetadata.name) : (SessionMetadata.name, "calib.txt")
    FuzzFiles.shared.write(name, Array(bytes.dropFirst()))
    FuzzFiles.shared.write(other, isCalibration ? plainMetadata : Array("365.2 365.2 240 180\n".utf8))
    let entries = [TakeInputs.Entry(path: "calib.txt", role: .calibration), TakeInputs.Entry(path: SessionMetadata.name, role: .metadata)]
    let folder = try SessionFolder(TakeInputs(root: FuzzFiles.shared.path, entries: entries))
    let notes = FindingCollector()
    let metadata = try SessionMetadata(folder, limit: limit, notes: notes)
    let camera = try SessionCamera(folder, metadata, notes)
    _ = camera.camera(for: ImageSize(width: 480, height: 360))
    // What goes into the record reads back from it.
    let record = JSONValue.object(metadata.declared.merging(camera.json) { own, _ in own })
    expect(
      must("the record") { try JSONReader(record.canonicalBytes).value() }.canonicalBytes == record.canonicalBytes, "the record changes")
    _ = (metadata.unknownKeys, metadata.count("rgbFrameCount", "frameCount"), metadata.needsSLAM)
  }

  private static let plainMetadata = Array(
    #"{"cameraIntrinsics":{"cx":240,"cy":180,"fx":365,"fy":365},"rgbResolution":[480,360]}"#.utf8)

  /// The first two bytes are the declared size, the rest a depth map.
  private static let depthMap = FuzzTarget("depth-map") { bytes in
    guard bytes.count >= 2 else { return }
    let map = Array(bytes.dropFirst(2))
    for declared in [nil, ImageSize(width: Int(bytes[0]) + 1, height: Int(bytes[1]) + 1)] {
      for format in DepthFormat.candidates(bytes: map.count, declared: declared) {
        guard format.fileBytes == map.count else { continue }
        var meters = map
        format.decode(&meters)
        expect(meters.count == format.size.width * format.size.height * 4, "a map of \(meters.count) bytes, \(format.size)")
        _ = DepthFormat.isPlausible(meters)
      }
    }
  }
}
