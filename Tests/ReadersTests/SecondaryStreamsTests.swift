import Model
import Steps
import Testing
import TestSupport

@testable import Readers

@Suite struct SecondaryStreamsTests {
  /// An episode of 3 s at 30 Hz with a stream of this kind at these times in milliseconds.
  private func examined(
    _ kind: StreamKind, _ milliseconds: [Int64], clock: Clock = .deviceUptime, change: (inout Episode) -> Void = { _ in }
  )
    -> Episode
  {
    var episode = SyntheticEpisode(times: (0...90).map { Int64($0) * 33_333_333 }).episode
    let times = milliseconds.map { Timestamp(nanoseconds: $0 * 1_000_000) }
    let pose = episode.streams[.pose]
    episode.streams = [
      "other": SampleStream(
        spec: StreamSpec(kind: kind, type: .float32, shape: [6], unit: "m", clock: clock),
        source: VectorSource(width: 6, values: [Float](repeating: 0, count: 6 * times.count)), timestamps: times,
        sourceIndex: times.indices.map { Int64($0) })
    ]
    episode.streams[.pose] = pose
    change(&episode)
    SecondaryStreams.examine(&episode, TakeInputs(root: "/", entries: []))
    return episode
  }

  private func said(_ episode: Episode) -> [String] {
    #expect(episode.findings.allSatisfy { $0.field == "other" && $0.severity == .warning })
    return episode.findings.map { "\($0.code.rawValue) \($0.count ?? 0)" }
  }

  /// Times at a rate, without those in a range.
  private func times(_ period: Int64 = 10, _ range: ClosedRange<Int64> = 0...3000, without hole: Range<Int64> = 0..<0) -> [Int64] {
    range.filter { $0 % period == 0 && !hole.contains($0) }
  }

  @Test(arguments: [StreamKind.inertial, .vector, .image, .depth]) func soundStreamsHaveNoFinding(_ kind: StreamKind) {
    for found in [times(), times(100), times(10, 100...2800), times(10, -2000...9000)] { #expect(said(examined(kind, found)).isEmpty) }
  }

  @Test(arguments: [StreamKind.inertial, .vector, .image, .depth]) func holesAndEndsAreCounted(_ kind: StreamKind) {
    #expect(said(examined(kind, times(without: 1000..<2000))) == ["stream-incomplete 100"])
    #expect(said(examined(kind, times(10, 0...1000))) == ["stream-incomplete 200"])
    #expect(said(examined(kind, times(10, 1000...3000))) == ["stream-incomplete 100"])
    let all = examined(kind, times(10, 500...2500, without: 1000..<2000))
    #expect(said(all) == ["stream-incomplete 200"])
    #expect(
      all.findings[0].message.contains("begin 0.5 s after the first frame, and have 1 hole, of 1.01 s, and end 0.5 s before the last frame")
    )
  }

  @Test func aSecondCameraOfFewImagesASecondHasItsOwnMeasure() {
    #expect(said(examined(.image, times(100, without: 1000..<1100))).isEmpty)
    #expect(said(examined(.image, times(100, without: 1000..<1300))) == ["stream-incomplete 3"])
  }

  @Test func aLineForEachEventIsNoHole() {
    #expect(said(examined(.vector, [0, 10, 1500, 1510, 1900, 1905, 1910, 2500, 2501, 2502, 2503, 2504])).isEmpty)
    #expect(said(examined(.vector, [5])).isEmpty)
  }

  @Test func whatTheReaderKnowsIsSaidOnce() {
    let found = examined(.depth, times(10, 0...1000)) { $0.findings = [Finding(.depthMissing, "maps", count: 7)] }
    #expect(found.findings.map(\.code) == [.depthMissing])
    let limited = examined(.depth, times(10, 0...1000)) { $0.streams["other"]?.endsEarlier = true }
    #expect(said(limited).isEmpty)
  }

  @Test(arguments: [StreamKind.inertial, .vector, .depth]) func samplesOfAnotherTimeAreNotOnThatOfTheFrames(_ kind: StreamKind) {
    for start in [-5000, 3400, 1_772_355_601_000] as [Int64] {
      let found = examined(kind, kind == .vector ? times(10, start...(start + 500)) : [start, start + 10, start + 20])
      #expect(said(found) == ["samples-outside 0"])
      #expect((found.streams["other"]?.spec.clock == .deviceUptime) == (kind != .inertial))
    }
  }

  @Test func onAnotherClockDurationsAreCompared() {
    let start: Int64 = 1_772_355_601_000
    #expect(said(examined(.inertial, times(10, (start + 700)...(start + 2500)), clock: .phoneUnix)).isEmpty)
    #expect(said(examined(.inertial, times(10, start...(start + 1000)), clock: .phoneUnix)) == ["stream-incomplete 200"])
    #expect(
      said(examined(.inertial, times(10, start...(start + 3000), without: (start + 1000)..<(start + 2000)), clock: .phoneUnix)) == [
        "stream-incomplete 100"
      ])
  }

  @Test func tablesThatAReaderDoesNotReadAreNamed() {
    var episode = SyntheticEpisode().episode
    SecondaryStreams.examine(&episode, TakeInputs(root: "/", entries: [], ignored: ["notes/", "streams/"]))
    #expect(episode.findings.map { "\($0.severity.rawValue) \($0.code.rawValue) \($0.file ?? "")" } == ["warning input-ignored streams/"])
  }

  @Test func unixTimesAreAsExactAsTheyAreWritten() {
    func resolution(_ nanoseconds: [Int64?]) -> Int64? {
      Episode.UnixOrigin(
        start: Timestamp(nanoseconds: 5), listed: nanoseconds.map { $0.map { Timestamp(nanoseconds: $0) } }, on: .phoneUnix)?.resolution
    }
    #expect(resolution([1_771_446_000_123_000_000, nil, 1_771_446_000_130_000_000]) == 1_000_000)
    #expect(resolution([1_771_446_000_000_000_000, 1_771_446_001_000_000_000]) == 1_000_000_000)
    #expect(resolution([1_771_446_000_123_456_789]) == 1)
    #expect(Episode.UnixOrigin(start: Timestamp(nanoseconds: 5), listed: [], on: .mediaTime) == nil)
  }
}
