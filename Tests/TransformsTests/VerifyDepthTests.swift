import Media
import Model
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

/// Against the RealityCam server's own figures for the same scenes: 32x24 maps, 15 keyframes, x and y in pixels, i the keyframe.
@Suite struct DepthMetricsTests {
  private struct Scene: Sendable {
    var depth: @Sendable (Int, Float, Float) -> Float
    var every1: (Float, Float, Float, [Int], Bool)
    var every10: (Float, Float, Float, [Int], Bool)
    var firstHistogram: [Int]?
  }

  private static let scenes: [Scene] = [
    Scene(depth: { _, _, _ in 2 }, every1: (1, 1, 1, [], true), every10: (1, 1, 1, [], true)),
    Scene(
      depth: { i, x, y in 2 + 0.01 * Float(i) + 2 * x / 32 + 0.5 * y / 24 }, every1: (0.995660, 1, 1, [], true),
      every10: (0.982422, 1, 1, [], true), firstHistogram: [7, 704, 57, 0, 0, 0, 0, 0, 0, 0]),
    Scene(
      depth: { i, x, y in (i < 7 ? 2 : 10) + x / 32 + 0.5 * y / 24 }, every1: (0.933333, 0.923077, 0.928571, [7], false),
      every10: (0.5, 1, 0, [10], false), firstHistogram: [10, 758, 0, 0, 0, 0, 0, 0, 0, 0]),
    Scene(
      depth: { i, x, _ in (i == 5 ? 8 : 2) + 0.5 * x / 32 }, every1: (0.866667, 1, 0.857143, [5, 6], false),
      every10: (1, 1, 1, [], true)),
  ]

  @Test(arguments: scenes.indices, [1, 10]) func agreesWithTheServer(scene index: Int, every: Int) {
    let scene = Self.scenes[index]
    var metrics = DepthMetrics(size: ImageSize(width: 32, height: 24))
    for keyframe in stride(from: 0, to: 15, by: every) {
      let map = (0..<(32 * 24)).map { scene.depth(keyframe, Float($0 % 32), Float($0 / 32)) }
      metrics.add(map, index: keyframe)
      if keyframe == 0, let expected = scene.firstHistogram { #expect(metrics.histogram == expected) }
    }
    let expected = every == 1 ? scene.every1 : scene.every10
    #expect(abs(metrics.consistency - expected.0) < 1e-6)
    #expect(abs(metrics.coherence - expected.1) < 1e-6)
    #expect(abs(metrics.stability - expected.2) < 1e-6)
    #expect(metrics.suspicious == expected.3)
    #expect(metrics.isLikelyReal(DepthThresholds()) == expected.4)
  }

  @Test func mapsWithoutDepthAreUnlikeAll() {
    var metrics = DepthMetrics(size: ImageSize(width: 16, height: 8))
    metrics.add([Float](repeating: 0, count: 128), index: 0)
    metrics.add([Float](repeating: 2, count: 128), index: 1)
    #expect(metrics.consistency == 0.5 && metrics.suspicious == [1])
  }

  @Test func notesOrRejects() throws {
    // Each map of the synthetic episode is 1 m deeper than the one before, and too small for blocks.
    let episode = SyntheticEpisode().episode
    var step = VerifyDepth()
    let noted = try step.apply(to: episode)
    #expect(noted.details["depth_metrics"]?["samples"] == 3)
    #expect(noted.findings.map(\.code) == [.depthSuspicious])
    step.onMiss = .reject
    let rejection = #expect(throws: Rejection.self) { try step.apply(to: episode) }
    #expect(rejection?.episode?.details["depth_metrics"] != nil)
    step.every = 10
    #expect(try step.apply(to: episode).findings.map(\.code) == [.depthMetricsUnavailable])
  }
}
