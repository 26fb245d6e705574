import Model
import Testing

@testable import Readers

@Suite struct InertialTableTests {
  private func said(_ count: Int = 20, gravity: Float? = nil, _ reading: (Int) -> [Float]) -> [FindingCode] {
    var table = InertialTable()
    for place in 0..<count { table.add(Timestamp(nanoseconds: Int64(place) * 10_000_000), reading(place), from: place) }
    let notes = FindingCollector()
    if gravity != nil { table.noteGravity("imu.csv", notes) } else { table.examine("imu.csv", notes) }
    return notes.findings.map(\.code)
  }

  @Test func aSensorWithoutNoiseMeasuresNothing() {
    #expect(said { [0, 0, Float($0), 0, 0, 0] } == [.imuImplausible])
    #expect(said { [1, 2, 3, 0, 0, Float($0)] } == [.imuImplausible])
    #expect(said { _ in [0, 0, 0, 0, 0, 0] } == [.imuImplausible, .imuImplausible])
    #expect(said { [0, 0, Float($0), 0, Float($0), 0] }.isEmpty && said(17) { _ in [0, 0, 0, 0, 0, 0] }.isEmpty)
  }

  @Test(arguments: [0.981, 1, 96] as [Float])
  func gravityInAnotherUnitIsSaid(_ gravity: Float) {
    #expect(said(gravity: gravity) { _ in [0, gravity, 0, 0, 0, 0] } == [.imuImplausible])
    #expect(said(gravity: 9.8) { [0, 9.8, Float($0) / 5, 0, 0, 0] }.isEmpty)
  }
}
