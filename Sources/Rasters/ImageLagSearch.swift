import CKernels
import Foundation
import Model

/// What the costs of lags are computed from: pairs of images whose shifts are known, and poses at any time.
struct ImageLagSearch {
  /// The cost of a lag, by chunk of time, by region of the image, and by the line of blocks along its longer side.
  struct Cost {
    var chunks: [Double]
    var regions: [Double]
    var lines: [Double]
    var total: Double { chunks.reduce(0, +) }
  }

  private(set) var pairs: [ImageLag.Pair]
  private(set) var chunks = 0
  private var chunkOf: [Int] = []
  private let poses: ImageLag.Poses
  private let knot: Double
  let focal: Double
  /// Centers of the blocks in cells from the principal point; eight blocks are a line along the longer side of the image.
  private(set) var x: [Float] = [], y: [Float] = []
  /// The places of the lines across the shorter side of the image, -0.5 to 0.5 at its edges: a rolling shutter reads one after the other.
  let places: [Double]
  /// Factor of the information that the shifts claim.
  private var trust = 1.0
  private var shifts: [Float] = []

  private static let chunk = 0.25, longestPair = 0.21, longestGap = 0.12
  /// Seconds around each pair for which there are poses, whatever the lag and the readout.
  private static let margin = ImageLag.reach
  private static let line = 8
  /// The trace of a block's information below which its shift is not known.
  static let leastInformation = 20.0

  init?(_ all: [ImageLag.Pair], _ grid: MotionGrid, _ poses: ImageLag.Poses, _ lens: ImageLag.Lens) {
    let count = grid.blocks
    (self.poses, focal) = (poses, lens.focal)
    let steps = zip(poses.times, poses.times.dropFirst()).map { $1 - $0 }
    let step = Self.median(steps)
    knot = max(1.0 / 30, 1.5 * step)
    let gaps = steps.indices.filter { steps[$0] > max(Self.longestGap, 2.5 * step) }.map { (poses.times[$0], poses.times[$0 + 1]) }
    guard let first = poses.times.first, let last = poses.times.last else { return nil }
    // Of an image that is higher than wide, a column of blocks is a line.
    let order = grid.columns == Self.line ? Array(0..<count) : (0..<count).map { $0 % grid.rows * grid.columns + $0 / grid.rows }
    // Pixels may be higher than wide.
    let stretch = Float(lens.stretch)
    let factors: [Float] = [1, stretch, 1, 1 / stretch, 1 / (stretch * stretch)]
    pairs = all.filter { pair in
      let (from, to) = (pair.start - Self.margin, pair.end + Self.margin)
      return from >= first - 1e-6 && to <= last + 1e-6 && pair.start < pair.end && pair.end - pair.start <= Self.longestPair
        && !gaps.contains { to > $0.0 && from < $0.1 }
    }.map { pair in
      ImageLag.Pair(
        start: pair.start, end: pair.end,
        shifts: (0..<5).flatMap { part in order.map { factors[part] * pair.shifts[part * count + $0] } })
    }
    for block in order {
      x.append(Float((Double(block % grid.columns) - Double(grid.columns - 1) / 2) * 8 - lens.center.x))
      y.append(stretch * Float((Double(block / grid.columns) - Double(grid.rows - 1) / 2) * 8 - lens.center.y))
    }
    let lines = count / Self.line
    places = (0..<lines).map { (Double($0) - Double(lines - 1) / 2) * 8 / grid.shorterSide }
    guard let start = pairs.first?.start else { return nil }
    var number = -1
    for pair in pairs {
      let next = Int((pair.start - start) / Self.chunk)
      if next != number { (number, chunks) = (next, chunks + 1) }
      chunkOf.append(chunks - 1)
    }
    ignoreStillBlocks()
    shifts = pairs.flatMap(\.shifts)
  }

  static func median(_ values: [Double]) -> Double {
    let sorted = values.sorted(), n = sorted.count
    return n == 0 ? 0 : n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2
  }

  /// Blocks that stay while the rest of the image moves show parts of the robot, or marks.
  private mutating func ignoreStillBlocks() {
    let count = x.count
    let lengths = pairs.map { pair in (0..<count).map { Double(hypot(pair.shifts[$0], pair.shifts[count + $0])) } }
    let medians = lengths.map(Self.median)
    let middle = Self.median(medians)
    let moving = medians.indices.filter { medians[$0] > max(0.1, middle / 2) }
    guard moving.count >= 8 else { return }
    let ofBlocks = (0..<count).map { block in Self.median(moving.map { lengths[$0][block] }) }
    let typical = Self.median(ofBlocks)
    for block in 0..<count where ofBlocks[block] < typical / 4 {
      for pair in pairs.indices { for part in 2..<5 { pairs[pair].shifts[part * count + block] = 0 } }
    }
  }

