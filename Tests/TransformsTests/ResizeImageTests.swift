import Media
import Model
import Simulate
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

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

  @Test(arguments: [(ResizeImage.Mode.fit, [12, 16, 3]), (.letterbox, [12, 20, 3])])
  func enlargesWhenAsked(mode: ResizeImage.Mode, shape: [Int]) throws {
    var step = ResizeImage()
    (step.width, step.height, step.mode) = (20, 12, mode)
    let small = try step.apply(to: SyntheticEpisode().episode)
    #expect(small.streams[.image]?.spec.shape == (mode == .fit ? [6, 8, 3] : [12, 20, 3]))
    step.enlarge = true
    let episode = try step.apply(to: SyntheticEpisode().episode)
    let stream = try #require(episode.streams[.image])
    #expect(stream.spec.shape == shape)
    // A letterbox moves the principal point by its bars.
    let bar = mode == .fit ? 0.0 : 2
    #expect(episode.intrinsics(of: stream, at: Row(0)) == Intrinsics(fx: 16, fy: 16, cx: 8 + bar, cy: 6))
  }

  @Test func onlyModesThatKeepASizeAreToldToEnlarge() {
    #expect(throws: OptionError.self) {
      var step = ResizeImage()
      (step.enlarge, step.mode) = (true, .cover)
      try step.validate()
    }
  }
}
