import Model
import Testing

@testable import Exports

@Suite struct CameraPathTests {
  /// Poses at 0, 10, 20, 30, 40 and, after a gap, 80 ms; the third row has none. The camera moves 1 m each 10 ms.
  private func path() throws -> CameraPath {
    let milliseconds: [Int64] = [0, 10, 20, 30, 40, 80]
    let times = milliseconds.map { Timestamp(nanoseconds: $0 * 1_000_000) }
    let poses = milliseconds.map { Pose(position: [Double($0) / 10, 0, 0], quaternion: [0, 0, 0, 1]) }
    var stream = SampleStream(
      spec: StreamSpec(kind: .pose(.slam(unit: .meters)), type: .float32, shape: [7], unit: "m", clock: .deviceUptime),
      source: VectorSource(poses), timestamps: times, sourceIndex: poses.indices.map { Int64($0) })
    stream.rows = poses.indices.map { $0 == 2 ? nil : Row($0) }
    let episode = Episode(
      id: "a", sourceFrames: 6,
      frames: Episode.Frames(timestamps: times, sourceIndex: poses.indices.map { Int64($0) }, clock: .deviceUptime),
      streams: [.pose: stream])
    return try #require(try CameraPath(ExportedEpisode("a", open: episode)))
  }

  @Test(arguments: [(0.0, 0, 0.0), (10, 1, 1), (4, 0, 0.4), (4, 1, 0.4), (33, 4, 3.3), (33, 0, 3.3), (80, 5, 8), (40, 5, 4)])
  func posesAreInterpolatedBetweenTheRowsAroundATime(_ milliseconds: Double, _ row: Int, _ x: Double) throws {
    let pose = try #require(try path().pose(at: Timestamp(nanoseconds: Int64(milliseconds * 1e6)), of: row))
    #expect(abs(pose.position.x - x) < 1e-6)
  }

  /// Before the first row, after the last, next to a row without a pose, and in a gap.
  @Test(arguments: [(-1, 0), (81, 5), (20, 2), (15, 1), (25, 3), (60, 4), (60, 5)])
  func otherTimesHaveNone(_ milliseconds: Int, _ row: Int) throws {
    #expect(try path().pose(at: Timestamp(nanoseconds: Int64(milliseconds) * 1_000_000), of: row) == nil)
  }
}
