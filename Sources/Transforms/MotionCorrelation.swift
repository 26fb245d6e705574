import Foundation
import Model

/// The offset between the clock of a phone's IMU and that of the frames, from the phone's angular velocity as measured by the gyroscope
/// and as derived from the poses. Its magnitude is the same in camera and device axes.
///
/// Both are sampled on one grid, and the peak of their normalized cross-correlation is searched within a few seconds of the start of both
/// recordings; a parabola through the peak gives fractions of the grid's step.
struct MotionCorrelation {
  /// Added to the IMU's times to get the frames' clock.
  private(set) var offset: Int64
  /// Greatest deviation from the offset of the two halves of the take, at least a millisecond, in nanoseconds.
  let residual: Int64
  /// Correlation at the peak, -1 to 1.
  let correlation: Double
  /// The same at the offset that was guessed.
  let correlationAsGuessed: Double

  private static let step = 0.005
  private static let reach = 3.0
  /// Correlation below which the two do not show the same motion.
  private static let least = 0.9
  /// Least correlation for joints, which move when the arm does, but not in the same way.
  private static let leastOfJoints = 0.7
  /// Greatest deviation between the offsets of the halves of a take, in seconds.
  private static let greatestSpread = 0.02
  /// Factor by which the deficit to 1, a quarter of a second or more from the peak, must exceed the deficit at the peak: slow motion
  /// resembles itself for long, and this shows how distinct the peak is.
  private static let contrast = 2.0

  /// A quantity over time, in seconds.
  struct Series {
    var times: [Double]
    var values: [Double]
  }

  /// - Parameters:
  ///   - poses: Angular velocity from the poses, rad/s, on the frames' clock.
  ///   - gyro: Angular velocity from the gyroscope, rad/s, on the IMU's clock.
  ///   - guess: Offset to add to the IMU's times to get the frames' clock, accurate within `reach` seconds.
  init?(poses: Series, gyro: Series, guess: Double, least: Double = Self.least, reach: Double = Self.reach) {
    guard poses.times.count > 30, gyro.times.count > 30, let start = poses.times.first, let end = poses.times.last, end - start > 1,
      end - start < 7200
    else { return nil }
    let steps = Int((end - start) / Self.step)
    let reference = Self.sampled(poses, from: start, count: steps)
    // The gyroscope's samples, averaged over the interval between poses, as the poses' angular velocity is.
    let width = (end - start) / Double(poses.times.count - 1)
    let padded = Int(reach / Self.step)
    let moving = Self.sampled(
      Self.averaged(gyro, over: width), from: start - guess - reach, count: steps + 2 * padded)
    guard let peak = Self.peak(reference, moving, lags: 0...(2 * padded), range: 0..<steps), peak.value >= least, peak.isAlone else {
      return nil
    }
    func offset(_ lag: Double) -> Double { guess - (lag * Self.step - reach) }
    let overall = offset(peak.lag)
    // Each half separately, near the peak.
    let near = Int(0.1 / Self.step)
    let center = Int(peak.lag.rounded())
    let lags = max(0, center - near)...min(2 * padded, center + near)
    let halves = [0..<(steps / 2), (steps / 2)..<steps].compactMap { Self.peak(reference, moving, lags: lags, range: $0) }
    let spread = halves.map { abs(offset($0.lag) - overall) }.max() ?? 0.1
    guard spread <= Self.greatestSpread else { return nil }
    self.offset = Int64((overall * 1e9).rounded())
    residual = Int64((max(spread, 0.001) * 1e9).rounded())
    correlation = peak.value
    correlationAsGuessed = Self.correlation(reference, moving, lag: padded, range: 0..<steps)
  }

  /// Whether the correlation at the offset that was guessed is so low as it is far from the peak.
  var contradictsGuess: Bool { 1 - correlationAsGuessed >= Self.contrast * (1 - correlation) }

  /// Values on a regular grid by linear interpolation; NaN outside.
  private static func sampled(_ series: Series, from start: Double, count: Int) -> [Double] {
    var next = 0
    return (0..<count).map { index in
      let time = start + Double(index) * step
      while next < series.times.count, series.times[next] < time { next += 1 }
      guard next > 0, next < series.times.count else { return .nan }
      let (a, b) = (series.times[next - 1], series.times[next])
      let fraction = b > a ? (time - a) / (b - a) : 0
      return series.values[next - 1] + (series.values[next] - series.values[next - 1]) * fraction
    }
  }

  /// The mean over a window around each moment.
  private static func averaged(_ series: Series, over width: Double) -> Series {
    var (low, high) = (0, 0)
    var sum = 0.0
    let values = series.times.map { time in
      while high < series.times.count, series.times[high] <= time + width / 2 {
        sum += series.values[high]
        high += 1
      }
      while low < high, series.times[low] < time - width / 2 {
        sum -= series.values[low]
        low += 1
      }
      return high > low ? sum / Double(high - low) : 0
    }
    return Series(times: series.times, values: values)
  }

  private struct Peak {
    /// Position in grid steps, with fractions.
    var lag: Double
    var value: Double
    /// Whether no score far from the peak comes near it, and the peak is not at the edge of the search.
    var isAlone: Bool
  }

