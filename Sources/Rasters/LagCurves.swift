import Foundation
import Model

/// How fast the picture of a camera slides by, as its images show it and as its poses say without any lag: the two motions that an `ImageLag` was
/// found from. They are medians of the blocks, in degrees of the view a second.
package struct LagCurves: Sendable {
  package struct Point: Sendable {
    /// Seconds, in the middle of a pair of images.
    package var time: Double
    /// `nil` for a pair of images whose shifts fit the poses at no lag, such as of a pattern that repeats.
    package var images: Double?
    package var poses: Double
  }

  /// The stretches of time that were compared.
  package let stretches: [[Point]]
  /// Whether the motion is that across the image, of which there was more, or that from its top to its bottom.
  package let isAcross: Bool

  /// Seconds between the middles of pairs that one stretch has at most.
  private static let longestStep = 0.3
  /// The residual (cells, of the block in the middle) of a pair that does not fit: at least this, and so many times that of most pairs.
  private static let leastMisfit = 0.25, misfit = 4.0

  init(_ search: ImageLagSearch, _ lag: Double, _ scale: Double) {
    let count = search.x.count, focal = search.focal * scale
    let centers = (0..<count).map { SIMD2(Double(search.x[$0]), Double(search.y[$0])) }
    func shift(_ pair: Int, _ block: Int) -> SIMD2<Double> {
      SIMD2(Double(search.pairs[pair].shifts[block]), Double(search.pairs[pair].shifts[count + block]))
    }
    let known = search.pairs.map { pair in
      (0..<count).filter { Double(min(pair.shifts[2 * count + $0], pair.shifts[4 * count + $0])) > ImageLagSearch.leastInformation }
    }
    /// The shift of a block whose content has this inverse distance (1/m).
    func predicted(_ step: Pose, _ block: Int, _ nearness: Double) -> SIMD2<Double> {
      let ray = SIMD3(centers[block] / focal, 1)
      let seen = Pose(position: .zero, quaternion: step.quaternion).inverse.rotate(ray - nearness * step.position)
      return focal * SIMD2(seen.x, seen.y) / seen.z - centers[block]
    }
    // One distance for all blocks, by least squares: with the lag that was found, both motions are then the same in the main.
    let small = 0.01
    var (sum, square) = (0.0, 0.0)
    let late = search.steps(late: lag)
    for (pair, step) in late.enumerated() {
      for block in known[pair] {
        let far = predicted(step, block, 0), change = (predicted(step, block, small) - far) / small
        sum += (change * (shift(pair, block) - far)).sum()
        square += (change * change).sum()
      }
    }
    let nearness = square > 0 ? min(max(sum / square, 0), 2) : 0
    let residuals = late.enumerated().map { pair, step in
      ImageLagSearch.median(
        known[pair].map { block in
          let rest = shift(pair, block) - predicted(step, block, nearness)
          return (rest * rest).sum().squareRoot()
        })
    }
    let most = max(Self.leastMisfit, Self.misfit * ImageLagSearch.median(residuals))
    /// The angles of a place in the view from its middle, in degrees.
    func angles(_ place: SIMD2<Double>) -> SIMD2<Double> { SIMD2(atan(place.x / focal), atan(place.y / focal)) * (180 / .pi) }
    let slides = search.steps(late: 0).enumerated().compactMap {
      pair, step -> (time: Double, images: SIMD2<Double>?, poses: SIMD2<Double>)? in
      guard !known[pair].isEmpty else { return nil }
      let (start, end) = (search.pairs[pair].start, search.pairs[pair].end)
      func middle(_ blocks: some Sequence<Int>, _ shift: (Int) -> SIMD2<Double>) -> SIMD2<Double> {
        let turned = blocks.map { angles(centers[$0] + shift($0)) - angles(centers[$0]) }
        return SIMD2(ImageLagSearch.median(turned.map(\.x)), ImageLagSearch.median(turned.map(\.y))) / (end - start)
      }
      let images = residuals[pair] <= most ? middle(known[pair]) { shift(pair, $0) } : nil
      return ((start + end) / 2, images, middle(0..<count) { predicted(step, $0, nearness) })
    }
    let squares = slides.reduce(SIMD2<Double>.zero) { $0 + $1.poses * $1.poses }
    let axis = squares.x >= squares.y ? 0 : 1
    isAcross = axis == 0
    var stretches: [[Point]] = []
    for slide in slides {
      let point = Point(time: slide.time, images: slide.images?[axis], poses: slide.poses[axis])
      if let last = stretches.last?.last, point.time - last.time < Self.longestStep {
        stretches[stretches.count - 1].append(point)
      } else {
        stretches.append([point])
      }
    }
    self.stretches = stretches
  }
}
