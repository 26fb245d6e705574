import Media
import Model
import Simulate
import TestSupport
import Testing

@testable import Takeset

@Suite struct ResizeImageTests {
  @Test func scalesIntrinsicsWithTheImage() throws {
    var step = ResizeImage()
    (step.width, step.height) = (4, 3)
    let episode = try step.apply(to: SyntheticEpisode().episode)
    let stream = try #require(episode.streams[.image])
    #expect(stream.spec.shape == [3, 4, 3])
    #expect(episode.intrinsics(of: stream, at: Row(0)) == Intrinsics(fx: 4, fy: 4, cx: 2, cy: 1.5))
  }

  @Test func leavesSmallImagesAlone() throws {
    var step = ResizeImage()
    (step.width, step.height, step.whenLargerThan) = (4, 3, 8)
    #expect(try step.apply(to: SyntheticEpisode().episode).streams[.image]?.spec.shape == [6, 8, 3])
  }

  @Test func stretchesWhenAsked() throws {
    var step = ResizeImage()
    (step.width, step.height, step.mode) = (16, 6, .stretch)
    let episode = try step.apply(to: SyntheticEpisode().episode)
    let stream = try #require(episode.streams[.image])
    #expect(stream.spec.shape == [6, 16, 3])
    #expect(episode.intrinsics(of: stream, at: Row(0)) == Intrinsics(fx: 16, fy: 8, cx: 8, cy: 3))
  }
}
