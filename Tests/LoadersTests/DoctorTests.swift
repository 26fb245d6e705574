import Foundation
import HDF5
import Model
import Testing
import TestSupport

@testable import Datasets
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

  // MARK: Values

  /// An episode of which only these arrays are known.
  private func episode(_ id: String, _ observations: [ArrayMeasurements] = [], actions: ArrayMeasurements? = nil) -> EpisodeMeasurements {
    var episode = EpisodeMeasurements(id: id, failure: "")
    (episode.failure, episode.actions, episode.rows) = (nil, actions, (observations + [actions].compactMap(\.self)).first?.rows ?? 0)
    episode.observations = Dictionary(uniqueKeysWithValues: observations.map { ($0.name, $0) })
    return episode
  }

  private func diagnoses(_ code: DiagnosisCode, of episodes: [EpisodeMeasurements], for loader: Loader) -> [Diagnosis] {
    Doctor(Examined(episodes: episodes, window: 1, dataset: "set"), for: loader).diagnoses.filter { $0.code == code }
  }

  @Test func columnsOfRotationsMayHaveASmallSpread() throws {
    // Every column has a standard deviation of about 0.001, which ACT clips.
    func actions(_ parts: String, _ width: Int) throws -> ArrayMeasurements {
      let values = (0..<4).flatMap { row in [Float](repeating: 0.001 * Float(row), count: width) }
      return try withFile(values, [4, width], ["kind": "action", "parts": parts]) {
        try ArrayMeasurements("actions", $0, mask: nil, digests: nil)
      }
    }
    let both = episode("a", actions: try actions("relative_position:3 relative_rotation_6d:6", 9))
    let found = diagnoses(.spreadClipped, of: [both], for: .aloha)
    #expect(found.count == 1)
    let columns = (0..<3).map { "relative_position \($0)" }.joined(separator: ", ")
    #expect(found.first?.message.hasPrefix("\(columns) of actions have a standard deviation of 0.00") == true)
    let rotations = episode("a", actions: try actions("delta_rotation_vector:3", 3))
    #expect(diagnoses(.spreadClipped, of: [rotations], for: .aloha).isEmpty)
  }

  /// The number of repeats in 300 rows, and the longest run.
  @Test(arguments: [(3, 2, false), (4, 2, true), (2, 3, true)]) func moreThanAHundredthOfRepeatedImagesIsFound(
    repeats: Int, longest: Int, isFound: Bool
  ) throws {
    var image = try withFile([0], [1, 1], ["kind": "image"]) { try ArrayMeasurements("camera_image", $0, mask: nil, digests: nil) }
    (image.rows, image.repeats, image.longestRepeat) = (300, repeats, longest)
    let found = diagnoses(.imagesRepeated, of: [episode("a", [image])], for: .robomimic)
    #expect(found.map(\.episodes) == (isFound ? [["a"]] : []))
    if isFound { #expect(found[0].message.hasPrefix("\(repeats) of 300 rows of a have the same camera_image as the row before")) }
  }

  // MARK: Episodes

  /// Writes an episode as a shard, and measures it.
  private func measured(_ episode: Episode) throws -> EpisodeMeasurements {
    let path = directory.path + "/\(UUID().uuidString).h5"
    let writer = HDF5Writer()
    let shard = try writer.open(episode, identity: ShardIdentity(reader: "test", toolVersion: "test", pipelineDigest: ""), at: path)
    let worker = try shard.makeWorker()
    for block in writer.blocks(episode).blocks.indices { try worker.prepare(block).store() }
    _ = try shard.close()
    try shard.publish()
    let file = try File.open(path)
    defer { try? file.close() }
    return try EpisodeMeasurements(file.root, demo: ShardNames.demo)
  }

  /// An episode of images, and poses if asked for, 100 ms apart.
  private func recording(rows: Int, hasPoses: Bool) -> Episode {
    var episode = SyntheticEpisode(times: (0..<rows).map { Int64($0) * 100_000_000 }).episode
    for name in [StreamName.depth, .joints, .imu] + (hasPoses ? [] : [.pose]) { episode.streams[name] = nil }
    if !hasPoses { episode.cameras = [:] }
    return episode
  }

  @Test func confidenceIsNoObservationOfALoader() throws {
    var episode = recording(rows: 4, hasPoses: true)
    let without = try measured(episode)
    let raster = Raster(size: ImageSize(width: 4, height: 3), covering: ImageSize(width: 8, height: 6))
    episode.streams[.confidence] = SampleStream(
      spec: StreamSpec(raster: raster, kind: .confidence, type: .uint8, channels: 1, unit: "0..2", clock: .deviceUptime),
      source: CountingSource((0..<4).map { _ in [UInt8](repeating: 2, count: 12) }), timestamps: episode.frames.timestamps,
      sourceIndex: episode.frames.sourceIndex, rows: (0..<4).map { Row($0) })
    let with = try measured(episode)
    #expect(with.observations.keys.sorted() == ["camera_image", "pose"])
    // So it is no key that the other episode lacks.
    #expect(diagnoses(.keyMissing, of: [without, with], for: .robomimic).isEmpty)
  }

  @Test(arguments: [true, false]) func episodesOfAFewEqualRowsAreNoCopies(hasPoses: Bool) throws {
    for (rows, areCopies) in [(9, false), (10, true)] {
      let first = try measured(recording(rows: rows, hasPoses: hasPoses))
      var second = first
      second.id = "copy"
      #expect((first.poses != nil) == hasPoses && first.rows == rows)
      let found = diagnoses(.duplicateContent, of: [first, second], for: .robomimic)
      #expect(found.map(\.episodes) == (areCopies ? [["copy", "synthetic"]] : []), "\(rows) rows")
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
  @Test(arguments: [(1.0005, 0), (0.9995, 0), (1.005, 2), (0.995, 2)]) func aQuaternionsLengthMayBeOffByAThousandth(
    norm: Double, bad: Int
  ) throws {
    let stamps = (0..<2).map { Timestamp(nanoseconds: $0 * 20_000_000) }
    let poses = try withFile([0, 0, 0, 0, 0, 0, Float(norm), 0, 0, 0, Float(norm), 0, 0, 0], [2, 7], ["kind": "pose", "unit": "m"]) {
      try PoseMeasurements($0, at: stamps, quality: [])
    }
    #expect(poses.badNorms == bad && abs(poses.worstNorm - (bad > 0 ? norm : 1)) < 1e-6)
  }

  @Test func anImageThatCouldNotBeDecodedIsNotRepeated() throws {
    let path = directory.path + "/digests.h5"
    let file = try File.create(at: path)
    let images = try file.root.createDataset("images", Layout(type: .uint8, dims: [5, 1, 1, 3]))
    try images.setAttribute("kind", "image")
    try [UInt8](repeating: 0, count: 15).withUnsafeBytes { try images.write($0) }
    // All are black, and the second one only because it could not be decoded.
    let digests = try file.root.createDataset("digests", Layout(type: .uint8, dims: [5, 32]))
    try [UInt8](repeating: 7, count: 160).withUnsafeBytes { try digests.write($0) }
    try file.close()
    let opened = try File.open(path)
    defer { try? opened.close() }
    func measured(_ mask: [UInt8]?) throws -> [Int] {
      let array = try ArrayMeasurements("images", opened.root.dataset("images"), mask: mask, digests: opened.root.dataset("digests"))
      return [array.repeats, array.longestRepeat]
    }
    #expect(try measured(nil) == [4, 5])
    #expect(try measured([1, 0, 1, 1, 1]) == [2, 3])
  }
}
