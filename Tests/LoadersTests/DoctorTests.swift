import Foundation
import HDF5
import Model
import Testing
import TestSupport

@testable import Loaders
@testable import Runs

@Suite struct DoctorTests {
  private let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  // MARK: Rules

  @Test func everyCodeBelongsToALoader() {
    for code in DiagnosisCode.allCases { #expect(!DiagnosisPage(code).entries.isEmpty, "\(code.rawValue)") }
  }

  /// The lines of remedies are steps and a writer that a pipeline file can have.
  @Test(arguments: Loader.allCases) func remediesAreLinesOfPipelineFiles(loader: Loader) throws {
    for rule in loader.rules {
      let steps = rule.remedy.steps.map { "  - \($0)\n" }.joined()
      let writer = rule.remedy.writer.map { "writer: {\($0)}\n" } ?? ""
      #expect(throws: Never.self, "\(rule.code.rawValue)") {
        try PipelineFile.parse("version: 1\nreader: auto\ntransforms:\n  - align\n\(steps)\(writer)")
      }
    }
  }

  @Test(arguments: Loader.allCases) func sentencesAreClausesThatJoin(loader: Loader) {
    for rule in loader.rules {
      #expect(!rule.consequence.isEmpty && rule.consequence.last != "." && rule.consequence.first != " ")
      #expect(!rule.remedy.sentence.isEmpty && rule.remedy.sentence.last != ".")
      #expect(rule.code.meaning.last == ".")
    }
  }

  @Test func aDiagnosisNamesTheEpisodesAndTheRemedy() {
    var episodes = ["a", "b", "c", "d", "e"].map { EpisodeMeasurements(id: $0, failure: "it is gone") }
    episodes[4].failure = nil
    let examined = Examined(episodes: episodes, window: 10, dataset: "set/")
    let doctor = Doctor(examined, for: .robomimic)
    let unreadable = doctor.diagnoses.first
    #expect(unreadable?.code == .episodeUnreadable && !doctor.isReady)
    #expect(unreadable?.message == "a, b, c and 1 more cannot be read: the first because it is gone; the loader stops there")
    #expect(unreadable?.episodes == ["a", "b", "c", "d"])
    #expect(unreadable?.remedy.text == "see what changed, and make these episodes again: `takeset verify set/`")
    let severities = doctor.diagnoses.map { $0.severity }
    #expect(severities == severities.sorted())
  }

  @Test func nothingIsSaidOfADatasetWithoutEpisodesButThatItIsEmpty() {
    for loader in Loader.allCases {
      let doctor = Doctor(Examined(episodes: [], emptyMasks: ["valid"], window: 10, dataset: "set"), for: loader)
      #expect(doctor.diagnoses.map(\.code) == [.noEpisodes])
    }
  }

  // MARK: Times

  private func times(_ nanoseconds: [Int64], nominalRate: Double? = nil) -> TimeMeasurements {
    TimeMeasurements(nanoseconds.map { Timestamp(nanoseconds: $0) }, nominalRate: nominalRate)
  }

  @Test func aUniformGridHasNoUnevenStep() {
    let measured = times((0..<300).map { Int64((Double($0) * 1e9 / 60).rounded()) })
    #expect(abs((measured.rate ?? 0) - 60) < 1e-6 && measured.unevenSteps == 0 && measured.gaps == 0 && measured.steps == 299)
    #expect(measured.offGrid < 1e-6)
  }

  @Test func stepsOfAGapAreNotUneven() {
    var stamps = (0..<50).map { Int64($0) * 20_000_000 }
    for row in 25..<50 { stamps[row] += 100_000_000 }
    let measured = times(stamps)
    #expect(measured.gaps == 1 && measured.unevenSteps == 0 && measured.steps == 48)
    #expect(abs(measured.longestStep - 0.12) < 1e-9 && measured.offGrid < 1e-6)
  }

  @Test func jitterAndDriftAreMeasured() {
    let jittering = times((0..<50).map { Int64($0) * 20_000_000 + ($0 % 2 == 0 ? 0 : 3_000_000) })
    #expect(jittering.unevenSteps == jittering.steps && abs(jittering.offGrid - 0.15) < 1e-6)
    // One in a thousand faster than 50 Hz: a tenth of a row off after 100 rows.
    let drifting = times((0..<201).map { Int64((Double($0) * 20_000_000 * 1.001).rounded()) })
    #expect(drifting.unevenSteps == 0 && abs(drifting.offGrid - 0.2) < 1e-3)
  }

