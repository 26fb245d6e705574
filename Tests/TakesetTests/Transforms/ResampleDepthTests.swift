import Media
import Model
import Simulate
import TestSupport
import Testing

@testable import Takeset

@Suite struct ResampleDepthTests {
  @Test(arguments: [(256, 128), (4, 7), (3, 3), (5, 2)]) func takesThePixelUnderEachCenter(old: Int, new: Int) {
    let expected = (0..<new).map { Int(((Double($0) + 0.5) * Double(old) / Double(new)).rounded(.down)) }
    #expect(NearestPixels.nearest(from: old, to: new) == expected)
  }

  @Test func keepsHolesHolesAndNeverBlends() throws {
    let depth: [Float] = [1, 0, 3, 4, 0, 6, 7, 8, 9, 10, 11, 0]
    var episode = SyntheticEpisode().episode
    episode.streams[.depth]?.source = CountingSource([floats(depth)])
    episode.cameras[.phone]?.intrinsicsTrack = IntrinsicsTrack(
      Intrinsics(fx: 8, fy: 6, cx: 4, cy: 3),
      moments: [IntrinsicsTrack.Moment(time: Timestamp(nanoseconds: 0), intrinsics: Intrinsics(fx: 8.8, fy: 6.6, cx: 4, cy: 3))])
    var step = ResampleDepth()
    (step.width, step.height) = (8, 6)
    let resampled = try step.apply(to: episode)
    let stream = try #require(resampled.streams[.depth])
    #expect(stream.spec.shape == [6, 8, 1])
    #expect(resampled.camera(of: stream)?.usualIntrinsics(try #require(stream.spec.raster)) == Intrinsics(fx: 8, fy: 6, cx: 4, cy: 3))
    #expect(resampled.intrinsics(of: stream, at: Row(0)) == Intrinsics(fx: 8.8, fy: 6.6, cx: 4, cy: 3))
    #expect(resampled.intrinsics(of: stream, at: nil) == nil)
    var bytes: [UInt8] = []
    var cursor = try stream.source.makeCursor(SampleRequest())
    try cursor.read(0, into: &bytes)
    let expected = (0..<6).flatMap { y in (0..<8).map { x in depth[(y / 2) * 4 + x / 2] } }
    #expect(bytes == floats(expected))
  }
}
