import Evidence
import Model
import Simulate
import Testing
import TestSupport

@testable import Datasets
@testable import Reports

@Suite struct TracedStepTests {
  /// Frames are 20 ms apart, ticks 10 ms.
  @Test func aTickMidwayBetweenTwoFramesIsTracedToTheEarlier() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/scan"
    var scan = SimulatedStrayScan()
    (scan.seconds, scan.hasMovie, scan.depthSize) = (0.1, false, ImageSize(width: 8, height: 6))
    try scan.write(to: path)
    let lines = String(decoding: try directory.read("scan/odometry.csv"), as: UTF8.self).split(separator: "\n")
    let timed = lines.dropFirst().enumerated().map { row, line in "100.\(10 + 2 * row)" + line.drop { $0 != "," } }
    try directory.write("scan/odometry.csv", Array(([String(lines[0])] + timed).joined(separator: "\n").utf8) + [0x0A])

    var record = TakeRecord(id: "scan", reader: "stray-scanner", outcome: .written, findings: [])
    record.steps = ["stray-scanner", "align", "resample"].map {
      TakeRecord.Step(name: $0, options: [:], framesIn: timed.count, framesOut: timed.count, dropped: [])
    }
    let pipeline: JSONValue = ["version": 1, "transforms": ["align", ["resample": ["rate": 100]]]]
    let take = try TracedTake(record, at: path, by: pipeline, from: nil, python: nil, keys: nil)
    func effects(_ row: Int) -> [String]? { TracedStep.all(record, take, row: row, stream: .pose).last?.effects?.map(\.text) }
    #expect(effects(1)?.first == "row 1 is a tick of the grid, 10 ms from row 0, the nearest frame")
    #expect(effects(2)?.first == "row 2 is a tick of the grid, 0 ms from row 1, the nearest frame")
    #expect(effects(3)?.first == "row 3 is a tick of the grid, 10 ms from row 1, the nearest frame")
  }
}
