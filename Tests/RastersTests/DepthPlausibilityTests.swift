import Model
import Testing
import TestSupport

@testable import Rasters

@Suite struct DepthPlausibilityTests {
  private let room = (0..<1000).map { 0.4 + Float($0) / 200 }

  @Test func acceptsWhatPhonesMeasure() {
    #expect(DepthPlausibility.finding(room) == nil && DepthPlausibility.finding([]) == nil)
    // The sky, and a table from near.
    #expect(
      DepthPlausibility.finding(room + Array(repeating: 60, count: 400)) == nil && DepthPlausibility.finding(room.map { $0 / 10 }) == nil)
  }

  @Test func anotherUnitIsSaid() {
    for factor: Float in [1000, 0.001, 100] { #expect(DepthPlausibility.finding(room.map { $0 * factor })?.code == .depthSuspicious) }
  }

  @Test func theOtherByteOrderIsSaid() {
    let swapped = room.map { Float(bitPattern: $0.bitPattern.byteSwapped) }.filter { $0 > 0 }
    #expect(DepthPlausibility.finding(swapped)?.code == .depthSuspicious)
  }

  @Test func mapsWithoutADepthAreSaidAndOneOfManyIsNot() throws {
    var episode = SyntheticEpisode(times: (0..<40).map { $0 * 16_666_667 }).episode
    func finding(_ depth: (Int) -> Float) throws -> Finding? {
      var stream = try #require(episode.streams[.depth])
      stream.source = CountingSource(stream.timestamps.indices.map { floats([Float](repeating: depth($0), count: 12)) })
      stream.rows = stream.timestamps.indices.rows
      episode.streams[.depth] = stream
      return DepthPlausibility.finding(episode)
    }
    let empty = try finding { _ in 0 }
    #expect(empty?.code == .depthSuspicious && empty?.message.contains("of 20 of its depth maps none") == true)
    // None of the three that are looked at first has one.
    #expect(try finding { $0 == 7 ? 2 : 0 } == nil)
  }

  @Test func depthsOfPosesAreInMetersToo() {
    var episode = SyntheticEpisode().episode
    let times = episode.frames.timestamps
    episode.streams = [
      .depthPoint: SampleStream(
        spec: StreamSpec(kind: .vector, type: .float32, shape: [1], unit: "m", clock: .deviceUptime),
        source: VectorSource(width: 1, values: times.map { _ in 1400 }), timestamps: times, sourceIndex: times.indices.map { Int64($0) },
        rows: times.indices.rows)
    ]
    #expect(DepthPlausibility.finding(episode)?.code == .depthSuspicious)
  }
}