  /// How much blocks tell of shifts in the direction of which they tell least, of that of which they tell most, 0 to 1: nothing where all of them
  /// show stripes in parallel.
  var evenness: Double {
    let count = x.count
    var (xx, xy, yy) = (0.0, 0.0, 0.0)
    for pair in pairs {
      for block in 0..<count {
        func part(_ number: Int) -> Double { Double(pair.shifts[number * count + block]) }
        let all = part(2) + part(4)
        guard all > Self.leastInformation else { continue }
        (xx, xy, yy) = (xx + part(2) / all, xy + part(3) / all, yy + part(4) / all)
      }
    }
    let (middle, half) = ((xx + yy) / 2, ((xx - yy) * (xx - yy) / 4 + xy * xy).squareRoot())
    return middle + half > 0 ? (middle - half) / (middle + half) : 0
  }

  // MARK: Poses

  /// Whether poses between the samples can be known, and images follow: turns that change in a few samples are neither.
  var isTooQuick: Bool {
    let turns = pairs.map { pair in (raw: linear(pair.start).inverse.composed(with: linear(pair.end)).rotationVector, smooth: turn(pair)) }
    let mean = turns.reduce(SIMD3<Double>.zero) { $0 + $1.raw } / Double(max(turns.count, 1))
    func square(_ v: SIMD3<Double>) -> Double { (v * v).sum() }
    let (all, lost) = turns.reduce(into: (0.0, 0.0)) { sums, turn in
      sums = (sums.0 + square(turn.raw - mean), sums.1 + square(turn.raw - turn.smooth))
    }
    let fast = turns.count { square($0.raw).squareRoot() * focal > Self.longestShift }
    return lost > Self.mostLost * all || 4 * fast > turns.count
  }
  /// Of the squares of turns, what smooth poses may lack; and cells by which most images shift at most.
  private static let mostLost = 0.06, longestShift = 6.0

  private func turn(_ pair: ImageLag.Pair) -> SIMD3<Double> {
    pose(at: pair.start).inverse.composed(with: pose(at: pair.end)).rotationVector
  }

  /// The number of the first pose at or after a time.
  private func index(_ time: Double) -> Int {
    var (low, high) = (0, poses.times.count)
    while low < high {
      let middle = (low + high) / 2
      if poses.times[middle] < time { low = middle + 1 } else { high = middle }
    }
    return low
  }

  private func linear(_ time: Double) -> Pose {
    let next = min(max(index(time), 1), poses.times.count - 1)
    let share = (time - poses.times[next - 1]) / max(poses.times[next] - poses.times[next - 1], 1e-9)
    let (a, b) = (poses.poses[next - 1].quaternion, poses.poses[next].quaternion)
    let q = a + (b - a) * min(max(share, 0), 1)
    return Pose(position: .zero, quaternion: q / (q * q).sum().squareRoot())
  }

  /// The pose at a time: a weighted line through those around it, with the weights of a cubic B-spline. Interpolating would let more noise
  /// through at some times than at others, and so prefer some lags.
  private func pose(at time: Double) -> Pose {
    var low = index(time - 3 * knot)
    var (s0, s1, s2) = (0.0, 0.0, 0.0)
    var (p0, p1) = (SIMD3<Double>.zero, SIMD3<Double>.zero)
    var (q0, q1) = (SIMD4<Double>.zero, SIMD4<Double>.zero)
    while low < poses.times.count {
      let u = (poses.times[low] - time) / knot
      if u >= 3 { break }
      let a = abs(u)
      let weight = (a < 1 ? 2.0 / 3 - a * a + a * a * a / 2 : a < 2 ? (2 - a) * (2 - a) * (2 - a) / 6 : 0) + 1e-9
      s0 += weight
      s1 += weight * u
      s2 += weight * u * u
      let (position, rotation) = (poses.poses[low].position, poses.poses[low].quaternion)
      p0 += weight * position
      p1 += weight * u * position
      q0 += weight * rotation
      q1 += weight * u * rotation
      low += 1
    }
    let determinant = max(s0 * s2 - s1 * s1, 1e-30)
    let q = (s2 * q0 - s1 * q1) / determinant
    return Pose(position: (s2 * p0 - s1 * p1) / determinant, quaternion: q / (q * q).sum().squareRoot())
  }

