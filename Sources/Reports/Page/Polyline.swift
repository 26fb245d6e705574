/// Lines with as few points as the eye needs.
enum Polyline {
  /// The points of a line that matter at this tolerance in pixels (Douglas and Peucker 1973). Where more than `limit` remain, the tolerance
  /// is doubled.
  static func simplified(_ points: [SIMD2<Double>], tolerance: Double = 0.3, limit: Int = 500) -> [SIMD2<Double>] {
    var tolerance = tolerance
    var kept = thinned(points, to: tolerance / 2)
    for _ in 0..<20 {
      kept = necessary(kept, tolerance)
      if kept.count <= limit { break }
      tolerance *= 2
    }
    return kept
  }

  /// A line over time with at most the lowest and the highest value of each pixel column, in the order in which they occur.
  static func columns(_ points: [SIMD2<Double>]) -> [SIMD2<Double>] {
    var output: [SIMD2<Double>] = []
    var start = points.startIndex
    while start < points.endIndex {
      let column = points[start].x.rounded(.down)
      var (low, high, end) = (start, start, start)
      while end < points.endIndex, points[end].x.rounded(.down) == column {
        if points[end].y < points[low].y { low = end }
        if points[end].y > points[high].y { high = end }
        end += 1
      }
      output += Set([start, low, high, end - 1]).sorted().map { points[$0] }
      start = end
    }
    return output
  }

  /// Returns the points without those that are nearer than this to the one before.
  private static func thinned(_ points: [SIMD2<Double>], to distance: Double) -> [SIMD2<Double>] {
    var kept: [SIMD2<Double>] = []
    for (index, point) in points.enumerated() {
      if let last = kept.last, index < points.count - 1, squaredLength(point - last) < distance * distance { continue }
      kept.append(point)
    }
    return kept
  }

  private static func necessary(_ points: [SIMD2<Double>], _ tolerance: Double) -> [SIMD2<Double>] {
    guard points.count > 2 else { return points }
    var isKept = [Bool](repeating: false, count: points.count)
    (isKept[0], isKept[points.count - 1]) = (true, true)
    var open = [(0, points.count - 1)]
    while let (first, last) = open.popLast() {
      var (farthest, distance) = (first, tolerance * tolerance)
      for index in (first + 1)..<max(last, first + 1) {
        let found = squaredDistance(points[index], points[first], points[last])
        if found > distance { (farthest, distance) = (index, found) }
      }
      guard farthest != first else { continue }
      isKept[farthest] = true
      open += [(first, farthest), (farthest, last)]
    }
    return points.indices.filter { isKept[$0] }.map { points[$0] }
  }

  /// Squared distance from a point to a segment.
  private static func squaredDistance(_ point: SIMD2<Double>, _ a: SIMD2<Double>, _ b: SIMD2<Double>) -> Double {
    let along = b - a
    let length = squaredLength(along)
    guard length > 0 else { return squaredLength(point - a) }
    let t = min(max(((point - a) * along).sum() / length, 0), 1)
    return squaredLength(point - a - t * along)
  }

  private static func squaredLength(_ vector: SIMD2<Double>) -> Double { (vector * vector).sum() }
}