  @Test func fewRowsHaveNoRate() {
    for count in 0..<2 {
      let measured = times((0..<count).map { Int64($0) })
      #expect(measured.rate == nil && measured.steps == 0 && measured.gaps == 0)
    }
  }

  // MARK: Arrays

  /// Passes a dataset of floats in a file to `body`.
  private func withFile<Result>(
    _ values: [Float], _ dims: [Int], _ attributes: [String: String], _ body: (HDF5Array) throws -> Result
  ) throws -> Result {
    let path = directory.path + "/\(UUID().uuidString).h5"
    let file = try File.create(at: path)
    let dataset = try file.root.createDataset("values", Layout(type: .float32, dims: dims))
    try values.withUnsafeBytes { try dataset.write($0) }
    for (key, value) in attributes { try dataset.setAttribute(key, value) }
    try file.close()
    let opened = try File.open(path)
    defer { try? opened.close() }
    return try body(opened.root.dataset("values"))
  }

  @Test func masksAndNaNAreCountedAndLeftOutOfTheColumns() throws {
    let values: [Float] = [1, 10, .nan, 20, 0, 0, 3, .infinity]
    let array = try withFile(values, [4, 2], ["kind": "vector", "unit": "m"]) {
      try ArrayMeasurements("numbers", $0, mask: [1, 1, 0, 1], digests: nil)
    }
    #expect(array.rows == 4 && array.shape == [2] && array.notFinite == 2 && array.masked == 1 && array.unit == "m")
    // The third row is masked: its zeros are nobody's.
    #expect(array.columns.map(\.min) == [1, 10] && array.columns.map(\.max) == [3, 20] && array.columns.map(\.count) == [2, 2])
    #expect(array.columnNames == ["column 0", "column 1"])
  }

  @Test func columnsHaveTheNamesOfTheParts() throws {
    let array = try withFile([0, 1, 2, 3], [1, 4], ["kind": "action", "parts": "relative_position:3 gripper:1"]) {
      try ArrayMeasurements("actions", $0, mask: nil, digests: nil)
    }
    #expect(array.columnNames == ["relative_position 0", "relative_position 1", "relative_position 2", "gripper"])
  }

  @Test func aLongArrayIsReadInBlocks() throws {
    let values = (0..<400_000).map { Float($0 % 1000) }
    let array = try withFile(values, [100_000, 4], ["kind": "vector"]) { try ArrayMeasurements("long", $0, mask: nil, digests: nil) }
    #expect(array.columns.map(\.count) == [100_000, 100_000, 100_000, 100_000])
    #expect(array.columns.map(\.min) == [0, 1, 2, 3] && array.columns.map(\.max) == [996, 997, 998, 999])
  }

  @Test func posesAreMeasured() throws {
    // A turn about z of 0.01 per row; row 3 has the wrong sign, row 5 the wrong length, and rows 7 and 8 repeat row 6.
    var rows = (0..<10).map { row -> [Float] in
      let half = 0.005 * Float(row)
      return [0.001 * Float(row), 0, 0, 0, 0, sin(half), cos(half)]
    }
    rows[3] = rows[3].enumerated().map { $0 < 3 ? $1 : -$1 }
    rows[5] = rows[5].enumerated().map { $0 < 3 ? $1 : 1.5 * $1 }
    (rows[7], rows[8]) = (rows[6], rows[6])
    rows[9][0] += 1
    let attributes = ["kind": "pose", "unit": "m", "camera_axes": "x right, y up, z back"]
    let stamps = rows.indices.map { Timestamp(nanoseconds: Int64($0) * 20_000_000) }
    let poses = try withFile(rows.flatMap(\.self), [10, 7], attributes) {
      try PoseMeasurements($0, at: stamps, quality: Array(repeating: [], count: 2) + [.poseInterpolated])
    }
    #expect(poses.badNorms == 1 && abs(poses.worstNorm - 1.5) < 1e-6)
    // To the wrong sign and back.
    #expect(poses.flips == 2)
    #expect(poses.repeated == 3 && poses.interpolated == 1 && poses.jumps >= 1)
    #expect(poses.axes == "x right, y up, z back" && poses.body == nil && abs(poses.extent - 1.009) < 1e-5)
  }
}
