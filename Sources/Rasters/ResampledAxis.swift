/// One axis of a grid and of the grid that it is resampled to. Position `i` on the new axis is `scale * i + offset` on the old one, in
/// pixels; pixel `i` extends from `i` to `i + 1`, and its center is at `i + 1/2`.
struct ResampledAxis: Equatable, Sendable {
  /// Number of pixels.
  let old, new: Int
  let scale, offset: Double
  /// Whether both grids cover the same field of view; positions are then computed in integers.
  let isWhole: Bool

  /// The tolerance in old pixels. Positions closer than this to an edge between pixels are on it; the rest is rounding of the maps between
  /// grids.
  private static let tolerance = 1e-7

  init(old: Int, new: Int, scale: Double, offset: Double) {
    (self.old, self.new, self.scale, self.offset) = (old, new, scale, offset)
    isWhole = abs(offset) < Self.tolerance && abs(scale * Double(new) - Double(old)) < Self.tolerance
  }

  /// Whether both grids are the same.
  var isIdentity: Bool { isWhole && old == new }

  /// The axis from the new grid to the old one.
  var inverse: ResampledAxis { ResampledAxis(old: new, new: old, scale: 1 / scale, offset: -offset / scale) }

  /// The old pixel that the center of each new one is in, -1 where it is outside the old grid.
  var nearest: [Int] {
    if isWhole { return NearestPixels.nearest(from: old, to: new) }
    return (0..<new).map { index in
      let center = position(Double(index) + 0.5)
      return center >= 0 && center < Double(old) ? Int(center) : -1
    }
  }

  /// The old pixels that each new one overlaps, weighted by the overlap.
  var overlaps: WeightedPixels {
    var pixels = WeightedPixels(total: isWhole ? Double(old) : abs(scale))
    for index in 0..<new {
      if isWhole {
        // In parts of 1/new of an old pixel.
        let (start, end) = (index * old, (index + 1) * old)
        let covered = start / new..<(end + new - 1) / new
        pixels.append(covered.lowerBound, covered.map { Double(min(end, ($0 + 1) * new) - max(start, $0 * new)) })
      } else {
        let (a, b) = (position(Double(index)), position(Double(index + 1)))
        let (start, end) = (max(min(a, b), 0), min(max(a, b), Double(old)))
        guard start < end else {
          pixels.append(0, [])
          continue
        }
        let covered = Int(start)..<Int(end.rounded(.up))
        pixels.append(covered.lowerBound, covered.map { min(end, Double($0 + 1)) - max(start, Double($0)) })
      }
    }
    return pixels
  }

  /// The two old pixels whose centers are on either side of each new one, weighted by linear interpolation; none where the new center is
  /// outside the old grid.
  var neighbors: WeightedPixels {
    let nearest = nearest
    var pixels = WeightedPixels(total: isWhole ? Double(2 * new) : 1)
    for index in 0..<new {
      guard nearest[index] >= 0 else {
        pixels.append(0, [])
        continue
      }
      let (lower, upperWeight): (Int, Double)
      if isWhole {
        // In parts of 1/(2 new) of an old pixel.
        let distance = (2 * index + 1) * old - new
        lower = distance < 0 ? -1 : distance / (2 * new)
        upperWeight = Double(distance - lower * 2 * new)
      } else {
        let position = position(Double(index) + 0.5) - 0.5
        let distance = Self.snapped(position)
        lower = Int(distance.rounded(.down))
        upperWeight = distance - Double(lower)
      }
      let pair = [(lower, pixels.total - upperWeight), (lower + 1, upperWeight)].filter { $0.0 >= 0 && $0.0 < old && $0.1 > 0 }
      pixels.append(pair.first?.0 ?? 0, pair.map(\.1))
    }
    return pixels
  }

  private func position(_ new: Double) -> Double { Self.snapped(scale * new + offset) }

  private static func snapped(_ position: Double) -> Double {
    abs(position - position.rounded()) < tolerance ? position.rounded() : position
  }
}

/// Neighboring old pixels for each new pixel of an axis, with weights above 0.
struct WeightedPixels: Equatable, Sendable {
  /// Weight of a new pixel that is inside the old grid.
  let total: Double
  /// The first old pixel of each new one.
  private(set) var first: [Int] = []
  /// The start of each new pixel's weights in `weights`, and the end of the last.
  private(set) var starts = [0]
  private(set) var weights: [Double] = []

  init(total: Double) { self.total = total }

  /// Adds the old pixels of the next new one.
  fileprivate mutating func append(_ first: Int, _ weights: [Double]) {
    self.first.append(first)
    self.weights += weights
    starts.append(self.weights.count)
  }
}