  private static func peak(_ reference: [Double], _ moving: [Double], lags: ClosedRange<Int>, range: Range<Int>) -> Peak? {
    let scores = lags.map { correlation(reference, moving, lag: $0, range: range) }
    guard let best = scores.indices.max(by: { scores[$0] < scores[$1] }), scores[best] > -1 else { return nil }
    let far = Int(0.25 / step)
    let rival = scores.indices.filter { abs($0 - best) > far }.map { scores[$0] }.max() ?? -1
    guard best > 0, best < scores.count - 1 else { return Peak(lag: Double(lags.lowerBound + best), value: scores[best], isAlone: false) }
    let (left, middle, right) = (scores[best - 1], scores[best], scores[best + 1])
    let curvature = left - 2 * middle + right
    let shift = curvature < 0 && left > -1 && right > -1 ? 0.5 * (left - right) / curvature : 0
    return Peak(lag: Double(lags.lowerBound + best) + shift, value: middle, isAlone: 1 - rival >= contrast * (1 - middle))
  }

  /// Pearson's correlation of the overlap; -2 when that is less than half of the range.
  private static func correlation(_ reference: [Double], _ moving: [Double], lag: Int, range: Range<Int>) -> Double {
    var (n, sumA, sumB, sumAA, sumBB, sumAB) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for index in range {
      let (a, b) = (reference[index], moving[index + lag])
      if a.isNaN || b.isNaN { continue }
      n += 1
      sumA += a
      sumB += b
      sumAA += a * a
      sumBB += b * b
      sumAB += a * b
    }
    guard n * 2 > Double(range.count) else { return -2 }
    let variance = (n * sumAA - sumA * sumA) * (n * sumBB - sumB * sumB)
    return variance > 0 ? (n * sumAB - sumA * sumB) / variance.squareRoot() : -2
  }
}

extension MotionCorrelation {
  /// The offset for an episode with poses and an IMU on another clock.
  init?(_ episode: Episode) throws {
    guard let pose = episode.bodyPose, let imu = episode.streams.first(where: { $0.value.spec.kind == .inertial })?.value,
      imu.spec.clock != episode.frames.clock,
      let first = imu.timestamps.first, let start = episode.captureStart ?? episode.frames.timestamps.first
    else { return nil }
    let origin = start.since(first)
    guard origin > .min / 2, origin < .max / 2,
      let found = MotionCorrelation(
        poses: try Self.angularVelocity(pose, since: start), gyro: try Self.angularVelocity(ofIMU: imu, since: first), guess: 0)
    else { return nil }
    self = found
    offset += origin
  }

  /// Angular velocity as the gyroscope measures it in rad/s.
  static func angularVelocity(ofIMU imu: SampleStream, since start: Timestamp) throws -> Series {
    var gyro = Series(times: [], values: [])
    var cursor = try imu.source.makeCursor(SampleRequest())
    var bytes: [UInt8] = []
    for index in imu.timestamps.indices {
      try cursor.read(index, into: &bytes)
      let (x, y, z) = bytes.withUnsafeBytes {
        let reading = $0.bindMemory(to: Float.self)
        return (Double(reading[3]), Double(reading[4]), Double(reading[5]))
      }
      gyro.times.append(Double(imu.timestamps[index].since(start)) / 1e9)
      gyro.values.append((x * x + y * y + z * z).squareRoot())
    }
    return gyro
  }

  /// The offset for joints of a session without an IMU: their speed, all channels together, against the phone's angular velocity.
  ///
  /// - Parameter times: Times of the readings, on their own clock.
  init?(joints: SampleStream, at times: [Timestamp], in episode: Episode) throws {
    guard let pose = episode.bodyPose, let first = times.first, let start = episode.captureStart ?? episode.frames.timestamps.first
    else { return nil }
    let rotation = try Self.angularVelocity(pose, since: start)
    var activity = Series(times: [], values: [])
    var cursor = try joints.source.makeCursor(SampleRequest())
    var bytes: [UInt8] = []
    var last: (time: Double, angles: [Float])?
    for index in times.indices {
      try cursor.read(index, into: &bytes)
      let angles = bytes.withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
      let time = Double(times[index].since(first)) / 1e9
      if let last, time > last.time, time - last.time < 0.2 {
        let moved = zip(last.angles, angles).map { abs(Double($1 - $0)) }.filter { !$0.isNaN }
        activity.times.append((time + last.time) / 2)
        activity.values.append(moved.reduce(0, +) / (time - last.time))
      }
      last = (time, angles)
    }
    guard let found = MotionCorrelation(poses: rotation, gyro: activity, guess: 0, least: Self.leastOfJoints) else { return nil }
    let origin = start.since(first)
    guard origin > .min / 2, origin < .max / 2 else { return nil }
    self = found
    offset += origin
  }

  /// Angular velocity between neighboring poses in rad/s. Seconds since `start` keep doubles exact enough.
  static func angularVelocity(_ pose: SampleStream, since start: Timestamp) throws -> Series {
    var velocity = Series(times: [], values: [])
    var cursor = try pose.source.makeCursor(SampleRequest())
    var bytes: [UInt8] = []
    var last: (time: Double, quaternion: SIMD4<Double>)?
    for index in pose.timestamps.indices {
      try cursor.read(index, into: &bytes)
      let numbers = bytes.withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
      let quaternion = SIMD4(numbers[3...6].map { Double($0) })
      let time = Double(pose.timestamps[index].since(start)) / 1e9
      if let last, time > last.time, time - last.time < 0.1 {
        let rotation = FrameQuality.rotationVector(from: last.quaternion, to: quaternion)
        let rate = (rotation * rotation).sum().squareRoot() / (time - last.time)
        // A jump of the tracking is seen by no gyroscope.
        if rate <= FrameQuality.greatestRotation {
          velocity.times.append((time + last.time) / 2)
          velocity.values.append(rate)
        }
      }
      last = (time, quaternion)
    }
    return velocity
  }
}

extension Episode {
  /// The poses of the phone; the first by name if several streams have poses.
  var bodyPose: SampleStream? {
    firstStream { $0.spec.kind.poseFrame != nil }?.stream
  }
}
