import Model
import Testing
import TestSupport

@testable import Readers
@testable import Steps

@Suite struct OdometryFileTests {
  private static let header = "timestamp, frame, x, y, z, qx, qy, qz, qw, fx, fy, cx, cy"
  private static let row = ["0.5", "0", "0", "0", "0", "0", "0", "0", "1", "1500", "1500", "960", "720"]

  /// The table of these lines, each of which ends.
  private func table(_ lines: [String]) throws -> OdometryFile {
    let directory = try TemporaryDirectory()
    try directory.write(OdometryFile.name, lines.map { $0 + "\n" }.joined().utf8)
    let inputs = TakeInputs(file: directory.path + "/" + OdometryFile.name, role: .poses)
    _ = try inputs.stamp()
    return try OdometryFile(inputs, 0, limit: 1 << 20, notes: FindingCollector())
  }

  private func failure(_ lines: [String]) -> TakeFailure? { #expect(throws: TakeFailure.self) { try table(lines) } }

  /// The first row of a number counts, as it does for the pose.
  @Test func aRepeatedFrameKeepsTheIntrinsicsOfItsFirstRow() throws {
    let rows = [(0, 1500), (1, 1501), (1, 1700)].enumerated().map { row, frame in
      "\(row).5, \(frame.0), 0, 0, \(row), 0, 0, 0, 1, \(frame.1), \(frame.1), 960, 720"
    }
    let file = try table([Self.header] + rows)
    #expect(file.cameras.mapValues(\.fx) == [0: 1500, 1: 1501])
  }

  @Test(arguments: [
    (0, ["soon", "", "nan", "1e30", "1e400", ".5", "12-5", "0x10", "1_000", "81235.252.075954"]),
    (1, ["-1", "1.5", "seven", "", "99999999999999999999"]), (2, ["far"]), (3, [""]), (4, ["0x10"]), (5, ["0.1.2"]), (6, ["--1"]),
    (7, ["1 2"]), (8, ["\"1\"x"]), (9, ["wide"]), (12, ["60.25px"]),
  ]) func aFieldThatIsNoNumberIsNamed(place: Int, texts: [String]) {
    let column = Self.header.split(separator: ", ")[place]
    for text in texts {
      var fields = Self.row
      fields[1] = "1"
      fields[place] = text
      let found = failure([Self.header, Self.row.joined(separator: ", "), fields.joined(separator: ", ")])
      #expect(found?.code == .csvInvalid && found?.file == OdometryFile.name && found?.field == ", line 3, column \(column)", "\(text)")
    }
  }

  @Test(arguments: ["258528.5, 000006, 0.1, 0.2", "<html>", "258528.5; 000006; 0; 0; 0; 0; 0; 0; 1"])
  func aLineOfOtherColumnsIsNamed(line: String) {
    let rows = [Self.row.joined(separator: ", "), line, Self.row.joined(separator: ", ")]
    let found = failure([Self.header] + rows)
    #expect(found?.code == .csvInvalid && found?.field?.hasPrefix(", line 3, column ") == true)
  }

  @Test(arguments: [
    ("timestamp; frame; x; y; z; qx; qy; qz; qw", "timestamp"), ("frame, x, y, z, qx, qy, qz, qw", "timestamp"),
    ("timestamp, frame, x, y, z, qx, qy, qz", "qw"), ("timestamp, x, y, z, qx, qy, qz, qw", "frame"), ("a, b, c", "timestamp"),
    (OdometryFileTests.row.joined(separator: ", "), "timestamp"), ("\0\u{1}\u{2}", "timestamp"),
  ]) func aHeaderWithoutAColumnNamesIt(header: String, column: String) {
    let found = failure([header, Self.row.joined(separator: ", ")])
    #expect(found?.code == .csvInvalid && found?.field == ", line 1, column \(column)")
  }

  @Test(arguments: [[], [OdometryFileTests.header], ["timestamp, frame, x, y, z, qx, qy, qz, qw"]] as [[String]])
  func aTableWithoutRowsHasNoFrames(lines: [String]) {
    #expect(failure(lines)?.code == .noFrames)
  }
}
