import CKernels
import Foundation
package import Model

/// By how much the images of a camera are late against its poses, from the motion that both show.
///
/// A lag L predicts the shift of each block of an image from one to the next: the pose turns and moves from L before the one to L before the
/// other. What turning shifts is known; what moving shifts depends on the distance of what the block shows, which a filter follows from image
/// to image. The lag is the one at which the shifts surprise the filters least (Student's t).
package struct ImageLag: Sendable {
  /// Two images, and the shifts of blocks from the one to the other, as `MotionImage` has them.
  package struct Pair: Sendable {
    /// Seconds.
    package var start: Double, end: Double
    package var shifts: [Float]

    package init(start: Double, end: Double, shifts: [Float]) { (self.start, self.end, self.shifts) = (start, end, shifts) }
  }

  /// Poses by time, ascending; quaternions keep their sign from one to the next. The camera looks along z, x is right, and y down.
  package struct Poses: Sendable {
    /// Seconds.
    package var times: [Double] = []
    package var poses: [Pose] = []

    package init() {}
  }

  /// Seconds by which the images are late.
  package let lag: Double
  /// The root of the share of the blocks' motion that poses with this lag explain, 0 to 1.
  package let correlation: Double
  private let search: ImageLagSearch
  private let scale: Double

  static let reach = 0.15
  private static let coarse = 0.01, fine = 0.0025
  private static let leastPairs = 20, leastPoses = 20, leastChunks = 8
  /// A lag of which less is known is none.
  private static let greatestSigma = 0.0013, leastContrast = 2.0, leastDifference = 10.0, leastDepth = 0.2
  /// Views of parallel stripes, in which motion along them is not seen, have less than 0.3; answers from them were wrong by up to 6 ms. Other
  /// views have 0.4 and more.
  private static let leastEvenness = 0.33
  /// Lags closer than this are not told apart.
  private static let apart = 0.012
  private static let mostValleys = 4
  private static let scales = [0.35, 0.42, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.12, 1.25, 1.4, 1.6]
  /// Seconds of a readout, by how much one is expected and at most, and that below which it does not matter.
  private static let usualReadout = 0.015, longestReadout = 0.04, leastReadout = 0.003

  private typealias Cost = ImageLagSearch.Cost

  /// The focal length and the principal point of images on a grid.
  package struct Lens: Sendable {
    /// Cells, across.
    package var focal: Double
    /// The focal length across by that downwards.
    package var stretch: Double
    /// Cells from the middle of the image.
    package var center: SIMD2<Double>

    /// Of a phone's main camera, which is close enough to find how wide it is.
    package static let assumed = Lens(focal: 48, stretch: 1, center: .zero)

    private init(focal: Double, stretch: Double, center: SIMD2<Double>) {
      (self.focal, self.stretch, self.center) = (focal, stretch, center)
    }

    /// `nil` for intrinsics that no image of this size can have.
    package init?(_ intrinsics: Intrinsics, _ size: ImageSize, on grid: MotionGrid) {
      let center = SIMD2(intrinsics.cx - Double(size.width) / 2, intrinsics.cy - Double(size.height) / 2) / grid.cell
      self.init(focal: intrinsics.fx / grid.cell, stretch: intrinsics.fx / intrinsics.fy, center: center)
      guard (10...1000).contains(focal), (0.2...5).contains(stretch), max(abs(center.x), abs(center.y)) < 200 else { return nil }
    }
  }

  /// `nil` where the motion does not tell.
  ///
  /// - Parameters:
  ///   - lens: That of the images; `nil` where it is not known, and its focal length is found.
  package init?(_ pairs: [Pair], on grid: MotionGrid, poses: Poses, lens: Lens?) {
    guard poses.times.count >= Self.leastPoses, var search = ImageLagSearch(pairs, grid, poses, lens ?? .assumed) else { return nil }
    guard search.pairs.count >= Self.leastPairs, search.chunks >= Self.leastChunks, !search.isTooQuick,
      search.evenness >= Self.leastEvenness
    else { return nil }
    let count = Int((Self.reach / Self.coarse).rounded())
    let lags = (-count...count).map { Double($0) * Self.coarse }
    let motions = lags.map { search.motion($0) }
    // Every other lag will do for the first estimate.
    let few = lags.indices.filter { $0 % 2 == 1 }
    let first = few.map { search.cost(motions[$0], 1).total }
    let lowest = first.indices.min { first[$0] < first[$1] } ?? 0
    var (scale, costs, best) = (1.0, [Cost](), few[lowest])
    var lag = Self.vertex(few.map { lags[$0] }, first, lowest)
    for _ in 0..<2 {
      let motion = search.motion(lag)
      let byScale = Self.scales.map { search.cost(motion, $0).total }
      let chosen = byScale.indices.min { byScale[$0] < byScale[$1] } ?? 0
      guard chosen > 0, chosen < Self.scales.count - 1 else { return nil }
      scale = exp(Self.vertex(Self.scales.map { log($0) }, byScale, chosen))
      if lens != nil { scale = min(max(scale, 0.9), 1.1) }
      search.calibrate(motion, scale)
      costs = motions.map { search.cost($0, scale) }
      let next = Self.least(costs)
      if abs(next - best) < 2 { break }
      (best, lag) = (next, Self.vertex(lags, costs.map(\.total), next))
    }
    // A lag between two of the grid may be less of a surprise than either of them.
    let totals = costs.map(\.total)
    let valleys = lags.indices.filter { index in
      [index - 1, index + 1].allSatisfy { !lags.indices.contains($0) || totals[index] <= totals[$0] }
    }.sorted { totals[$0] < totals[$1] }.prefix(Self.mostValleys).map {
      Self.refined(search, around: Self.vertex(lags, totals, $0), scale, readout: 0)
    }
    guard var own = valleys.min(by: { $0.bottom.total < $1.bottom.total }) else { return nil }
    // Motion that repeats itself has valleys that are nearly as deep.
    let others = valleys.map(\.bottom.total).filter { $0 > own.bottom.total }
    let depth = ImageLagSearch.median(totals) - own.bottom.total
    guard !others.contains(where: { $0 - own.bottom.total < Self.leastDepth * depth }) else { return nil }
    let rivals =
      valleys.filter { abs($0.lag - own.lag) >= Self.apart }.map(\.bottom)
      + zip(lags, costs).filter { abs($0.0 - own.lag) >= Self.apart }.map(\.1)
    // Before a readout is found, which rivals have no chance to.
    let contrast =
      rivals.map { min(Self.contrast($0.chunks, own.bottom.chunks), Self.contrast($0.regions, own.bottom.regions)) }.min() ?? 0
    guard contrast >= Self.leastContrast else { return nil }
    let readout = Self.readout(&own, search, scale)
    guard own.curvature > 0, abs(own.lag) <= Self.reach - Self.coarse, abs(readout) < Self.longestReadout else { return nil }
    guard Self.sigma(own) <= Self.greatestSigma else { return nil }
    (self.lag, self.search, self.scale) = (own.lag, search, scale)
    correlation = search.correlation(search.motion(own.lag, readout: readout), scale)
  }

  /// The two motions that were compared.
  package var curves: LagCurves { LagCurves(search, lag, scale) }

  // MARK: Statistics of costs

  /// The costs of lags around one that is less of a surprise than others.
  private struct Valley {
    var lags: [Double]
    var costs: [Cost]
    /// The bottom: its lag, and the cost there.
    var lag = 0.0, bottom: Cost
    var curvature = 0.0

    init(_ lags: [Double], _ search: ImageLagSearch, _ scale: Double, readout: Double) {
      func cost(_ lag: Double) -> Cost { search.cost(search.motion(lag, readout: readout), scale) }
      self.lags = lags
      costs = lags.map(cost)
      bottom = costs[lags.count / 2]
      let middle = lags[lags.count / 2]
      let (slope, curvature) = parabola(lags.map { $0 - middle }, costs.map(\.total))
      self.curvature = curvature
      // Beyond its ends a parabola says nothing.
      lag = curvature > 0 ? min(max(middle - slope / curvature, lags[0] - ImageLag.fine), lags[lags.count - 1] + ImageLag.fine) : middle
      bottom = cost(lag)
    }
  }

  private static func refined(_ search: ImageLagSearch, around lag: Double, _ scale: Double, readout: Double) -> Valley {
    var center = lag
    while true {
      let lags = (-3...3).map { center + Double($0) * fine }
      let valley = Valley(lags, search, scale, readout: readout)
      let lowest = least(valley.costs)
      guard lowest == 0 || lowest == lags.count - 1, abs(lags[lowest] - lag) < 2 * coarse else { return valley }
      center = lags[lowest]
    }
  }

  /// How long the camera takes to read an image, from lags that grow from line to line; 0 where they do not. A readout also makes the lag of the
  /// middle another one, `valley`.
  private static func readout(_ valley: inout Valley, _ search: ImageLagSearch, _ scale: Double) -> Double {
    var readout = 0.0
    for _ in 0..<3 {
      // Of the lines, how much the cost grows with the lag.
      let middle = valley.lags[valley.lags.count / 2], steps = valley.lags.map { $0 - middle }
      var (a, b, c, g, h) = (0.0, 0.0, 1 / (usualReadout * usualReadout), 0.0, readout / (usualReadout * usualReadout))
      for (line, place) in search.places.enumerated() {
        let (slope, curvature) = parabola(steps, valley.costs.map { $0.lines[line] })
        let sure = max(curvature, 0)
        (a, b, c, g, h) = (a + sure, b + sure * -place, c + sure * place * place, g + slope, h + slope * -place)
      }
      let determinant = a * c - b * b
      guard a > 0, determinant > 0 else { return readout }
      let change = -(a * h - b * g) / determinant
      // Its own standard deviation is that of the costs at best.
      guard abs(readout + change) > max(leastReadout, 3 * (a / determinant).squareRoot()), abs(change) > leastReadout / 4 else {
        return readout
      }
      readout = min(max(readout + change, -longestReadout), longestReadout)
      valley = refined(search, around: valley.lag, scale, readout: readout)
    }
    return readout
  }

  private static func least(_ costs: [Cost]) -> Int { costs.indices.min { costs[$0].total < costs[$1].total } ?? 0 }

  /// The place of the vertex of a parabola through the values at `index` and beside it; the place itself at the ends.
  private static func vertex(_ places: [Double], _ values: [Double], _ index: Int) -> Double {
    guard index > 0, index < places.count - 1 else { return places[index] }
    let (a, b, c) = (values[index - 1], values[index], values[index + 1])
    let curvature = a - 2 * b + c
    return places[index] + (curvature > 0 ? (places[index + 1] - places[index]) * 0.5 * (a - c) / curvature : 0)
  }

  /// First and second derivative at 0 of the parabola that fits best; places are symmetric about 0.
  private static func parabola(_ places: [Double], _ values: [Double]) -> (slope: Double, curvature: Double) {
    let n = Double(places.count)
    let squares = places.reduce(0) { $0 + $1 * $1 }, fourths = places.reduce(0) { $0 + $1 * $1 * $1 * $1 }
    let sum = values.reduce(0, +), first = zip(places, values).reduce(0) { $0 + $1.0 * $1.1 }
    let second = zip(places, values).reduce(0) { $0 + $1.0 * $1.0 * $1.1 }
    return (first / squares, 2 * (n * second - squares * sum) / (n * fourths - squares * squares))
  }

  /// The standard deviation: by the curvature, and by how unlike the slopes of chunks and of regions are.
  private static func sigma(_ valley: Valley) -> Double {
    let (grid, near, curvature) = (valley.lags, valley.costs, valley.curvature)
    let mean = grid.reduce(0, +) / Double(grid.count)
    let squares = grid.reduce(0) { $0 + ($1 - mean) * ($1 - mean) }
    func slopes(_ part: (Cost) -> [Double]) -> [Double] {
      let parts = near.map(part)
      let all = parts[0].indices.map { index in zip(grid, parts).reduce(0) { $0 + ($1.0 - mean) * $1.1[index] } / squares }
      let middle = all.reduce(0, +) / Double(all.count)
      return all.map { $0 - middle }
    }
    func deviation(_ slopes: [Double]) -> Double {
      let n = Double(slopes.count)
      return (slopes.reduce(0) { $0 + $1 * $1 } * n / max(n - 1, 1)).squareRoot() / curvature
    }
    let chunks = slopes(\.chunks)
    // Slopes of neighbors are alike, so longer chunks are looked at, too.
    let byTime =
      [1, 2, 4].map { length in
        deviation(stride(from: 0, to: chunks.count, by: length).map { chunks[$0..<min($0 + length, chunks.count)].reduce(0, +) })
      }.max() ?? 0
    let byRegion = deviation(slopes(\.regions))
    return (byTime * byTime + byRegion * byRegion + 1 / curvature).squareRoot()
  }

  /// By how many standard deviations one cost exceeds another, over their parts; 0 for a difference that is small in all of them.
  private static func contrast(_ far: [Double], _ near: [Double]) -> Double {
    let differences = zip(far, near).map { $0 - $1 }, sum = differences.reduce(0, +)
    return sum < leastDifference ? 0 : sum / (differences.reduce(0) { $0 + $1 * $1 } + 1e-9).squareRoot()
  }
}
