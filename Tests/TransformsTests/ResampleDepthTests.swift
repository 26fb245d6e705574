import Model
import Testing
import TestSupport

@testable import Rasters
@testable import Steps
@testable import Transforms

@Suite struct ResampleDepthTests {
  @Test(arguments: [(256, 128), (4, 7), (3, 3), (5, 2)]) func takesThePixelUnderEachCenter(old: Int, new: Int) {
    let expected = (0..<new).map { Int(((Double($0) + 0.5) * Double(old) / Double(new)).rounded(.down)) }
    #expect(NearestPixels.nearest(from: old, to: new) == expected)
    #expect(ResampledAxis(old: old, new: new, scale: Double(old) / Double(new), offset: 0).nearest == expected)
  }

  @Test func keepsHolesHolesAndNeverBlends() throws {
    let depth: [Float] = [1, 0, 3, 4, 0, 6, 7, 8, 9, 10, 11, 0]
    var episode = SyntheticEpisode().episode
    episode.streams[.depth]?.source = CountingSource([floats(depth)])
    episode.cameras[.phone]?.intrinsicsTrack = IntrinsicsTrack(
      Intrinsics(fx: 8, fy: 6, cx: 4, cy: 3),
      moments: [IntrinsicsTrack.Moment(time: Timestamp(nanoseconds: 0), intrinsics: Intrinsics(fx: 8.8, fy: 6.6, cx: 4, cy: 3))])
    let resampled = try step { ($0.width, $0.height) = (8, 6) }.apply(to: episode)
    let stream = try #require(resampled.streams[.depth])
    #expect(stream.spec.shape == [6, 8, 1])
    #expect(resampled.camera(of: stream)?.usualIntrinsics(try #require(stream.spec.raster)) == Intrinsics(fx: 8, fy: 6, cx: 4, cy: 3))
    #expect(resampled.intrinsics(of: stream, at: Row(0)) == Intrinsics(fx: 8.8, fy: 6.6, cx: 4, cy: 3))
    #expect(resampled.intrinsics(of: stream, at: nil) == nil)
    let expected = (0..<6).flatMap { y in (0..<8).map { x in depth[(y / 2) * 4 + x / 2] } }
    #expect(try read(stream, 0) == floats(expected))
  }

  @Test func optionsThatContradictEachOtherAreRefused() throws {
    func mistake(_ change: (inout ResampleDepth) -> Void) -> String? {
      #expect(throws: OptionError.self) { try step(change).validate() }?.option
    }
    #expect(mistake { _ in } == "width")
    #expect(mistake { $0.method = .area } == "width")
    #expect(mistake { $0.width = 4 } == "width")
    #expect(mistake { $0.height = 4 } == "height")
    #expect(mistake { ($0.width, $0.height, $0.to) = (4, 4, .image) } == "to")
    for change in [
      { ($0.width, $0.height) = (4, 4) }, { $0.to = .image }, { $0.unit = .mm }, { $0.maxRange = 3 }, { $0.minConfidence = 1 },
    ] as [(inout ResampleDepth) -> Void] {
      try step(change).validate()
    }
  }

