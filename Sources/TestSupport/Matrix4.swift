import Foundation
package import Model

/// A 4x4 matrix by rows, with the textbook formulas: it shares no code with `Pose`.
package struct Matrix4 {
  package var m: [Double]

  private init(_ m: [Double]) { self.m = m }

  /// The matrix of a position and a unit quaternion x, y, z, w.
  package init(_ pose: Pose) {
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
  package init(columns x: SIMD3<Double>, _ y: SIMD3<Double>, _ z: SIMD3<Double>) {
    m = [x.x, y.x, z.x, 0, x.y, y.y, z.y, 0, x.z, y.z, z.z, 0, 0, 0, 0, 1]
  }

  /// The rotation about an axis by an angle in radians (Rodrigues).
  package init(axis a: SIMD3<Double>, angle: Double) {
    let (c, s) = (cos(angle), sin(angle))
    let d = 1 - c
    m = [
      c + a.x * a.x * d, a.x * a.y * d - a.z * s, a.x * a.z * d + a.y * s, 0,
      a.y * a.x * d + a.z * s, c + a.y * a.y * d, a.y * a.z * d - a.x * s, 0,
      a.z * a.x * d - a.y * s, a.z * a.y * d + a.x * s, c + a.z * a.z * d, 0,
      0, 0, 0, 1,
    ]
  }

  package static let identity = Matrix4([1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1])

  /// Returns the product that applies `b` first.
  package static func * (a: Matrix4, b: Matrix4) -> Matrix4 {
    var product = [Double](repeating: 0, count: 16)
    for row in 0..<4 {
      for column in 0..<4 {
        for inner in 0..<4 { product[4 * row + column] += a.m[4 * row + inner] * b.m[4 * inner + column] }
      }
    }
    return Matrix4(product)
  }

  /// Returns the first three numbers of a column: an axis, or the position for column 3.
  package func column(_ number: Int) -> SIMD3<Double> { [m[number], m[4 + number], m[8 + number]] }

  /// The inverse of a rotation and a translation.
  package var inverse: Matrix4 {
    let (x, y, z, p) = (column(0), column(1), column(2), column(3))
    return Matrix4([
      x.x, x.y, x.z, -(x * p).sum(), y.x, y.y, y.z, -(y * p).sum(), z.x, z.y, z.z, -(z * p).sum(), 0, 0, 0, 1,
    ])
  }

  /// The greatest difference of an element.
  package func difference(_ other: Matrix4) -> Double { zip(m, other.m).map { abs($0 - $1) }.max() ?? 0 }
}
