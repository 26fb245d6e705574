import Foundation
package import Model

/// A check of an IMU against the poses, whichever reader made them: both tell how fast the phone turns. Degrees a second that are taken for radians are 57
/// times as fast.
package enum RotationCheck {
  /// How many times as fast one may be as the other on average: shaking that is faster than poses follow is in the IMU alone.
  private static let factor = 5.0
  /// Rates below this are noise, in rad/s.
  private static let least = 0.2
  /// Poses are compared so far apart, which leaves out their noise, and no farther than the gap, in nanoseconds.
  private static let step: Int64 = 100_000_000, gap: Int64 = 500_000_000
  private static let fewest = 18

  package static func findings(_ episode: Episode) -> [Finding] {
    guard !episode.findings.contains(where: { $0.code == .imuImplausible || $0.code == .samplesOutside }),
      let imu = episode.streams[.imu], let poses = episode.streams[.pose], poses.spec.kind.poseFrame != nil,
      let device = rate(ofIMU: imu), let camera = rate(ofPoses: poses), max(device, camera) > least,
      device > factor * camera || camera > factor * device
    else { return [] }
    var finding = Finding(
      .imuImplausible,
      String(
        format: "on average it turns by %.3g rad/s, and the poses by %.3g: one of the two is in another unit or of another take", device,
        camera
      ))
    finding.field = StreamName.imu.rawValue
    return [finding]
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

  private static func rate(ofIMU stream: SampleStream) -> Double? {
    guard let readings = vectors(stream, width: 6) else { return nil }
    return readings.reduce(0) { $0 + ($1[3] * $1[3] + $1[4] * $1[4] + $1[5] * $1[5]).squareRoot() } / Double(readings.count)
  }

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