  @Test func leavesAStreamAloneThatNothingChanges() throws {
    let episode = withConfidence()
    for change in [
      { $0.unit = .m }, { ($0.width, $0.height) = (4, 3) }, { ($0.width, $0.height, $0.method) = (4, 3, .area) }, { $0.minConfidence = 0 },
    ] as [(inout ResampleDepth) -> Void] {
      let resampled = try step(change).apply(to: episode)
      for name in [StreamName.depth, .confidence] {
        let (before, after) = (try #require(episode.streams[name]), try #require(resampled.streams[name]))
        #expect(before.source as? CountingSource === after.source as? CountingSource)
        #expect(after.source is CountingSource && before.spec == after.spec)
      }
      #expect(resampled.depthResampling == nil)
    }
  }

  @Test func convertsTheUnit() throws {
    let resampled = try step { $0.unit = .mm }.apply(to: withConfidence())
    let depth = try #require(resampled.streams[.depth])
    #expect(depth.spec.type == .uint16 && depth.spec.unit == "mm" && depth.spec.shape == [3, 4, 1])
    #expect(try read(depth, 1) == Array(repeating: [208, 7], count: 12).flatMap(\.self))
    #expect(resampled.streams[.confidence]?.source is CountingSource)
    let back = try step { $0.unit = .m }.apply(to: resampled)
    #expect(back.streams[.depth]?.spec.type == .float32 && back.streams[.depth]?.spec.unit == "m")
    #expect(try read(try #require(back.streams[.depth]), 1) == floats(Array(repeating: 2, count: 12)))
  }

  @Test func putsDepthOnTheGridOfTheImages() throws {
    var episode = withConfidence()
    episode.streams[.image]?.spec.raster = Raster(
      camera: .phone, size: ImageSize(width: 4, height: 2), rasterFromFull: Affine(xx: 1, yy: 1, x0: -3, y0: -2))
    episode.streams[.depth]?.source = CountingSource([floats((0..<12).map { Float($0) + 1 })])
    let resampled = try step { $0.to = .image }.apply(to: episode)
    let (depth, confidence) = (try #require(resampled.streams[.depth]), try #require(resampled.streams[.confidence]))
    #expect(depth.spec.raster == episode.streams[.image]?.spec.raster && confidence.spec.raster == depth.spec.raster)
    #expect(depth.spec.shape == [2, 4, 1] && confidence.spec.shape == [2, 4, 1])
    // Columns 3 to 6 of the full image are columns 1, 2, 2 and 3 of the depth map, rows 2 and 3 its row 1.
    #expect(try read(depth, 0) == floats([6, 7, 7, 8, 6, 7, 7, 8]))
    #expect(resampled.intrinsics(of: depth, at: Row(0)) == Intrinsics(fx: 8, fy: 8, cx: 1, cy: 1))
  }

  @Test func aTakeWithoutImagesOrIntrinsicsHasNoSuchGrid() throws {
    var unknown = SyntheticEpisode().episode
    unknown.cameras[.phone]?.intrinsicsTrack = nil
    #expect(throws: TakeFailure.self) { try step { $0.to = .image }.apply(to: unknown) }
    var blind = SyntheticEpisode().episode
    blind.streams[.image] = nil
    #expect(throws: TakeFailure.self) { try step { $0.to = .image }.apply(to: blind) }
    blind.streams[.depth] = nil
    #expect(try step { $0.to = .image }.apply(to: blind).streams[.depth] == nil)
  }

  @Test func depthAndConfidenceArePairedByTheirNumbers() throws {
    var episode = withConfidence()
    // The confidence of depth map 1 is missing, and that of map 2 comes second.
    episode.streams[.confidence]?.timestamps.remove(at: 1)
    episode.streams[.confidence]?.sourceIndex = [0, 2]
    episode.streams[.confidence]?.source = CountingSource([
      [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2], Array(repeating: 2, count: 12),
    ])
    let resampled = try step { $0.minConfidence = 1 }.apply(to: episode)
    let depth = try #require(resampled.streams[.depth])
    #expect(try read(depth, 0) == floats([0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1]))
    #expect(try read(depth, 1) == floats(Array(repeating: 0, count: 12)))
    #expect(try read(depth, 2) == floats(Array(repeating: 3, count: 12)))
    // Nothing is measured where neither grid nor unit changes.
    #expect(resampled.depthResampling == nil)
  }

  @Test func confidenceIsTheLeastOfWhatIsUsed() throws {
    var episode = withConfidence()
    episode.streams[.depth]?.source = CountingSource([floats([1, 1, 0, 3, 1, 1, 3, 3, 0, 0, 0, 0])])
    episode.streams[.depth]?.spec.raster = Raster(size: ImageSize(width: 4, height: 3), covering: ImageSize(width: 8, height: 6))
    episode.streams[.confidence]?.source = CountingSource([[2, 2, 0, 2, 2, 1, 2, 2, 2, 2, 2, 2]])
    let resampled = try step { ($0.width, $0.height, $0.method) = (2, 1, .area) }.apply(to: episode)
    #expect(try read(try #require(resampled.streams[.depth]), 0) == floats([1, 3]))
    #expect(try read(try #require(resampled.streams[.confidence]), 0) == [1, 2])
  }

  @Test func aCompanionThatCannotBeReadIsMissing() throws {
    var episode = withConfidence()
    episode.streams[.confidence]?.source = UnreadableSource()
    let filtered = try step { ($0.width, $0.height, $0.minConfidence) = (2, 1, 1) }.apply(to: episode)
    #expect(try read(try #require(filtered.streams[.depth]), 0) == floats([0, 0]))
    #expect(throws: SampleFailure.self) { try read(try #require(filtered.streams[.confidence]), 0) }
    let plain = try step { ($0.width, $0.height, $0.method) = (2, 1, .area) }.apply(to: episode)
    #expect(try read(try #require(plain.streams[.depth]), 0) == floats([1, 1]))
  }

  @Test func aCompanionMustBeOnTheSameGrid() throws {
    var episode = withConfidence()
    episode.streams[.confidence]?.spec.raster = Raster(size: ImageSize(width: 2, height: 2), covering: ImageSize(width: 8, height: 6))
    #expect(throws: TakeFailure.self) { try step { $0.minConfidence = 1 }.apply(to: episode) }
    // By nearest pixel, each is resampled for itself.
    let resampled = try step { ($0.width, $0.height) = (4, 3) }.apply(to: episode)
    #expect(resampled.streams[.confidence]?.spec.shape == [3, 4, 1])
  }

  @Test func theErrorIsThatOfTheMapsOfTheRows() throws {
    var episode = SyntheticEpisode().episode
    episode.streams[.depth]?.source = CountingSource([
      floats([1, 2, 0, 0] + Array(repeating: 0, count: 8)), floats(Array(repeating: 4, count: 12)), floats(Array(repeating: 0, count: 12)),
    ])
    episode.streams[.depth]?.rows = [Row(0), Row(0), nil, Row(2), nil, nil]
    var resampled = try step { ($0.width, $0.height, $0.method) = (2, 3, .area) }.apply(to: episode)
    #expect(resampled.depthResampling == nil)
    let depth = try #require(resampled.streams[.depth])
    for sample in [2, 0, 1, 0] { _ = try read(depth, sample) }
    #expect(resampled.depthResampling == ["maps": 2, "mean_m": 0.5.json, "max_m": 0.5.json, "lost_fraction": 0])
    // Also under another name, and after another change.
    resampled.streams["near_depth"] = depth.applying(.rotate(.half))
    resampled.streams[.depth] = nil
    resampled.streams["near_depth"]?.rows = [Row(1)]
    #expect(resampled.depthResampling == ["maps": 1, "mean_m": 0, "max_m": 0, "lost_fraction": 0])
    resampled.streams["near_depth"]?.rows = [Row(2)]
    #expect(resampled.depthResampling == ["maps": 1, "mean_m": .null, "max_m": .null, "lost_fraction": .null])
  }

  @Test func theMeanErrorIsThatOfTheValuesThatAreNotLost() throws {
    var episode = SyntheticEpisode().episode
    // The left half becomes 2. On the right, too little is valid, so that 7 is lost.
    episode.streams[.depth]?.source = CountingSource([floats([1, 3, 7, 0, 1, 3, 0, 0, 1, 3, 0, 0])])
    let resampled = try step { ($0.width, $0.height, $0.method) = (2, 1, .area) }.apply(to: episode)
    #expect(try read(try #require(resampled.streams[.depth]), 0) == floats([2, 0]))
    #expect(resampled.depthResampling == ["maps": 1, "mean_m": 1, "max_m": 1, "lost_fraction": (1.0 / 7).json])
  }

  // MARK: Helpers

  private func step(_ change: (inout ResampleDepth) -> Void) -> ResampleDepth {
    var step = ResampleDepth()
    change(&step)
    return step
  }

  private func read(_ stream: SampleStream, _ sample: Int) throws -> [UInt8] {
    var bytes: [UInt8] = []
    var cursor = try stream.source.makeCursor(SampleRequest())
    try cursor.read(sample, into: &bytes)
    #expect(bytes.count == stream.spec.sampleBytes)
    return bytes
  }

  /// An episode whose depth maps 0, 1 and 2 have a confidence of 2.
  private func withConfidence() -> Episode {
    var episode = SyntheticEpisode().episode
    guard var confidence = episode.streams[.depth] else { return episode }
    (confidence.spec.kind, confidence.spec.type, confidence.spec.unit) = (.confidence, .uint8, "0 low, 1 medium, 2 high")
    confidence.source = CountingSource(Array(repeating: Array(repeating: 2, count: 12), count: 3))
    episode.streams[.confidence] = confidence
    return episode
  }
}

/// Samples of which none can be read.
private struct UnreadableSource: SampleSource {
  var access: SampleAccess { .random }
  func makeCursor(_ request: SampleRequest) -> any SampleCursor { Cursor() }

  private struct Cursor: SampleCursor {
    var size: ImageSize? { nil }
    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      throw SampleFailure(finding: Finding(.confidenceUndecodable, "damaged"))
    }
  }
}
