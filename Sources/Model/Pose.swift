import Foundation

/// The axes and the unit of poses.
package struct PoseFrame: Equatable, Sendable {
  /// Directions of a camera's axes; the raw values are stored in files.
  package enum CameraAxes: String, Sendable {
    case arkit = "x right, y up, z back"
    case opencv = "x right, y down, z forward"
    case ros = "x forward, y left, z up"
    case arbitrary

    /// The rotation from these axes to ARKit's, as a quaternion; `nil` for axes that are not a camera's.
    package var arkitFromThese: SIMD4<Double>? {
      switch self {
      case .arkit: [0, 0, 0, 1]
      case .opencv: [1, 0, 0, 0]
      // x forward is -z, y left is -x, z up is y.
      case .ros: [-0.5, 0.5, 0.5, 0.5]
      case .arbitrary: nil
      }
    }
  }

  /// The axes of the world, in the words that files hold: `z up, gravity-aligned; origin and heading of the scan`.
  package struct WorldAxes: Equatable, Sendable, ExpressibleByStringLiteral {
    /// The axis of the world that points up, against gravity.
    package enum Up: String, CaseIterable, Sendable { case y, z }

    package var text: String

    package init(_ text: String) { self.text = text }
    package init(stringLiteral text: String) { self.text = text }

    /// The axis that points up in a world that is aligned with gravity.
    package var up: Up? { Up.allCases.first { text.hasPrefix("\($0.rawValue) up") } }

    /// These axes with another one up.
    package func turned(_ wanted: Up) -> WorldAxes { WorldAxes(wanted.rawValue + text.dropFirst()) }

    /// The axes of a camera, or of a body, at its first frame.
    package static func first(_ axes: CameraAxes?) -> WorldAxes { WorldAxes("\(axes?.rawValue ?? "axes of the body"), at the first frame") }

    /// The axes of the camera that these are; see `first`.
    package var camera: CameraAxes? { [.arkit, .opencv, .ros].first { text.hasPrefix($0.rawValue) } }
  }

  package var cameraAxes: CameraAxes
  package var worldAxes: WorldAxes
  package var unit: LengthUnit
  /// The name of the world, in a take of several members: two poses are in one world if these are equal.
  package var world: String?
  /// The pose in the camera's axes of the body that poses are given for, such as a gripper; `nil` for the camera itself.
  package var body: Pose?

  /// The camera of a structure-from-motion program, with OpenCV's axes, in an arbitrary world.
  package static func slam(unit: LengthUnit) -> PoseFrame {
    PoseFrame(cameraAxes: .opencv, worldAxes: "arbitrary rotation and origin, right-handed", unit: unit)
  }

  /// ARKit's world, with a camera whose y and z axes are reversed.
  package static let strayScanner = PoseFrame(cameraAxes: .opencv, worldAxes: arkit.worldAxes, unit: .meters)

  /// Poses of synthetic data, which belong to no camera.
  package static let synthetic = PoseFrame(cameraAxes: .arbitrary, worldAxes: "arbitrary", unit: .arbitrary)

  package init(cameraAxes: CameraAxes, worldAxes: WorldAxes, unit: LengthUnit) {
    (self.cameraAxes, self.worldAxes, self.unit) = (cameraAxes, worldAxes, unit)
  }

  /// ARKit's camera and gravity-aligned world.
  package static let arkit = PoseFrame(
    cameraAxes: .arkit, worldAxes: "y up, gravity-aligned; origin and heading of the AR session", unit: .meters)
}

