import Foundation
import Model
import Simulate
import Testing

@Suite struct PoseTests {
  /// The matrix of a quaternion by the textbook formula, which shares no code with what is tested.
  private func matrix(_ q: SIMD4<Double>, _ p: SIMD3<Double> = .zero) -> [Double] {
    let (x, y, z, w) = (q.x, q.y, q.z, q.w)
    return [
      1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w), p.x,
      2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w), p.y,
      2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y), p.z,
      0, 0, 0, 1,
    ]
  }

  private func randomQuaternion(_ generator: inout some RandomNumberGenerator) -> SIMD4<Double> {
    var q = SIMD4<Double>.random(in: -1...1, using: &generator)
    while (q * q).sum() < 0.01 { q = .random(in: -1...1, using: &generator) }
    q /= (q * q).sum().squareRoot()
    return q.w < 0 ? -q : q
  }

  @Test func turnsAMatrixIntoItsQuaternion() throws {
    var generator = SplitMix(seed: 2)
    for _ in 0..<1000 {
      let q = randomQuaternion(&generator)
      let pose = try Pose(rowMajor: matrix(q, [1, -2, 3]))
      #expect(abs(abs((pose.quaternion * q).sum()) - 1) < 1e-12)
      #expect(pose.position == [1, -2, 3])
      #expect(pose.quaternion.w >= 0)
    }
  }

  @Test(arguments: [SIMD4<Double>(1, 0, 0, 0), [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
  func turnsHalfTurnsIntoQuaternions(q: SIMD4<Double>) throws {
    let pose = try Pose(rowMajor: matrix(q))
    #expect(abs(abs((pose.quaternion * q).sum()) - 1) < 1e-12)
  }

  @Test func projectsASlightlySkewedMatrixToTheNearestRotation() throws {
    var generator = SplitMix(seed: 3)
    for _ in 0..<200 {
      let q = randomQuaternion(&generator)
      var skewed = matrix(q)
      for index in [0, 1, 2, 4, 5, 6, 8, 9, 10] { skewed[index] += Double.random(in: -1e-4...1e-4, using: &generator) }
      let pose = try Pose(rowMajor: skewed)
      #expect(abs((pose.quaternion * pose.quaternion).sum() - 1) < 1e-12)
      #expect(abs(abs((pose.quaternion * q).sum()) - 1) < 1e-7)
    }
  }

  @Test func refusesWhatIsNotAPose() {
    for (place, value) in [(5, Double.nan), (7, .nan), (10, .infinity), (3, 1e39)] {
      var notFinite = matrix([0, 0, 0, 1])
      notFinite[place] = value
      #expect(throws: Pose.Defect.notFinite) { try Pose(rowMajor: notFinite) }
    }
    var reflected = matrix([0, 0, 0, 1])
    reflected[0] = -1
    var scaled = matrix([0, 0, 0, 1])
    scaled[0] = 1.005
    var sheared = matrix([0, 0, 0, 1])
    sheared[1] = 2e-3
    var columns = matrix([0, 0, 0, 1])
    columns[12] = 0.4
    var notHomogeneous = matrix([0, 0, 0, 1])
    notHomogeneous[15] = 2
    #expect(throws: Pose.Defect.determinant) { try Pose(rowMajor: reflected) }
    #expect(throws: Pose.Defect.orthogonality) { try Pose(rowMajor: scaled) }
    #expect(throws: Pose.Defect.orthogonality) { try Pose(rowMajor: sheared) }
    #expect(throws: Pose.Defect.lastRow) { try Pose(rowMajor: columns) }
    #expect(throws: Pose.Defect.lastRow) { try Pose(rowMajor: notHomogeneous) }
    #expect(throws: Pose.Defect.determinant) { try Pose(rowMajor: [Double](repeating: 0, count: 15) + [1]) }
  }

  @Test func continuesTheSignThroughTwoTurns() throws {
    var previous: SIMD4<Double>?
    for degrees in stride(from: 0.0, through: 720, by: 7) {
      let half = degrees / 2 * .pi / 180
      let pose = try Pose(rowMajor: matrix([0, sin(half), 0, cos(half)])).continuing(previous)
      if let previous { #expect((pose.quaternion * previous).sum() > 0.99) }
      previous = pose.quaternion
    }
  }
}
