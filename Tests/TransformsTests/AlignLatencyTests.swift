import Evidence
import Model
import Testing
import TestSupport

@testable import Datasets
@testable import Steps
@testable import Transforms

@Suite struct AlignLatencyTests {
  private func align(_ options: JSONValue, _ episode: Episode) throws -> Episode {
    try Options.decode(Align.self, over: options, at: "align").apply(to: episode)
  }

  private let times = (0..<6).map { Int64($0) * 20_000_000 }
  /// Frames, images and poses every 20 ms, depth every 40 ms, joints 3 ms after each frame.
  private func episode() -> Episode { SyntheticEpisode(times: times).episode }

  private func alignment(_ episode: Episode, _ name: StreamName) -> Episode.Alignment? {
    episode.alignments.first { $0.stream == name }
  }

  @Test func theLatencyIsSubtractedFromTheTimes() throws {
    let aligned = try align(["latency": ["joints": .number(0.003)], "tolerance": .number(0.002)], episode())
    let joints = try #require(aligned.streams[.joints])
    #expect(joints.timestamps.map(\.nanoseconds) == times)
    #expect(joints.rows == (0..<6).rows)
    #expect(joints.delay(of: Row(4), at: Timestamp(nanoseconds: times[4])) == 0)
    #expect(try align(["tolerance": .number(0.002)], episode()).streams[.joints]?.rows == Array(repeating: nil, count: 6))
  }

  @Test func aSensorMayBeEarlyToo() throws {
    let aligned = try align(["latency": ["joints": .number(-0.017)]], episode())
    let joints = try #require(aligned.streams[.joints])
    #expect(joints.timestamps.map(\.nanoseconds) == times.map { $0 + 20_000_000 })
    // The first frame has only a later sample.
    #expect(joints.rows == [0, 0, 1, 2, 3, 4].rows)
  }

