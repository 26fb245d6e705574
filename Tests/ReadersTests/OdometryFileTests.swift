import Model
import Testing
import TestSupport

@testable import Readers
@testable import Steps

@Suite struct OdometryFileTests {
  /// The first row of a number counts, as it does for the pose.
  @Test func aRepeatedFrameKeepsTheIntrinsicsOfItsFirstRow() throws {
    let directory = try TemporaryDirectory()
    let header = "timestamp, frame, x, y, z, qx, qy, qz, qw, fx, fy, cx, cy"
    let rows = [(0, 1500), (1, 1501), (1, 1700)].enumerated().map { row, frame in
      "\(row).5, \(frame.0), 0, 0, \(row), 0, 0, 0, 1, \(frame.1), \(frame.1), 960, 720"
    }
    try directory.write(OdometryFile.name, Array(([header] + rows).joined(separator: "\n").utf8) + [0x0A])
    let inputs = TakeInputs(file: directory.path + "/" + OdometryFile.name, role: .poses)
    _ = try inputs.stamp()
    let file = try OdometryFile(inputs, 0, limit: 1 << 20, notes: FindingCollector())
    #expect(file.cameras.mapValues(\.fx) == [0: 1500, 1: 1501])
  }
}
