import Media
import Model
import Simulate
import TestSupport
import Testing

@testable import Takeset

@Suite struct DecimateTests {
  private func rows(_ milliseconds: [Int64], rate: Double) -> [Int] {
    Decimate.rows(of: milliseconds.map { Timestamp(nanoseconds: $0 * 1_000_000) }, at: rate)
  }

  @Test func keepsEveryNthFrameFromTheFirst() throws {
    var decimate = Decimate()
    decimate.every = 4
    let episode = try decimate.apply(to: SyntheticEpisode().episode)
    #expect(episode.frames.sourceIndex == [0, 4])
    #expect(episode.streams[.pose]?.rows == [0, 4].rows)
    #expect(episode.dropped == [Episode.Dropped(reason: "decimated", count: 4)])
  }

  /// Of every floor(frame rate / rate) frames the last, counted by the measured rate to the nearest whole one.
  @Test(arguments: [
    (120.0, 30.0, [3, 7, 11]), (240, 30, [7, 15, 23]), (119.98, 30, [3, 7, 11]), (60, 25, [1, 3, 5]), (30, 60, [0, 1, 2]),
  ])
  func countsAsTheAppDoes(frames: Double, rate: Double, expected: [Int64]) throws {
    var decimate = Decimate()
    decimate.rate = rate
    decimate.rule = .counter
    let episode = SyntheticEpisode(times: (0..<48).map { Int64((Double($0) * 1e9 / frames).rounded()) }).episode
    #expect(try Array(decimate.apply(to: episode).frames.sourceIndex.prefix(3)) == expected)
    decimate.rate = nil
    #expect(throws: OptionError.self) { try decimate.validate() }
  }

  @Test func keepsTheFrameNearestToEachTick() {
    // Ticks at 0, 100, 200, 300.
    #expect(rows([0, 40, 90, 130, 210, 260, 300], rate: 10) == [0, 2, 4, 6])
  }

  @Test func keepsEachFrameOnceAcrossAHole() {
    #expect(rows([0, 100, 900, 1000], rate: 10) == [0, 1, 2, 3])
  }

  @Test func keepsTheEarlierOfTwoEquallyNear() {
    #expect(rows([0, 50, 150, 200], rate: 10) == [0, 1, 3])
  }

  @Test func agreesWithASearchOfAllFrames() {
    var generator = SplitMix(seed: 7)
    for _ in 0..<50 {
      // Frames ascend, so no two are at the same time.
      let times = [0] + Set((0..<60).map { _ in Int64.random(in: 1...2_000_000, using: &generator) }).sorted()
      let stamps = times.map { Timestamp(nanoseconds: $0 * 1000) }
      let found = Decimate.rows(of: stamps, at: 30)
      var expected: Set<Int> = []
      var tick = 0.0
      while tick * 1e9 / 30 <= Double(times.last!) * 1000 {
        let time = tick * 1e9 / 30
        expected.insert(times.indices.min { abs(Double(times[$0]) * 1000 - time) < abs(Double(times[$1]) * 1000 - time) }!)
        tick += 1
      }
      // The grid may run half a period on past the last frame, which then stays.
      #expect(found.filter { $0 != times.count - 1 } == expected.sorted().filter { $0 != times.count - 1 })
      #expect(found == found.sorted())
    }
  }
}

@Suite struct ResampleDepthTests {
  @Test(arguments: [(256, 128), (4, 7), (3, 3), (5, 2)]) func takesThePixelUnderEachCentre(old: Int, new: Int) {
    let expected = (0..<new).map { Int(((Double($0) + 0.5) * Double(old) / Double(new)).rounded(.down)) }
    #expect(NearestPixels.nearest(from: old, to: new) == expected)
  }

  @Test func keepsHolesHolesAndNeverBlends() throws {
    let depth: [Float] = [1, 0, 3, 4, 0, 6, 7, 8, 9, 10, 11, 0]
    var episode = SyntheticEpisode().episode
    episode.streams[.depth]?.source = CountingSource([floats(depth)])
    episode.cameras[.phone]?.lens = Lens(
      Intrinsics(fx: 8, fy: 6, cx: 4, cy: 3),
      moments: [Lens.Moment(time: Timestamp(nanoseconds: 0), intrinsics: Intrinsics(fx: 8.8, fy: 6.6, cx: 4, cy: 3))])
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

@Suite struct ResizeImageTests {
  @Test func scalesIntrinsicsWithThePicture() throws {
    var step = ResizeImage()
    (step.width, step.height) = (4, 3)
    let episode = try step.apply(to: SyntheticEpisode().episode)
    let stream = try #require(episode.streams[.image])
    #expect(stream.spec.shape == [3, 4, 3])
    #expect(episode.intrinsics(of: stream, at: Row(0)) == Intrinsics(fx: 4, fy: 4, cx: 2, cy: 1.5))
  }

  @Test func leavesSmallPicturesAlone() throws {
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

@Suite struct SplitTests {
  private func split(_ valid: Double, _ test: Double = 0, seed: Int = 0) -> Split {
    var split = Split()
    (split.valid, split.test, split.seed) = (valid, test, seed)
    return split
  }

  @Test func neverDividesAGroup() {
    let groups = (0..<60).map { "day-\($0 % 12)" }
    let parts = split(0.2, 0.2).assign(groups)
    for group in Set(groups) {
      #expect(Set(zip(groups, parts).filter { $0.0 == group }.map(\.1)).count == 1)
    }
    #expect((10...14).contains(parts.count { $0 == .valid }))
    #expect((10...14).contains(parts.count { $0 == .test }))
  }

  @Test func givesAShareAboveZeroAtLeastOneGroupAndLeavesOneToTrainOn() {
    #expect(Set(split(0.01).assign(["a", "b"])) == [.train, .valid])
    #expect(split(0.9).assign(["a"]) == [.train])
    #expect(split(0.4, 0.4).assign(["a", "b"]).contains(.train))
  }

  @Test func givesNothingToAShareOfZero() { #expect(Set(split(0).assign(["a", "b", "c"])) == [.train]) }

  @Test func dependsOnTheSeedAndNotOnTheOrder() {
    let groups = (0..<40).map { "g\($0)" }
    let parts = Dictionary(uniqueKeysWithValues: zip(groups, split(0.5).assign(groups)))
    let reversed = Dictionary(uniqueKeysWithValues: zip(groups.reversed(), split(0.5).assign(groups.reversed())))
    #expect(parts == reversed)
    #expect(parts != Dictionary(uniqueKeysWithValues: zip(groups, split(0.5, seed: 1).assign(groups))))
  }
}