/// A camera-to-world pose: position, and rotation as a unit quaternion, scalar last.
///
///     let cameraFromOther = worldFromCamera.inverse.composed(with: worldFromOther)
package struct Pose: Equatable, Sendable {
  package var position: SIMD3<Double>
  /// x, y, z, w.
  package var quaternion: SIMD4<Double>

  package init(position: SIMD3<Double>, quaternion: SIMD4<Double>) {
    self.position = position
    self.quaternion = quaternion
  }

  /// The reason why a matrix is not a valid pose.
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
    // Poses are stored as 32-bit floats, so the numbers must be finite in that type too.
    for number in m where !Float(number).isFinite { throw .notFinite }
    guard abs(m[12]) < 1e-6, abs(m[13]) < 1e-6, abs(m[14]) < 1e-6, abs(m[15] - 1) < 1e-6 else { throw .lastRow }
    let rotation = Matrix3(rows: [m[0], m[1], m[2]], [m[4], m[5], m[6]], [m[8], m[9], m[10]])
    guard (0.99...1.01).contains(rotation.determinant) else { throw .determinant }
    guard rotation.orthogonalityError < 1e-3 else { throw .orthogonality }
    position = [m[3], m[7], m[11]]
    quaternion = rotation.nearestRotation.quaternion
  }

  package init(rowMajor m: [Double]) throws(Defect) { self = try m.withUnsafeBufferPointer { (m) throws(Defect) in try Pose(rowMajor: m) } }

  /// Makes a pose from x, y, z, qx, qy, qz, qw as read from a file; `nil` unless all are finite and the quaternion's norm is 0.99 to 1.01.
  package init?(measured n: [Double]) {
    guard n.count == 7, n[..<3].allSatisfy({ Float($0).isFinite }) else { return nil }
    let norm = (n[3] * n[3] + n[4] * n[4] + n[5] * n[5] + n[6] * n[6]).squareRoot()
    guard norm >= 0.99, norm <= 1.01 else { return nil }
    self.init(position: [n[0], n[1], n[2]], quaternion: SIMD4(n[3], n[4], n[5], n[6]) / norm)
  }

  /// A rotation by a vector's length in radians about its axis, at the origin; `nil` unless the vector is finite.
  package init?(rotationVector v: SIMD3<Double>) {
    let angle = (v * v).sum().squareRoot()
    guard angle.isFinite else { return nil }
    // sin(x)/x is 1 to double precision here.
    let imaginary = angle < 1e-9 ? v / 2 : v * (sin(angle / 2) / angle)
    self.init(position: .zero, quaternion: SIMD4(imaginary.x, imaginary.y, imaginary.z, cos(angle / 2)))
  }

  /// Makes a pose from x, y, z, qx, qy, qz, qw.
  package init(floats: [Float]) {
    let n = floats.map { Double($0) }
    self.init(position: [n[0], n[1], n[2]], quaternion: [n[3], n[4], n[5], n[6]])
  }

  /// The same pose with a quaternion of length 1, to double precision; quaternions stored as 32-bit floats are off by 1e-7.
  package var normalized: Pose { Pose(position: position, quaternion: quaternion / (quaternion * quaternion).sum().squareRoot()) }

  /// x, y, z, qx, qy, qz, qw.
  package var floats: [Float] {
    [position.x, position.y, position.z, quaternion.x, quaternion.y, quaternion.z, quaternion.w].map { Float($0) }
  }

  /// The interpolated pose between this and another: position along the line, rotation along the shortest arc (Shoemake 1985).
  package func interpolated(to other: Pose, by weight: Double) -> Pose {
    let (a, dot) = (quaternion, (quaternion * other.quaternion).sum())
    let b = dot < 0 ? -other.quaternion : other.quaternion
    let angle = acos(min(abs(dot), 1))
    var blended: SIMD4<Double>
    if angle < 1e-6 {
      blended = a + (b - a) * weight
    } else {
      blended = (a * sin((1 - weight) * angle) + b * sin(weight * angle)) / sin(angle)
    }
    blended /= (blended * blended).sum().squareRoot()
    return Pose(position: position + (other.position - position) * weight, quaternion: blended)
  }

  /// The pose of a frame that is rotated in this pose's own axes: this rotation times `rotation`.
  package func rotated(by rotation: SIMD4<Double>) -> Pose {
    let (a, b) = (quaternion, rotation)
    let (av, bv) = (SIMD3(a.x, a.y, a.z), SIMD3(b.x, b.y, b.z))
    let v = a.w * bv + b.w * av + cross(av, bv)
    return Pose(position: position, quaternion: [v.x, v.y, v.z, a.w * b.w - (av * bv).sum()])
  }

  /// The pose of a frame that `other` gives in this pose's own frame: the product of their 4x4 matrices, with a unit quaternion.
  package func composed(with other: Pose) -> Pose {
    var product = rotated(by: other.quaternion)
    product.quaternion /= (product.quaternion * product.quaternion).sum().squareRoot()
    product.position = position + rotate(other.position)
    return product
  }

  package static let identity = Pose(position: .zero, quaternion: [0, 0, 0, 1])

  /// The inverse of the pose's 4x4 matrix.
  package var inverse: Pose {
    var back = Pose(position: .zero, quaternion: [-quaternion.x, -quaternion.y, -quaternion.z, quaternion.w])
    back.position = -back.rotate(position)
    return back
  }

  /// A vector of this pose's own frame in the frame that the pose is given in, without translation.
  package func rotate(_ v: SIMD3<Double>) -> SIMD3<Double> {
    let axis = SIMD3(quaternion.x, quaternion.y, quaternion.z)
    let twice = 2 * cross(axis, v)
    return v + quaternion.w * twice + cross(axis, twice)
  }

  /// The axes of this pose's frame: the columns of its rotation matrix.
  package var axes: (x: SIMD3<Double>, y: SIMD3<Double>, z: SIMD3<Double>) {
    (rotate([1, 0, 0]), rotate([0, 1, 0]), rotate([0, 0, 1]))
  }

  /// The rotation vector: the axis times the angle in radians, 0 to pi.
  package var rotationVector: SIMD3<Double> {
    let q = quaternion.w < 0 ? -quaternion : quaternion
    let axis = SIMD3(q.x, q.y, q.z)
    let length = (axis * axis).sum().squareRoot()
    // sin(x)/x is 1 to double precision here.
    return length < 1e-9 ? 2 * axis : axis * (2 * atan2(length, q.w) / length)
  }

  /// The angle in radians between this rotation and another, 0 to pi.
  package func angle(to other: Pose) -> Double { length(inverse.composed(with: other).rotationVector) }

  /// The quaternion or its negative, whichever is nearer to `previous`; without one, the one with w >= 0.
  package func continuing(_ previous: SIMD4<Double>?) -> Pose {
    let reference = previous ?? [0, 0, 0, 1]
    return (quaternion * reference).sum() < 0 ? Pose(position: position, quaternion: -quaternion) : self
  }
}

