import Model
import Testing
import TestSupport

@testable import Exports

@Suite struct DepthUnprojectorTests {
  /// What becomes of a map of two values, side by side or one above the other.
  private func counts(_ meters: [Float], _ size: ImageSize) throws -> FusionCounts {
    var episode = SyntheticEpisode().episode
    episode.streams[.depth] = SampleStream(
      spec: StreamSpec(
        raster: Raster(size: size, covering: ImageSize(width: 8, height: 6)), kind: .depth, type: .float32, channels: 1, unit: "m",
        clock: .deviceUptime),
      source: CountingSource([floats(meters)]), timestamps: [episode.frames.timestamps[0]], sourceIndex: [0],
      rows: [Row(0)] + [Row?](repeating: nil, count: episode.frames.count - 1))
    var unprojector = try DepthUnprojector(
      ExportedEpisode("a", open: episode), depth: .depth, confidence: nil, image: nil, FusionSettings(voxel: 0.01, edge: 0.5))
    return try unprojector.unproject(
      PosedDepthMap(
        row: 0, pose: Pose(position: .zero, quaternion: [0, 0, 0, 1]), intrinsics: Intrinsics(fx: 8, fy: 8, cx: 1, cy: 1)))
  }

  /// A step of 0.75 m is more than half of the nearer value, and less than half of the farther one.
  @Test(arguments: [ImageSize(width: 2, height: 1), ImageSize(width: 1, height: 2)])
  func bothSidesOfAnEdgeAreComparedWithTheNearer(_ size: ImageSize) throws {
    for meters: [Float] in [[1, 1.75], [1.75, 1]] { #expect(try counts(meters, size).edges == 2) }
    for meters: [Float] in [[1, 1.4], [1.4, 1], [1, 0]] { #expect(try counts(meters, size).edges == 0) }
  }
}
