import Model
import Simulate
import TestSupport

/// A 4x4 matrix by rows, with the textbook formulas: it shares no code with `Pose`.
struct Matrix4 {
  var m: [Double]

  private init(_ m: [Double]) { self.m = m }

  /// The matrix of a position and a unit quaternion x, y, z, w.
  init(_ pose: Pose) {
    let (x, y, z, w) = (pose.quaternion.x, pose.quaternion.y, pose.quaternion.z, pose.quaternion.w)
    let p = pose.position
    m = [
      1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w), p.x,
      2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w), p.y,
      2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y), p.z,
      0, 0, 0, 1,
    ]
  }

  /// A rotation by its columns: where it takes x, y and z.
  init(columns x: SIMD3<Double>, _ y: SIMD3<Double>, _ z: SIMD3<Double>) {
    m = [x.x, y.x, z.x, 0, x.y, y.y, z.y, 0, x.z, y.z, z.z, 0, 0, 0, 0, 1]
  }

  static func * (a: Matrix4, b: Matrix4) -> Matrix4 {
    var product = [Double](repeating: 0, count: 16)
    for row in 0..<4 {
      for column in 0..<4 {
        for inner in 0..<4 { product[4 * row + column] += a.m[4 * row + inner] * b.m[4 * inner + column] }
      }
    }
    return Matrix4(product)
  }

  func column(_ number: Int) -> SIMD3<Double> { [m[number], m[4 + number], m[8 + number]] }

  /// The inverse of a rotation and a translation.
  var inverse: Matrix4 {
    let (x, y, z, p) = (column(0), column(1), column(2), column(3))
    return Matrix4([
      x.x, x.y, x.z, -(x * p).sum(), y.x, y.y, y.z, -(y * p).sum(), z.x, z.y, z.z, -(z * p).sum(), 0, 0, 0, 1,
    ])
  }

  /// The greatest difference of an element.
  func difference(_ other: Matrix4) -> Double { zip(m, other.m).map { abs($0 - $1) }.max() ?? 0 }
}

extension Pose {
  /// Poses of any rotation within three meters, as a file of 32-bit floats holds them: unit quaternions to 1e-7, of both signs.
  static func random(_ count: Int, seed: UInt64) -> [Pose] {
    var generator = SplitMix(seed: seed)
    return (0..<count).map { _ in
      var q = SIMD4<Double>.random(in: -1...1, using: &generator)
      while (q * q).sum() < 0.01 { q = .random(in: -1...1, using: &generator) }
      let exact = Pose(position: .random(in: -3...3, using: &generator), quaternion: q / (q * q).sum().squareRoot())
      return Pose(floats: exact.floats)
    }
  }
}

extension Episode {
  /// An episode of poses alone, one every 100 ms; rows without a pose are missing.
  static func posed(_ poses: [Pose?], frame: PoseFrame = .arkit) -> Episode {
    let stamps = poses.indices.map { Timestamp(nanoseconds: Int64($0) * 100_000_000) }
    let numbers = poses.indices.map { Int64($0) }
    let stream = SampleStream(
      spec: StreamSpec(kind: .pose(frame), type: .float32, shape: [7], unit: frame.unit, clock: .deviceUptime),
      source: VectorSource(poses.map { $0 ?? Pose(position: [99, 99, 99], quaternion: [0, 0, 0, 1]) }), timestamps: stamps,
      sourceIndex: numbers, rows: poses.enumerated().map { row, pose in pose.map { _ in Row(row) } })
    return Episode(
      id: "posed", sourceFrames: poses.count, frames: Frames(timestamps: stamps, sourceIndex: numbers, clock: .deviceUptime),
      streams: [.pose: stream])
  }

  /// The pose of each row as it would be stored.
  func poses(of name: StreamName = .pose) throws -> [Pose?] {
    var rows = RowReader(self)
    return try (0..<rows.count).map { try rows.pose(name, at: $0) }
  }
}