/// A 3x3 matrix by rows.
package struct Matrix3 {
  package var rows: (SIMD3<Double>, SIMD3<Double>, SIMD3<Double>)

  package init(rows a: SIMD3<Double>, _ b: SIMD3<Double>, _ c: SIMD3<Double>) { rows = (a, b, c) }

  package var determinant: Double { (rows.0 * cross(rows.1, rows.2)).sum() }

  /// The largest deviation of R times its transpose from the identity.
  package var orthogonalityError: Double {
    let (a, b, c) = rows
    let lengths = max(abs((a * a).sum() - 1), abs((b * b).sum() - 1), abs((c * c).sum() - 1))
    return max(lengths, abs((a * b).sum()), abs((a * c).sum()), abs((b * c).sum()))
  }

  /// Newton's iteration X <- (X + inverse transpose of X) / 2, which converges quadratically to the orthogonal polar factor.
  package var nearestRotation: Matrix3 {
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
  package var quaternion: SIMD4<Double> {
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

/// Returns the Euclidean length of a vector.
package func length(_ v: SIMD3<Double>) -> Double { (v * v).sum().squareRoot() }

/// Returns the cross product, right-handed: of x and y, z.
package func cross(_ a: SIMD3<Double>, _ b: SIMD3<Double>) -> SIMD3<Double> {
  [a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x]
}
