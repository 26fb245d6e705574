import Evidence
import Model

/// Plausibility of a sequence of depth maps as a recording of one real scene: measures of the RealityCam project's server, computed in
/// 32-bit floats like there.
///
/// - Consistency: overlap of neighboring maps' histograms, 10 bins over 0.1 to 20 m; the mean over all maps, the first counting as 1.
/// - Coherence: whether the near parts of the image drift steadily. Per map the centroid of its 8x8 blocks, weighted by inverse mean depth;
///   1 when two successive steps are both below 0.01 of the grid, 0.5 when one is, else (1 + cosine) / 2. Blocks are numbered on a square
///   grid of floor(sqrt(count)) columns, which for maps that are not square does not correspond to a place in the image; thresholds were
///   chosen for that.
/// - Stability: the fraction of steps in which no more than 5 % of all pixels jump by more than 2 m.
struct DepthMetrics: Equatable {
  private(set) var samples = 0
  private(set) var suspicious: [Int] = []
  /// Histogram of the last map that was added.
  private(set) var histogram: [Int] = []
  private var similarities: [Float] = []
  private var jumps = 0
  private var vectors: [SIMD2<Float>] = []
  private var previous: (depth: [Float], centroid: SIMD2<Float>)?
  private let size: ImageSize

  private static let range: ClosedRange<Float> = 0.1...20
  private static let binWidth: Float = (20 - 0.1) / 10

  init(size: ImageSize) { self.size = size }

  static func == (a: DepthMetrics, b: DepthMetrics) -> Bool { a.json(DepthThresholds()) == b.json(DepthThresholds()) }

  /// Adds keyframe number `index`, depth in meters by rows.
  mutating func add(_ depth: [Float], index: Int) {
    let bins = Self.histogram(depth)
    let centroid = self.centroid(depth)
    var similarity: Float = 1
    if let previous {
      let overlap = zip(bins, histogram).reduce(0) { $0 + min($1.0, $1.1) }
      let least = min(bins.reduce(0, +), histogram.reduce(0, +))
      similarity = least == 0 ? 0 : Float(overlap) / Float(least)
      let jumping = zip(depth, previous.depth).count {
        Self.range.contains($0) && Self.range.contains($1) && abs($0 - $1) > 2
      }
      let hasJumped = Float(jumping) / Float(max(depth.count, 1)) > 0.05
      if hasJumped { jumps += 1 }
      if hasJumped || similarity < 0.5 { suspicious.append(index) }
      let grid = SIMD2(Float(size.width / 8), Float(size.height / 8))
      vectors.append((centroid - previous.centroid) / grid.replacing(with: 1, where: grid .== 0))
    }
    similarities.append(similarity)
    histogram = bins
    previous = (depth, centroid)
    samples += 1
  }

  private static func histogram(_ depth: [Float]) -> [Int] {
    depth.reduce(into: [Int](repeating: 0, count: 10)) { bins, meters in
      if range.contains(meters) { bins[min(Int((meters - range.lowerBound) / binWidth), 9)] += 1 }
    }
  }

  private func centroid(_ depth: [Float]) -> SIMD2<Float> {
    let (columns, rows) = (size.width / 8, size.height / 8)
    let side = max(1, Int(Double(columns * rows).squareRoot()))
    var sum = SIMD2<Float>(), total: Float = 0
    for block in 0..<(columns * rows) {
      var (meters, count): (Float, Float) = (0, 0)
      for y in 0..<8 {
        let start = (block / columns * 8 + y) * size.width + block % columns * 8
        for value in depth[start..<(start + 8)] where value > 0.1 && value < 20 {
          meters += value
          count += 1
        }
      }
      guard count > 0 else { continue }
      let weight = count / meters
      sum += SIMD2(Float(block % side), Float(block / side)) * weight
      total += weight
    }
    return total > 0 ? sum / total : .zero
  }

  var consistency: Float { similarities.reduce(0, +) / Float(max(samples, 1)) }

  var stability: Float { samples < 2 ? 1 : 1 - Float(jumps) / Float(samples - 1) }

  var coherence: Float {
    guard vectors.count >= 2 else { return 1 }
    let scores = zip(vectors, vectors.dropFirst()).map { a, b -> Float in
      let (first, second) = ((a * a).sum().squareRoot(), (b * b).sum().squareRoot())
      if first < 0.01 && second < 0.01 { return 1 }
      if first < 0.01 || second < 0.01 { return 0.5 }
      return ((a * b).sum() / (first * second) + 1) / 2
    }
    return scores.reduce(0, +) / Float(scores.count)
  }

  func isLikelyReal(_ thresholds: DepthThresholds) -> Bool {
    Double(consistency) >= thresholds.consistency && Double(coherence) >= thresholds.coherence
      && Double(stability) >= thresholds.stability && suspicious.isEmpty
  }

  func json(_ thresholds: DepthThresholds) -> JSONValue {
    [
      "samples": JSONValue(samples), "depth_consistency": .number(Double(consistency)), "motion_coherence": .number(Double(coherence)),
      "scene_stability": .number(Double(stability)), "suspicious_keyframes": .array(suspicious.map { JSONValue($0) }),
      "is_likely_real_scene": .bool(isLikelyReal(thresholds)),
    ]
  }
}

/// Thresholds that a real scene reaches.
struct DepthThresholds {
  var consistency = 0.7
  var coherence = 0.6
  var stability = 0.8
}
