import Model
import Testing
import TestSupport

@testable import Readers

@Suite struct IntrinsicsCheckTests {
  private let size = ImageSize(width: 640, height: 480)

  private func codes(_ usual: Intrinsics, moments: [Intrinsics] = [], size: ImageSize? = nil) -> [String] {
    var episode = SyntheticEpisode().episode
    let track = IntrinsicsTrack(
      usual, moments: moments.enumerated().map { .init(time: Timestamp(nanoseconds: Int64($0.offset)), intrinsics: $0.element) })
    episode.cameras[.phone] = Camera(size: size ?? self.size, intrinsicsTrack: track, pose: .pose)
    return IntrinsicsCheck.findings(episode).map { "\($0.severity.rawValue) \($0.code.rawValue)" }
  }

  private let good = Intrinsics(fx: 533, fy: 533, cx: 321, cy: 242)

  @Test func acceptsThoseOfPhones() {
    #expect(codes(good).isEmpty && codes(good, moments: [good, good]).isEmpty)
    // Telephoto and ultra-wide, and upright images.
    #expect(codes(Intrinsics(fx: 1150, fy: 1150, cx: 320, cy: 240)).isEmpty)
    #expect(codes(Intrinsics(fx: 190, fy: 190, cx: 320, cy: 240)).isEmpty)
    #expect(codes(Intrinsics(fx: 533, fy: 533, cx: 242, cy: 321), size: size.transposed).isEmpty)
  }

  @Test(arguments: [
    Intrinsics(fx: 1600, fy: 1600, cx: 962, cy: 726), Intrinsics(fx: 533, fy: 533, cx: 641, cy: 240),
    Intrinsics(fx: 533, fy: 533, cx: 320, cy: -1), Intrinsics(fx: 1600, fy: 1600, cx: 320, cy: 240),
    Intrinsics(fx: 100, fy: 100, cx: 320, cy: 240),
    // For images of three quarters of the size, of four thirds, and of twice.
    Intrinsics(fx: 400, fy: 400, cx: 240, cy: 180), Intrinsics(fx: 710, fy: 710, cx: 427, cy: 320),
    Intrinsics(fx: 1066, fy: 1066, cx: 640, cy: 480),
  ]) func reportsThoseOfOtherImages(intrinsics: Intrinsics) {
    #expect(codes(intrinsics) == ["warning intrinsics-implausible"])
    #expect(codes(good, moments: [good, intrinsics, intrinsics]) == ["warning intrinsics-implausible"])
  }

  @Test func aTakeWithoutIntrinsicsHasNoFinding() {
    var episode = SyntheticEpisode().episode
    episode.cameras[.phone]?.intrinsicsTrack = nil
    #expect(IntrinsicsCheck.findings(episode).isEmpty)
    #expect(IntrinsicsCheck.findings(SyntheticEpisode().episode).isEmpty)
  }
}
