import Evidence
import Model
import Testing

@testable import Datasets
@testable import Readers

@Suite struct RecallTests {
  /// The record of a take with a video of another count than its rows, as the app's had for Takeset 0.2.0.
  private func record(_ change: (inout TakeRecord) -> Void = { _ in }) -> TakeRecord {
    var record = TakeRecord(id: "scan", reader: "stray-scanner", outcome: .written, findings: [Finding(.movieCountMismatch, "59 and 60")])
    record.details = ["movie_pairing": "number"]
    record.streams = [TakeRecord.StreamRecord(name: .imu, samples: 9, rateHz: 100, clock: .deviceUptime)]
    change(&record)
    return record
  }

  private func sentences(_ records: TakeRecord...) -> [String] {
    var recall = Recall()
    for record in records { recall.add(record) }
    return recall.sentences
  }

  @Test func namesTheTakesOfAnEarlierVersion() throws {
    let found = sentences(record(), record { $0.id = "other" })
    #expect(found.count == 2 && found.allSatisfy { $0.contains("other, scan") && $0.contains("--replace") })
    #expect(found[0].contains("pose of the frame before") && found[1].contains("m/s^2"))
  }

  /// Records are recognized by what the reader writes today.
  @Test func knowsTheNamesThatTheReaderUses() {
    #expect(StrayScanner.name == "stray-scanner" && StrayScanner.firstRowKey == "movie_first_row")
    #expect(StrayScanner.accelerationKey == "acceleration_unit")
  }

  @Test func saysNothingOfOthers() {
    #expect(sentences().isEmpty)
    #expect(sentences(record { $0.reader = "stack-session" }).isEmpty && sentences(record { $0.outcome = .failed }).isEmpty)
    // As this version writes them.
    #expect(
      sentences(record { $0.details = ["movie_pairing": "number", "movie_first_row": 1, "acceleration_unit": "g"] }).isEmpty)
    #expect(sentences(record { $0.details = ["movie_pairing": "time", "movie_first_row": .null, "acceleration_unit": "g"] }).isEmpty)
  }

  @Test func aVideoWithAFrameForEachRowWasPairedRight() {
    let found = sentences(record { $0.findings = [] })
    #expect(found.count == 1 && found[0].contains("m/s^2"))
    #expect(sentences(record { ($0.findings, $0.streams) = ([], []) }).isEmpty)
    #expect(sentences(record { ($0.details, $0.streams) = (nil, []) }).isEmpty)
  }
}
