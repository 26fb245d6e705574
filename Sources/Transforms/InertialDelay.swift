import Foundation
package import Model

/// A check of an IMU on the frames' own clock: it turns when the poses do, or one of the two has other times than it says.
package enum InertialDelay {
  /// Phones take an image for half of its exposure, and read it line by line: 20 ms at most.
  private static let least: Int64 = 40_000_000
  /// The greatest that is looked for, in seconds.
  private static let greatest = 1.0

  /// The finding that both turn alike at another time; `nil` where they do at their own, or where they turn too little to say so.
  package static func finding(_ episode: Episode) -> Finding? {
    guard let pose = episode.bodyPose, let (name, imu) = episode.streams.first(where: { $0.value.spec.kind == .inertial }),
      imu.spec.clock == pose.spec.clock, let start = pose.timestamps.first,
      let rotation = try? MotionCorrelation.angularVelocity(pose, since: start),
      let gyro = try? MotionCorrelation.angularVelocity(ofIMU: imu, since: start),
      let found = MotionCorrelation(poses: rotation, gyro: gyro, guess: 0, reach: greatest), abs(found.offset) >= least,
      found.contradictsGuess
    else { return nil }
    let words = String(
      format: "it turns %lld ms %@ than the poses: with that the correlation is %.2f, and without %.2f; one of the two has wrong times",
      abs(found.offset) / 1_000_000, found.offset < 0 ? "later" : "earlier", found.correlation, found.correlationAsGuessed)
    return Finding(.imuImplausible, words, field: name.rawValue)
  }
}
