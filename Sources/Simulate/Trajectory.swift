import Foundation
package import Model
import Steps

/// The path of a simulated camera: camera-to-world matrices at exact nanoseconds of device uptime.
package struct Trajectory: Sendable {
  /// The camera at one frame.
  package struct Sample: Sendable {
    package var time: Timestamp
    /// Camera-to-world matrix, 4x4, row-major, ARKit axes.
    package var matrix: [Double]
    /// Digits of the time in seconds, as the app writes them.
    package var seconds: String
  }

  package var samples: [Sample]

  /// A slow walk around the room with a rotating camera, at a rate in Hz.
  ///
  /// - Parameter jitter: Half-width in nanoseconds of the deviation of each frame from its tick.
  package static func smooth(seconds: Double, rate: Double, seed: UInt64, jitter: Int64 = 40_000) -> Trajectory {
    var random = SplitMix(seed: seed)
    let start: Int64 = 81_234_567_890_125 + Int64(random.next() % 1_000_000_000)
    let phases = (0..<6).map { _ in random.unit() * 2 * .pi }
    let count = max(1, Int((seconds * rate).rounded()))
    return Trajectory(
      samples: (0..<count).map { index in
        let t = Double(index) / rate
        func wave(_ index: Int, _ period: Double, _ amplitude: Double) -> Double {
          amplitude * sin(2 * .pi * t / period + phases[index])
        }
        let position = SIMD3(wave(0, 9, 0.9), 0.1 + wave(1, 7, 0.25), wave(2, 11, 0.7))
        let matrix = rotation(yaw: 0.5 * t + wave(3, 8, 0.4), pitch: wave(4, 6, 0.3), roll: wave(5, 5, 0.08))
        let deviation = jitter > 0 ? Int64(random.next() % UInt64(2 * jitter + 1)) - jitter : 0
        let time = start + Int64((Double(index) * 1e9 / rate).rounded()) + deviation
        return Sample(time: Timestamp(nanoseconds: time), matrix: matrix44(matrix, position), seconds: decimal(time))
      })
  }

  /// Reads the text format of ARKit pose loggers: `#` comments, then lines of a time in nanoseconds and a row-major 3x4
  /// camera-to-world matrix.
  package init(text: String, name: String) throws {
    samples = []
    for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      let fields = line.split(whereSeparator: { $0 == " " || $0 == "\t" || $0 == "\r" })
      if fields.isEmpty || fields[0].hasPrefix("#") { continue }
      let numbers = fields.dropFirst().compactMap { Double($0) }
      guard fields.count == 13, numbers.count == 12, numbers.allSatisfy({ abs($0) < 1e4 }), let time = Int64(fields[0]),
        (0..<(1 << 60)).contains(time)
      else {
        throw UsageError("\(name), line \(number + 1): expected a time in ns and 12 numbers below 10000, found \(fields.count) fields")
      }
      samples.append(
        Sample(
          time: Timestamp(nanoseconds: time), matrix: numbers + [0, 0, 0, 1], seconds: Self.decimal(time)))
    }
    if samples.isEmpty { throw UsageError("\(name) has no poses") }
  }

  private init(samples: [Sample]) { self.samples = samples }

  /// The time in seconds with nine decimals.
  static func decimal(_ nanoseconds: Int64) -> String {
    "\(nanoseconds / 1_000_000_000)." + (nanoseconds % 1_000_000_000).padded(to: 9)
  }

  private static func rotation(yaw: Double, pitch: Double, roll: Double) -> [Double] {
    let (cy, sy, cp, sp, cr, sr) = (cos(yaw), sin(yaw), cos(pitch), sin(pitch), cos(roll), sin(roll))
    // Yaw about the world's up axis, then pitch about the camera's x, then roll about its z.
    return [
      cy * cr + sy * sp * sr, -cy * sr + sy * sp * cr, sy * cp,
      cp * sr, cp * cr, -sp,
      -sy * cr + cy * sp * sr, sy * sr + cy * sp * cr, cy * cp,
    ]
  }

  private static func matrix44(_ r: [Double], _ p: SIMD3<Double>) -> [Double] {
    [r[0], r[1], r[2], p.x, r[3], r[4], r[5], p.y, r[6], r[7], r[8], p.z, 0, 0, 0, 1]
  }
}

/// Steele, Lea and Flood's SplitMix64, which gives the same numbers from the same seed on every machine.
package struct SplitMix: RandomNumberGenerator {
  private var state: UInt64
  package init(seed: UInt64) { state = seed }

  /// Returns the next number of SplitMix64 (Steele, Lea and Flood 2014): the same for a seed on any machine.
  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }

  /// The next number in 0..<1.
  mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }
}
