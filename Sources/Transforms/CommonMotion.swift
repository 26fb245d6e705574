import Foundation
package import Model

/// Whether two phones that turn together, as on one rig or in one hand, do so at the same time by their clocks.
package enum CommonMotion {
  /// By how much one phone turns later than the other.
  package struct Delay: Sendable {
    package var nanoseconds: Int64
    /// Correlation of their angular velocities with that, and at their own times.
    package var correlation, correlationAsTimed: Double
  }

  /// The greatest that is looked for, in seconds.
  private static let reach = 2.0

  /// The delay of a member's motion after that of the reference; `nil` where they do not turn alike, or turn alike at their own times.
  ///
  /// - Parameter shift: Nanoseconds that are added to the member's times to get the reference's clock.
  package static func delay(of member: Episode, later shift: Int64, than reference: Episode) -> Delay? {
    guard let start = reference.frames.timestamps.first, let own = member.frames.timestamps.first, let one = try? motion(reference, start),
      var other = try? motion(member, own)
    else { return nil }
    let later = Double(own.advanced(by: shift).since(start)) / 1e9
    for index in other.times.indices { other.times[index] += later }
    guard let found = MotionCorrelation(poses: one, gyro: other, guess: 0, reach: reach), found.contradictsGuess else { return nil }
    return Delay(nanoseconds: -found.offset, correlation: found.correlation, correlationAsTimed: found.correlationAsGuessed)
  }

  /// Angular velocity from the poses, or else from an IMU that `align` has put on the frames' clock.
  private static func motion(_ episode: Episode, _ start: Timestamp) throws -> MotionCorrelation.Series? {
    if let pose = episode.bodyPose { return try MotionCorrelation.angularVelocity(pose, since: start) }
    guard let imu = episode.streams.values.first(where: { $0.spec.kind == .inertial }), imu.spec.clock == episode.frames.clock else {
      return nil
    }
    return try MotionCorrelation.angularVelocity(ofIMU: imu, since: start)
  }
}