  @Test func theRecordHasTheLatencyApartFromTheClocksOffset() throws {
    let latency: JSONValue = ["joints": .number(0.0123456789), "camera_image": 0, "imu": .number(-0.5)]
    let (plain, aligned) = (try align([:], episode()), try align(["latency": latency], episode()))
    #expect(alignment(aligned, .joints)?.latency == 12_345_679)
    #expect(alignment(aligned, .imu)?.latency == -500_000_000)
    for name in [StreamName.joints, .imu, .depth] {
      var expected = try #require(alignment(plain, name))
      #expect(expected.latency == nil)
      expected.latency = alignment(aligned, name)?.latency
      #expect(alignment(aligned, name) == expected)
    }
    #expect(alignment(aligned, .depth)?.latency == nil)
    // A latency of 0 is a statement too, and changes nothing.
    #expect(
      alignment(aligned, .image) == Episode.Alignment(stream: .image, method: "same-clock+nearest", offset: 0, residual: 0, latency: 0))
    #expect(alignment(aligned, .pose) == nil && alignment(plain, .image) == nil)
    var holed = episode()
    holed.streams[.image]?.rows?[2] = nil
    #expect(try align(["latency": ["camera_image": 0]], holed).streams[.image]?.rows == holed.streams[.image]?.rows)
    #expect(TakeRecord.Alignment(try #require(alignment(aligned, .imu))).json["latency_ns"] == "-500000000")
    #expect(TakeRecord.Alignment(try #require(alignment(aligned, .depth))).json["latency_ns"] == nil)
  }

  @Test func streamsThatCameWithTheFramesArePairedAgain() throws {
    let before = episode()
    let aligned = try align(["latency": ["camera_image": .number(0.021)], "tolerance": .number(0.019)], before)
    let image = try #require(aligned.streams[.image])
    #expect(image.timestamps.map(\.nanoseconds) == times.map { $0 - 21_000_000 })
    // Image 1 was taken at -1 ms; the last frame's nearest image is 21 ms before it.
    #expect(image.rows == [Row(1), Row(2), Row(3), Row(4), Row(5), nil])
    #expect(image.sourceIndex == before.streams[.image]?.sourceIndex)
    #expect(aligned.frames == before.frames && aligned.streams[.pose]?.rows == before.streams[.pose]?.rows)
    #expect(alignment(aligned, .image)?.latency == 21_000_000)
  }

  @Test func halfwayBetweenTwoFramesTheEarlierSampleIsTaken() throws {
    let aligned = try align(["latency": ["pose": .number(0.01)]], episode())
    // At -10, 10, 30 ms and so on; of two equally near, the earlier.
    #expect(aligned.streams[.pose]?.rows == [0, 1, 2, 3, 4, 5].rows)
    #expect(try align(["latency": ["pose": .number(0.010001)]], episode()).streams[.pose]?.rows == [1, 2, 3, 4, 5, 5].rows)
  }

  @Test func numbersAreInterpolatedAtTheMomentOfMeasurement() throws {
    var before = episode()
    before.streams[.joints]?.spec.kind = .vector
    let aligned = try align(["latency": ["joints": .number(0.008)], "method": "linear"], before)
    // Samples are at -5, 15, 35 ms and so on.
    let rows = try #require(aligned.streams[.joints]?.rows)
    #expect(rows == (0..<5).map { Row($0, towards: $0 + 1, by: 0.25) } + [nil])
  }

  @Test func aLatencyBeyondEverySampleLeavesNone() throws {
    let aligned = try align(["latency": ["joints": 10, "camera_depth": -10]], episode())
    #expect(aligned.streams[.joints]?.rows == Array(repeating: nil, count: 6))
    #expect(aligned.streams[.depth]?.rows == Array(repeating: nil, count: 6))
  }

  @Test func aTakeWithoutTheStreamIsAsWithoutTheOption() throws {
    let (plain, aligned) = (try align([:], episode()), try align(["latency": ["depth_point": 1]], episode()))
    #expect(aligned.alignments == plain.alignments)
    #expect(aligned.streams.mapValues(\.rows) == plain.streams.mapValues(\.rows))
    #expect(aligned.findings.map(\.code) == plain.findings.map(\.code) + [.optionUnused])
    #expect(aligned.findings.last?.field == "depth_point")
  }

  @Test func aFrameThatLosesItsPoseIsNoRow() throws {
    let aligned = try align(["latency": ["pose": .number(0.03)], "tolerance": .number(0.009)], episode())
    #expect(aligned.frames.count == 0 && aligned.dropped == [Episode.Dropped(reason: "pose-missing", count: 6)])
    // At -30, -10 and so on to 70 ms: the frames at 0 to 60 have one within 10 ms, and 80 at exactly 10.
    let some = try align(["latency": ["pose": .number(0.03)], "tolerance": .number(0.01)], episode())
    #expect(some.frames.sourceIndex == [0, 1, 2, 3, 4] && some.streams[.pose]?.rows == [1, 2, 3, 4, 5].rows)
    #expect(some.streams[.image]?.rows == [0, 1, 2, 3, 4].rows && some.streams[.joints]?.rows?.count == 5)
    #expect(some.dropped == [Episode.Dropped(reason: "pose-missing", count: 1)])
  }

  @Test func confidenceIsAsLateAsItsDepth() throws {
    var before = episode()
    before.streams[.confidence] = before.streams[.depth]
    before.streams[.confidence]?.spec.kind = .confidence
    let aligned = try align(["latency": ["camera_depth": .number(0.01)]], before)
    #expect(aligned.streams[.confidence]?.timestamps == aligned.streams[.depth]?.timestamps)
    #expect(aligned.streams[.confidence]?.timestamps.first?.nanoseconds == -10_000_000)
    #expect(alignment(aligned, .image) == nil && alignment(aligned, .joints)?.latency == nil)
    let own = try align(["latency": ["camera_depth": .number(0.01), "camera_depth_confidence": 0]], before)
    #expect(own.streams[.confidence]?.timestamps == before.streams[.confidence]?.timestamps)
    before.streams[.confidence]?.spec.raster?.camera = "wrist"
    let other = try align(["latency": ["camera_depth": .number(0.01)]], before)
    #expect(other.streams[.confidence]?.timestamps.first?.nanoseconds == 0)
  }

  @Test func intrinsicsAreThoseOfTheImageHoweverLateItIs() throws {
    var before = episode()
    let moments = times.enumerated().map { row, time in
      IntrinsicsTrack.Moment(
        time: Timestamp(nanoseconds: time), intrinsics: Intrinsics(fx: 8 + Double(row), fy: 8, cx: 4, cy: 3))
    }
    before.cameras[.phone]?.intrinsicsTrack = IntrinsicsTrack(Intrinsics(fx: 8, fy: 8, cx: 4, cy: 3), moments: moments)
    let aligned = try align(["latency": ["camera_image": .number(0.02)]], before)
    let image = try #require(aligned.streams[.image])
    #expect(image.rows == [1, 2, 3, 4, 5, 5].rows)
    #expect(image.rows?.map { aligned.intrinsics(of: image, at: $0)?.fx } == [9, 10, 11, 12, 13, 13])
  }

  @Test(
    arguments: [
      (["latency": ["joints": .number(10.001)]], "from -10 to 10 seconds, found 10.001 for joints"),
      (["latency": ["joints": .number(-10.001)]], "found -10.001"),
      (["latency": ["joints": 0], "reference-compatible": true], "the recorder's own loader knows none"),
    ] as [(JSONValue, String)]) func refuses(options: JSONValue, message: String)
  {
    let error = #expect(throws: PipelineFileError.self) { try Options.decode(Align.self, over: options, at: "align") }
    #expect(error?.path == "align.latency" && error?.message.contains(message) == true, "\(error?.message ?? "")")
  }
}
