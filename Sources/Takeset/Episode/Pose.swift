import Foundation

/// In which axes and unit poses are given.
package struct PoseFrame: Equatable, Sendable {
  package var cameraAxes: String
  package var worldAxes: String
  /// `m`, `m (claimed)` or `arbitrary`.
  package var unit: String

  /// A structure-from-motion program's camera, in OpenCV's axes, in a world of its own.
  package static func slam(unit: String) -> PoseFrame {
    PoseFrame(cameraAxes: "x right, y down, z forward", worldAxes: "arbitrary rotation and origin, right-handed", unit: unit)
  }

  /// ARKit's world, seen by a camera whose y and z were turned round.
  package static let strayScanner = PoseFrame(cameraAxes: "x right, y down, z forward", worldAxes: arkit.worldAxes, unit: "m")

  /// Numbers that stand for no camera.
  package static let synthetic = PoseFrame(cameraAxes: "arbitrary", worldAxes: "arbitrary", unit: "arbitrary")

  /// ARKit's camera and gravity-aligned world.
  package static let arkit = PoseFrame(
    cameraAxes: "x right, y up, z back", worldAxes: "y up, gravity-aligned; origin and heading of the AR session",
    unit: "m")
}

/// A camera-to-world pose: position, and rotation as a unit quaternion, scalar last.
package struct Pose: Equatable, Sendable {
  package var position: SIMD3<Double>
  /// x, y, z, w.
  package var quaternion: SIMD4<Double>

  package init(position: SIMD3<Double>, quaternion: SIMD4<Double>) {
    self.position = position
    self.quaternion = quaternion
  }

  /// Why a matrix is not a pose.
  package enum Defect: String, Error {
    case notFinite = "a number that is not finite"
    case lastRow = "a last row other than 0 0 0 1"
    case determinant = "a rotation whose determinant is not within 0.99..1.01"
    case orthogonality = "axes that are not orthonormal within 1e-3"
  }

  /// The pose of a 4x4 row-major camera-to-world matrix, whose rotation part is replaced by the nearest rotation
  /// (the orthogonal factor of its polar decomposition, Higham 1986).
  package init(rowMajor m: UnsafeBufferPointer<Double>) throws(Defect) {
    precondition(m.count == 16, "a 4x4 matrix has 16 numbers")
    // Poses are stored as 32-bit floats, in which these must be finite too.
    for number in m where !Float(number).isFinite { throw .notFinite }
    guard abs(m[12]) < 1e-6, abs(m[13]) < 1e-6, abs(m[14]) < 1e-6, abs(m[15] - 1) < 1e-6 else { throw .lastRow }
    let rotation = Matrix3(rows: [m[0], m[1], m[2]], [m[4], m[5], m[6]], [m[8], m[9], m[10]])
    guard (0.99...1.01).contains(rotation.determinant) else { throw .determinant }
    guard rotation.orthogonalityError < 1e-3 else { throw .orthogonality }
    position = [m[3], m[7], m[11]]
    quaternion = rotation.nearestRotation.quaternion
  }

  package init(rowMajor m: [Double]) throws(Defect) { self = try m.withUnsafeBufferPointer { (m) throws(Defect) in try Pose(rowMajor: m) } }

  /// The quaternion or its negative, whichever is nearer to `previous`; without one, the one with w >= 0.
  package func continuing(_ previous: SIMD4<Double>?) -> Pose {
    let reference = previous ?? [0, 0, 0, 1]
    return (quaternion * reference).sum() < 0 ? Pose(position: position, quaternion: -quaternion) : self
  }
}

/// A 3x3 matrix by rows.
struct Matrix3 {
  var rows: (SIMD3<Double>, SIMD3<Double>, SIMD3<Double>)

  init(rows a: SIMD3<Double>, _ b: SIMD3<Double>, _ c: SIMD3<Double>) { rows = (a, b, c) }

  var determinant: Double { (rows.0 * cross(rows.1, rows.2)).sum() }

  /// The largest deviation of R times its transpose from the identity.
  var orthogonalityError: Double {
    let (a, b, c) = rows
    let lengths = max(abs((a * a).sum() - 1), abs((b * b).sum() - 1), abs((c * c).sum() - 1))
    return max(lengths, abs((a * b).sum()), abs((a * c).sum()), abs((b * c).sum()))
  }

  /// Newton's iteration X <- (X + inverse transpose of X) / 2, which converges quadratically to the orthogonal polar factor.
  var nearestRotation: Matrix3 {
    var x = self
    for _ in 0..<20 {
      let (a, b, c) = x.rows
      // The rows of the inverse transpose are the cofactors over the determinant.
      let scale = 1 / x.determinant
      let next = Matrix3(
        rows: (a + cross(b, c) * scale) / 2, (b + cross(c, a) * scale) / 2, (c + cross(a, b) * scale) / 2)
      let (da, db, dc) = (next.rows.0 - a, next.rows.1 - b, next.rows.2 - c)
      let step = (da * da).sum() + (db * db).sum() + (dc * dc).sum()
      x = next
      if step < 1e-30 { break }
    }
    return x
  }

  /// The unit quaternion x, y, z, w of a rotation, from its largest component (Shepperd 1978), with w >= 0.
  var quaternion: SIMD4<Double> {
    let (r0, r1, r2) = rows
    let trace = r0.x + r1.y + r2.z
    let greatest = max(r0.x, r1.y, r2.z, trace)
    var q: SIMD4<Double>
    switch greatest {
    case r0.x: q = [1 + r0.x - r1.y - r2.z, r0.y + r1.x, r0.z + r2.x, r2.y - r1.z]
    case r1.y: q = [r0.y + r1.x, 1 - r0.x + r1.y - r2.z, r1.z + r2.y, r0.z - r2.x]
    case r2.z: q = [r0.z + r2.x, r1.z + r2.y, 1 - r0.x - r1.y + r2.z, r1.x - r0.y]
    default: q = [r2.y - r1.z, r0.z - r2.x, r1.x - r0.y, 1 + trace]
    }
    q /= (q * q).sum().squareRoot()
    return q.w < 0 ? -q : q
  }
}

func cross(_ a: SIMD3<Double>, _ b: SIMD3<Double>) -> SIMD3<Double> {
  [a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x]
}
