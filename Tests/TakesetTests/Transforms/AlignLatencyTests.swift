import Model
import TestSupport
import Testing

@testable import Takeset

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
