import Evidence
import Foundation
import Media
import Model

@testable import Readers
@testable import Steps

extension FuzzTarget {
  /// Files of Stray Scanner recordings.
  static let tables = [odometry, stray]

  private static let odometry = FuzzTarget("odometry", throws: TakeFailure.self) { bytes in
    let inputs = FuzzFiles.shared.inputs(OdometryFile.name, .poses, bytes)
    let file = try OdometryFile(inputs, 0, limit: 1 << 20, notes: FindingCollector())
    expect(isAscending(file.poses.entries.map(\.number)), "numbers of frames do not ascend")
    expect(isAscending(file.poses.entries.filter(\.isInOrder).map(\.timestamp)), "times of frames in order do not ascend")
    // The quick look at lines counts what the parser reads.
    var lines = 0
    try CSVFile(inputs, 0, limit: 1 << 20).forEachLine { _ in lines += 1 }
    expect(file.poses.entries.count < lines, "more rows than lines")
  }

  /// A recording of depth maps alone, in which the first byte selects the file: IMU, camera matrix, odometry, a depth map, a confidence.
  private static let stray = FuzzTarget("stray", throws: TakeFailure.self, Rejection.self) { bytes in
    guard let first = bytes.first else { return }
    let scan = Scan.shared
    let name = Scan.names[Int(first) % Scan.names.count]
    FuzzFiles.shared.write("scan/" + name, Array(bytes.dropFirst()))
    defer { FuzzFiles.shared.write("scan/" + name, scan.files[name] ?? []) }
    let take = Take(id: "scan", location: scan.location, inputs: scan.inputs())
    let episode = try StrayScanner().open(take)
    expect(isAscending(episode.frames.timestamps), "times of frames do not ascend")
    for stream in episode.streams.values { try readAll(stream) }
  }

  /// A small sound recording.
  private struct Scan: Sendable {
    static let shared = Scan()
    static let names = ["imu.csv", "camera_matrix.csv", "odometry.csv", "depth/000001.png", "confidence/000001.png"]

    var files: [String: [UInt8]] = [:]

    private init() {
      for folder in ["depth", "confidence"] {
        must("a folder") {
          try FileManager.default.createDirectory(
            atPath: FuzzFiles.shared.path + "/scan/" + folder, withIntermediateDirectories: true)
        }
      }
      var odometry = "timestamp, frame, x, y, z, qx, qy, qz, qw\n", imu = "timestamp, a_x, a_y, a_z, alpha_x, alpha_y, alpha_z\n"
      let size = ImageSize(width: 4, height: 3)
      for frame in 0..<3 {
        odometry += "\(100 + Double(frame) / 60), 00000\(frame), 0.\(frame), 0, 0, 0, 0, 0, 1\n"
        imu += "\(100 + Double(frame) / 60), 0.1, 9.81, 0, 0.01, 0, 0\n"
        files["depth/00000\(frame).png"] = must("a map") { try PNG.encodeGray([UInt8](repeating: 4, count: 24), bits: 16, size: size) }
        files["confidence/00000\(frame).png"] = must("a map") { try PNG.encodeGray([UInt8](repeating: 2, count: 12), bits: 8, size: size) }
      }
      files["odometry.csv"] = Array(odometry.utf8)
      files["imu.csv"] = Array(imu.utf8)
      files["camera_matrix.csv"] = Array("1440.0, 0.0, 960.0\n0.0, 1440.0, 720.0\n0.0, 0.0, 1.0\n".utf8)
      for (name, bytes) in files { FuzzFiles.shared.write("scan/" + name, bytes) }
    }

    var location: TakeLocation { TakeLocation(path: FuzzFiles.shared.path + "/scan", isDirectory: true) }

    func inputs() -> TakeInputs {
      let roles: [(String, TakeInputs.Role)] = [
        ("camera", .calibration), ("imu", .imu), ("odometry", .poses), ("depth", .depth), ("confidence", .confidence),
      ]
      let entries = files.keys.map { name in
        TakeInputs.Entry(path: name, role: roles.first { name.hasPrefix($0.0) }?.1 ?? .metadata)
      }
      return TakeInputs(root: location.path, entries: entries)
    }
  }
}