  /// Of each pair, the pose at its second image in the camera's axes at its first one, for images that are late by these seconds.
  func steps(late: Double) -> [Pose] {
    var last: (time: Double, pose: Pose)?
    return pairs.map { pair in
      // A pair often starts where the one before ends.
      let known = last.flatMap { $0.time == pair.start ? $0.pose : nil }
      let a = known ?? pose(at: pair.start - late), b = pose(at: pair.end - late)
      last = (pair.end, b)
      return a.inverse.composed(with: b)
    }
  }

  /// The motion of the camera between the images of each pair, for each line if they were read one after the other.
  struct Motion {
    fileprivate var steps: [cmotion_step]
    fileprivate var isByLine: Bool
  }

  /// - Parameter readout: Seconds from one edge of the shorter side to the other; `lag` is that of the middle.
  func motion(_ lag: Double, readout: Double = 0) -> Motion {
    let isByLine = readout != 0
    let steps = (isByLine ? places : [0]).flatMap { place -> [cmotion_step] in
      var earlier = pairs.first?.start ?? 0
      return zip(pairs.indices, self.steps(late: lag - readout * place)).map { index, step in
        let start = pairs[index].start
        defer { earlier = start }
        let axes = step.axes
        let moved = Pose(position: .zero, quaternion: step.quaternion).inverse.rotate(step.position)
        func three(_ v: SIMD3<Double>) -> (Float, Float, Float) { (Float(v.x), Float(v.y), Float(v.z)) }
        return cmotion_step(
          right: three(axes.x), below: three(axes.y), ahead: three(axes.z), moved: three(moved), seconds: Float(start - earlier),
          chunk: UInt32(chunkOf[index]))
      }
    }
    return Motion(steps: steps, isByLine: isByLine)
  }

  // MARK: Costs

  private func run(_ motion: Motion, _ scale: Double, innovations: UnsafeMutablePointer<Float>?) -> [Float] {
    var costs = [Float](repeating: 0, count: chunks * x.count)
    cmotion_surprise(
      motion.steps, pairs.count, motion.isByLine ? pairs.count : 0, shifts, x, y, x.count, Float(focal * scale), Float(trust), &costs,
      innovations)
    return costs
  }

  func cost(_ motion: Motion, _ scale: Double) -> Cost {
    let (all, count, lines) = (run(motion, scale, innovations: nil), x.count, places.count)
    // Regions are of two lines and two blocks of each.
    var cost = Cost(
      chunks: Array(repeating: 0, count: chunks), regions: Array(repeating: 0, count: (lines + 1) / 2 * 4),
      lines: Array(repeating: 0, count: lines))
    for chunk in 0..<chunks {
      for block in 0..<count {
        let (value, line) = (Double(all[chunk * count + block]), block / Self.line)
        cost.chunks[chunk] += value
        cost.regions[line / 2 * 4 + block % Self.line / 2] += value
        cost.lines[line] += value
      }
    }
    return cost
  }

  /// Divides the information by what the innovations show: their median is 1.39 where the shifts are as exact as they claim.
  mutating func calibrate(_ motion: Motion, _ scale: Double) {
    let known = innovations(motion, scale).filter { $0.information > Self.leastInformation }.map(\.squared)
    if !known.isEmpty { trust = 1 / max(1, Self.median(known) / (1.39 * trust)) }
  }

  /// The root of the share of the shifts' squares, by their information, that the motion of the camera explains; shifts that surprise count less.
  func correlation(_ motion: Motion, _ scale: Double) -> Double {
    let (rest, whole) = innovations(motion, scale).reduce(into: (0.0, 0.0)) { sums, one in
      let weight = 5 / (3 + one.squared)
      sums = (sums.0 + weight * one.squared, sums.1 + weight * one.whole * trust)
    }
    return whole > 0 ? max(0, 1 - rest / whole).squareRoot() : 0
  }

  /// Of each pair and block: the squared innovation, the trace of the information, and the square of the whole shift by its information.
  private func innovations(_ motion: Motion, _ scale: Double) -> [(squared: Double, information: Double, whole: Double)] {
    let count = x.count
    var squares = [Float](repeating: 0, count: pairs.count * count)
    _ = run(motion, scale, innovations: &squares)
    return pairs.indices.flatMap { pair in
      (0..<count).map { block in
        let own = (0..<5).map { Double(pairs[pair].shifts[$0 * count + block]) }
        return (
          Double(squares[pair * count + block]), own[2] + own[4],
          own[2] * own[0] * own[0] + 2 * own[3] * own[0] * own[1] + own[4] * own[1] * own[1]
        )
      }
    }
  }
}
