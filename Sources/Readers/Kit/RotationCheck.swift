import Foundation
package import Model

/// A check of an IMU against the poses, whichever reader made them: both tell how fast the phone turns. Degrees a second that are taken for radians are 57
/// times as fast.
package enum RotationCheck {
  /// How many times as fast one may be as the other on average.
  private static let factor = 5.0
  /// Rates below this are noise, in rad/s.
  private static let least = 0.2
  /// Both are compared over steps of this length, in which shaking and the poses' noise cancel, and no longer than the gap, in nanoseconds.
  private static let step: Int64 = 100_000_000, gap: Int64 = 500_000_000
  private static let fewest = 18
  /// By which part the spans of both may differ where their clocks do: where one goes on alone, nothing is known of the other.
  private static let spanDifference = 0.1

  package static func findings(_ episode: Episode) -> [Finding] {
    guard !episode.findings.contains(where: { $0.code == .imuImplausible || $0.code == .samplesOutside }),
      let imu = episode.streams[.imu], let poses = episode.streams[.pose], poses.spec.kind.poseFrame != nil,
      let span = span(of: imu, beside: poses), let device = rates(ofIMU: imu, in: span), let camera = rate(ofPoses: poses),
      max(device.steady, camera) > least, device.steady > factor * camera || camera > factor * device.all
    else { return [] }
    let rate = device.steady > camera ? device.steady : device.all
    var finding = Finding(
      .imuImplausible,
      String(
        format: "on average it turns by %.3g rad/s, and the poses by %.3g: one of the two is in another unit or of another take", rate,
        camera
      ))
    finding.field = StreamName.imu.rawValue
    return [finding]
  }

  /// The times of the IMU that are of the poses: on one clock those between the first and the last pose, on two all, if both are equally long.
  private static func span(of imu: SampleStream, beside poses: SampleStream) -> ClosedRange<Timestamp>? {
    guard let first = poses.timestamps.first, let last = poses.timestamps.last, let start = imu.timestamps.first,
      let end = imu.timestamps.last, first <= last, start <= end
    else { return nil }
    if imu.spec.clock == poses.spec.clock { return first...last }
    let (own, other) = (Double(end.since(start)), Double(last.since(first)))
    return abs(own - other) <= spanDifference * other ? start...end : nil
  }

  private static func vectors(_ stream: SampleStream, width: Int) -> [[Double]]? {
    guard stream.timestamps.count >= fewest, var cursor = try? stream.source.makeCursor(SampleRequest()) else { return nil }
    var bytes: [UInt8] = []
    let found = stream.timestamps.indices.compactMap { sample -> [Double]? in
      guard (try? cursor.read(sample, into: &bytes)) != nil, bytes.count == 4 * width else { return nil }
      return bytes.withUnsafeBytes { $0.bindMemory(to: Float.self).map(Double.init) }
    }
    return found.count == stream.timestamps.count ? found : nil
  }

  /// The mean of all rates, and that of the steps, in each of which the readings are averaged as vectors: what shaking leaves.
  private static func rates(ofIMU stream: SampleStream, in span: ClosedRange<Timestamp>) -> (all: Double, steady: Double)? {
    guard let readings = vectors(stream, width: 6) else { return nil }
    var sums: [Int64: (sum: SIMD3<Double>, count: Double)] = [:]
    var (total, count) = (0.0, 0.0)
    for (time, reading) in zip(stream.timestamps, readings) where span.contains(time) {
      total += (reading[3] * reading[3] + reading[4] * reading[4] + reading[5] * reading[5]).squareRoot()
      count += 1
      sums[time.since(span.lowerBound) / step, default: (.zero, 0)].sum += SIMD3(reading[3], reading[4], reading[5])
      sums[time.since(span.lowerBound) / step, default: (.zero, 0)].count += 1
    }
    guard sums.count >= leastSteps else { return nil }
    let rates = sums.sorted { $0.key < $1.key }.map { ($0.value.sum * $0.value.sum).sum().squareRoot() / $0.value.count }
    return (total / count, rates.reduce(0, +) / Double(rates.count))
  }
  private static let leastSteps = 3

  private static func rate(ofPoses stream: SampleStream) -> Double? {
    guard let poses = vectors(stream, width: 7) else { return nil }
    var (angle, seconds, from) = (0.0, 0.0, 0)
    for to in poses.indices {
      let nanoseconds = stream.timestamps[to].since(stream.timestamps[from])
      guard nanoseconds >= step else { continue }
      if nanoseconds <= gap {
        let cosine = (3..<7).reduce(0.0) { $0 + poses[from][$1] * poses[to][$1] }
        angle += 2 * acos(min(abs(cosine), 1))
        seconds += Double(nanoseconds) / 1e9
      }
      from = to
    }
    return seconds > 0 ? angle / seconds : nil
  }
}
