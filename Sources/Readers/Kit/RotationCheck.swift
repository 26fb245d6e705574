import Foundation
package import Model

/// A check of an IMU against the poses, whichever reader made them: both tell how fast the phone turns. Degrees a second that are taken for radians are 57
/// times as fast.
package enum RotationCheck {
  /// Greatest ratio of the two average rates.
  private static let factor = 5.0
  /// Rates below this are noise, in rad/s.
  private static let least = 0.2
  /// Both are compared over steps of this length, in which shaking and the poses' noise cancel, and no longer than the gap, in nanoseconds.
  private static let step: Int64 = 100_000_000, gap: Int64 = 500_000_000
  private static let fewest = 18
  /// Greatest difference of the spans on different clocks, as a part: where one goes on alone, nothing is known of the other.
  private static let spanDifference = 0.1

  /// Returns a finding where the IMU and the poses turn at rates of more than `factor` between them; none where both hardly turn.
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

  /// Passes the numbers of each sample to `body`, in order; `false` where one cannot be read, or where there are few.
  private static func forEach(_ stream: SampleStream, width: Int, _ body: (Timestamp, UnsafeBufferPointer<Float>) -> Void) -> Bool {
    guard stream.timestamps.count >= fewest, var cursor = try? stream.source.makeCursor(SampleRequest()) else { return false }
    var bytes: [UInt8] = []
    for (sample, time) in stream.timestamps.enumerated() {
      guard (try? cursor.read(sample, into: &bytes)) != nil, bytes.count == 4 * width else { return false }
      bytes.withUnsafeBytes { body(time, $0.bindMemory(to: Float.self)) }
    }
    return true
  }

  /// The mean of all rates, and that of the steps, in each of which the readings are averaged as vectors: what shaking leaves.
  private static func rates(ofIMU stream: SampleStream, in span: ClosedRange<Timestamp>) -> (all: Double, steady: Double)? {
    var (all, steady) = (Mean(), Mean())
    var (sum, count, current): (SIMD3<Double>, Double, Int64) = (.zero, 0, 0)
    func endStep() { if count > 0 { steady.add((sum * sum).sum().squareRoot() / count) } }
    let isRead = forEach(stream, width: 6) { time, reading in
      guard span.contains(time) else { return }
      let rate = SIMD3(Double(reading[3]), Double(reading[4]), Double(reading[5]))
      all.add((rate * rate).sum().squareRoot())
      let step = time.since(span.lowerBound) / Self.step
      if step != current {
        endStep()
        (sum, count, current) = (.zero, 0, step)
      }
      sum += rate
      count += 1
    }
    endStep()
    return isRead && steady.count >= leastSteps ? (all.value, steady.value) : nil
  }
  private static let leastSteps = 3.0

  private struct Mean {
    private var sum = 0.0
    private(set) var count = 0.0
    var value: Double { sum / count }

    mutating func add(_ number: Double) { (sum, count) = (sum + number, count + 1) }
  }

  private static func rate(ofPoses stream: SampleStream) -> Double? {
    var (angle, seconds) = (0.0, 0.0)
    var from: (time: Timestamp, quaternion: SIMD4<Double>)?
    let isRead = forEach(stream, width: 7) { time, pose in
      let quaternion = SIMD4(Double(pose[3]), Double(pose[4]), Double(pose[5]), Double(pose[6]))
      if let from {
        let nanoseconds = time.since(from.time)
        guard nanoseconds >= step else { return }
        if nanoseconds <= gap {
          angle += 2 * acos(min(abs((from.quaternion * quaternion).sum()), 1))
          seconds += Double(nanoseconds) / 1e9
        }
      }
      from = (time, quaternion)
    }
    return isRead && seconds > 0 ? angle / seconds : nil
  }
}
