import Foundation
import Model

/// Readings of the phone's IMU along `Trajectory.smooth`: 100 Hz, handled up to 4 ms late, acceleration in g, angular velocity in rad/s, both
/// in the device's axes.
struct IMUSimulation {
  /// Readings with times in nanoseconds on the frames' clock plus the offset, acceleration without gravity and gravity in g, and angular velocity in rad/s.
  private(set) var readings: [Reading] = []
  typealias Reading = (time: Int64, acceleration: SIMD3<Double>, gravity: SIMD3<Double>, gyro: SIMD3<Double>)

  private static let rate = 100.0
  /// Sampling rate in Hz for differentiating positions and rotations.
  private static let fine = 400.0

  /// - Parameter offset: Phone epoch minus frame uptime in nanoseconds.
  init(from first: Timestamp, seconds: Double, _ offset: Int64, _ seed: UInt64) {
    var random = SplitMix(seed: seed ^ 0x14B0)
    let path = Trajectory.smooth(seconds: seconds + 0.1, rate: Self.fine, seed: seed, jitter: 0).samples.map(\.matrix)
    let stride = Int(Self.fine / Self.rate)
    for index in Swift.stride(from: stride, to: path.count - stride, by: stride) {
      let time = first.nanoseconds + Int64((Double(index) * 1e9 / Self.fine).rounded())
      let handled = time + 500_000 + Int64(random.next() % 3_500_000) + offset
      let gyro = Self.angularVelocity(path[index - 1], path[index + 1])
      let acceleration = Self.acceleration(path[index - 1], path[index], path[index + 1])
      // Down in the camera's axes: the world has y up.
      let down = SIMD3(-path[index][4], -path[index][5], -path[index][6])
      readings.append((handled, acceleration, Self.device(down), gyro))
    }
  }

  /// The readings in the CSV format of the Stray Scanner app: from 0.1 s after the first frame to before the last, with gravity, in g or in
  /// m/s².
  func csv(inG: Bool) -> String {
    let first = readings.first?.time ?? 0
    let lines = readings.filter { $0.time - first > 100_000_000 }.dropLast(12).map { reading in
      let (acceleration, gyro) = ((reading.acceleration + reading.gravity) * (inG ? 1 : 9.80665), reading.gyro)
      let numbers = [acceleration.x, acceleration.y, acceleration.z, gyro.x, gyro.y, gyro.z]
      return ([Trajectory.decimal(reading.time)] + numbers.map { "\($0)" }).joined(separator: ", ")
    }
    return (["timestamp, a_x, a_y, a_z, alpha_x, alpha_y, alpha_z"] + lines).joined(separator: "\n") + "\n"
  }

  /// Conversion from camera axes (ARKit, landscape) to the device's (portrait).
  private static func device(_ camera: SIMD3<Double>) -> SIMD3<Double> { [camera.y, -camera.x, camera.z] }

  /// Angular velocity from the antisymmetric part of the rotation between two poses.
  private static func angularVelocity(_ a: [Double], _ b: [Double]) -> SIMD3<Double> {
    func relative(_ row: Int, _ column: Int) -> Double { (0..<3).reduce(0) { $0 + a[$1 * 4 + row] * b[$1 * 4 + column] } }
    let sine = SIMD3(relative(2, 1) - relative(1, 2), relative(0, 2) - relative(2, 0), relative(1, 0) - relative(0, 1)) / 2
    return device(sine * fine / 2)
  }

  private static func acceleration(_ a: [Double], _ b: [Double], _ c: [Double]) -> SIMD3<Double> {
    func position(_ m: [Double]) -> SIMD3<Double> { [m[3], m[7], m[11]] }
    let world = (position(a) - 2 * position(b) + position(c)) * fine * fine / 9.80665
    func axis(_ column: Int) -> Double { world.x * b[column] + world.y * b[4 + column] + world.z * b[8 + column] }
    return device([axis(0), axis(1), axis(2)])
  }
}

/// The same motion as an accelerometer and a gyroscope report it that have times of their own: m/s², with the reaction to gravity, and rad/s.
struct SeparateSensors {
  typealias Reading = (time: Int64, value: SIMD3<Double>)
  var accelerations: [Reading] = []
  var rotations: [Reading] = []

  init(from first: Timestamp, seconds: Double, seed: UInt64) {
    let readings = IMUSimulation(from: first, seconds: seconds, 0, seed).readings
    for reading in readings { rotations.append((reading.time, reading.gyro)) }
    // Each acceleration is measured between two rotations: the mean of the two motions, 3 ms after the first.
    for (one, next) in zip(readings, readings.dropFirst()) {
      let step = Double(min(3_000_000, (next.time - one.time) / 2))
      let weight = step / Double(next.time - one.time)
      func force(_ reading: (time: Int64, acceleration: SIMD3<Double>, gravity: SIMD3<Double>, gyro: SIMD3<Double>)) -> SIMD3<Double> {
        (reading.acceleration - reading.gravity) * 9.80665
      }
      accelerations.append((one.time + Int64(step), force(one) * (1 - weight) + force(next) * weight))
    }
  }
}
