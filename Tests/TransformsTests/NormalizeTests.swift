import Model
import Testing
import TestSupport

@testable import Runs
@testable import Steps
@testable import Transforms

@Suite struct NormalizeTests {
  private static func statistics(_ channels: [[Float]]) -> Statistics {
    var statistics = Statistics(channels: channels.count, .floats)
    for (channel, values) in channels.enumerated() {
      for value in values { statistics.add(value, channel: channel) }
    }
    return statistics
  }

  private func parameters(_ method: Normalize.Method, _ channels: [[Float]]) -> Normalization? {
    var normalize = Normalize()
    normalize.method = method
    return normalize.parameters(of: Self.statistics(channels))
  }

  @Test func minmaxMapsLeastAndGreatestToMinusOneAndOne() throws {
    let found = try #require(parameters(.minmax, [[-3, 1, 5], [10, 250, 20]]))
    #expect(found == Normalization(method: "minmax", scale: [4, 120], offset: [1, 130]))
  }

  @Test func gaussianHasMeanAndStandardDeviation() throws {
    let found = try #require(parameters(.gaussian, [[1, 3], [-4, -4, 8, 8]]))
    #expect(found == Normalization(method: "gaussian", scale: [1, 6], offset: [2, 2]))
  }

  @Test(arguments: [Normalize.Method.minmax, .gaussian]) func scaleIsOneWithoutASpread(method: Normalize.Method) throws {
    let found = try #require(parameters(method, [[2.5, 2.5], [], [0, 1e-7]]))
    #expect(found.scale == [1, 1, 1])
    #expect(found.offset[..<2] == [2.5, 0])
    #expect(abs(found.offset[2] - 5e-8) < 1e-12)
  }

  @Test func noneStoresNothing() { #expect(parameters(.none, [[1, 2]]) == nil) }

  @Test func changesNothingInTheData() throws {
    let before = SyntheticEpisode()
    let after = try Normalize().apply(to: before.episode)
    #expect(after.frames == before.episode.frames && after.streams.keys == before.episode.streams.keys && before.readCount == 0)
  }

  @Test func theLastOneOfAPipelineCounts() {
    var last = Normalize()
    last.method = .gaussian
    let pipeline = Pipeline(readers: .auto, join: nil, transforms: [Normalize(), Split(), last], writer: MemoryWriter())
    #expect((pipeline.normalization as? Normalize)?.method == .gaussian)
    #expect(Pipeline(readers: .auto, join: nil, transforms: [Split()], writer: MemoryWriter()).normalization == nil)
  }
}
