import Model
import Testing

@testable import Rasters

@Suite struct DepthPlausibilityTests {
  private let room = (0..<1000).map { 0.4 + Float($0) / 200 }

  @Test func acceptsWhatPhonesMeasure() {
    #expect(DepthPlausibility.finding(room) == nil && DepthPlausibility.finding([]) == nil)
    // The sky, and a table from near.
    #expect(
      DepthPlausibility.finding(room + Array(repeating: 60, count: 400)) == nil && DepthPlausibility.finding(room.map { $0 / 10 }) == nil)
  }

  @Test func anotherUnitIsSaid() {
    for factor: Float in [1000, 0.001, 100] { #expect(DepthPlausibility.finding(room.map { $0 * factor })?.code == .depthSuspicious) }
  }

  @Test func theOtherByteOrderIsSaid() {
    let swapped = room.map { Float(bitPattern: $0.bitPattern.byteSwapped) }.filter { $0 > 0 }
    #expect(DepthPlausibility.finding(swapped)?.code == .depthSuspicious)
  }
}
