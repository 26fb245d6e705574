import CKernels
import Foundation
import Model
import Simulate
import Testing

@testable import Media

/// HDR in SDR. Numbers of the signals are those of ITU-R BT.2100 and BT.2408.
@Suite struct ToneMapTests {
  private static let kinds = ToneMap.Transfer.allCases.flatMap { transfer in ToneMap.Primaries.allCases.map { (transfer, $0) } }
  /// The signal of light in cd/m², by the inverse of PQ.
  private func pq(_ light: Double) -> Double {
    let (m1, m2, c1, c2, c3) = (0.1593017578125, 78.84375, 0.8359375, 18.8515625, 18.6875)
    let power = pow(light / 10_000, m1)
    return pow((c1 + c2 * power) / (1 + c3 * power), m2)
  }

  /// Levels of one pixel by the code that converts frames: full-range 10-bit signals without color.
  private func gray(_ signal: Double, _ map: ToneMap) throws -> [UInt8] {
    let size = ImageSize(width: 2, height: 2)
    let downscaler = try #require(
      YUVDownscaler(from: size, to: size, bits: 10, coefficients: [110_013, 140_363, 12_277, 42_626], isFullRange: true, toneMap: map))
    // Full range of 10 bits, in quarters of a level.
    let luma = [UInt16](repeating: UInt16((signal * 1020).rounded()), count: 4)
    let chroma: [UInt16] = [512]
    var output = [UInt8](repeating: 0, count: 12)
    luma.withUnsafeBytes { luma in
      chroma.withUnsafeBytes { chroma in
        guard let y = luma.bindMemory(to: UInt8.self).baseAddress, let c = chroma.bindMemory(to: UInt8.self).baseAddress else { return }
        downscaler.reduce((y, 4), (c, 2), (c, 2), into: &output)
      }
    }
    return Array(output[0..<3])
  }

  @Test(arguments: kinds) func graysStayGrayAndInOrder(_ transfer: ToneMap.Transfer, _ primaries: ToneMap.Primaries) throws {
    let map = ToneMap.of(transfer, primaries)
    var last: UInt8 = 0
    for step in 0...1020 {
      let level = try gray(Double(step) / 1020, map)
      let (least, most) = (try #require(level.min()), try #require(level.max()))
      #expect(most - least <= 1 && least >= last, "\(step): \(level) after \(last)")
      last = least
    }
    #expect(try gray(0, map) == [0, 0, 0] && last >= 254)
  }

  @Test func whiteIsBrightAndHighlightsAreAboveIt() throws {
    let (hlg, pq) = (ToneMap.of(.hlg, .bt2020), ToneMap.of(.pq, .bt2020))
    for level in [try gray(0.75, hlg), try gray(self.pq(203), pq)] { #expect(level.allSatisfy { (200...245).contains($0) }, "\(level)") }
    // Light of the two is the same.
    #expect(abs(Int(try gray(0.75, hlg)[0]) - Int(try gray(self.pq(203), pq)[0])) <= 1)
    #expect(try gray(1, hlg)[0] >= 250 && gray(self.pq(1000), pq)[0] >= 250 && gray(1, pq)[0] == 255)
    // Gray of 26 cd/m² keeps its light: 42.5 % of the signal, as in SDR.
    #expect(abs(Double(try gray(0.38, hlg)[0]) - 0.425 * 255) < 2)
  }

  /// The table with 33 entries a side, interpolated, against the computation.
  @Test(arguments: kinds) func theTableIsTheFormula(_ transfer: ToneMap.Transfer, _ primaries: ToneMap.Primaries) {
    let map = ToneMap.of(transfer, primaries)
    let light = ToneMap.Light(transfer, primaries)
    var random = SplitMix(seed: 1)
    var errors: [Double] = []
    for _ in 0..<20_000 {
      let signal = SIMD3<Double>.random(in: 0...1, using: &random)
      let exact = light.levels(signal)
      let found = Self.lookUp(signal, map)
      errors.append((exact - found).max())
      errors.append((found - exact).max())
    }
    errors.sort()
    // It is coarse only where a color leaves BT.709's triangle, and a level rises steeply from 0.
    #expect(errors[errors.count / 2] < 0.6 && errors[errors.count * 95 / 100] < 4, "\(errors[errors.count * 95 / 100])")
  }

  /// Tetrahedral interpolation in Double.
  private static func lookUp(_ signal: SIMD3<Double>, _ map: ToneMap) -> SIMD3<Double> {
    let edge = Int(CPIXELS_EDGE)
    let at = signal * Double(edge - 1)
    let cell = [at.x, at.y, at.z].map { min(Int($0), edge - 2) }
    let parts = [at.x - Double(cell[0]), at.y - Double(cell[1]), at.z - Double(cell[2])]
    func corner(_ c: [Int]) -> SIMD3<Double> {
      let index = 4 * ((c[0] * edge + c[1]) * edge + c[2])
      return SIMD3(Double(map.table[index]), Double(map.table[index + 1]), Double(map.table[index + 2])) / 128
    }
    let order = [0, 1, 2].sorted { parts[$0] > parts[$1] }
    var at2 = cell
    var value = corner(at2) * (1 - parts[order[0]])
    for (place, axis) in order.enumerated() {
      at2[axis] += 1
      value += corner(at2) * (parts[axis] - (place < 2 ? parts[order[place + 1]] : 0))
    }
    return value
  }

  /// The entries are whole numbers, and none is so near the middle of two that another mathematics library could round it otherwise.
  @Test func tablesAreTheSameOnEveryMachine() {
    for transfer in ToneMap.Transfer.allCases {
      let light = ToneMap.Light(transfer, .bt2020)
      var nearest = 1.0
      for red in 0..<33 {
        for green in 0..<33 {
          for blue in 0..<33 {
            let levels = light.levels(SIMD3(Double(red), Double(green), Double(blue)) / 32) * 128
            for level in [levels.x, levels.y, levels.z] { nearest = min(nearest, abs(level - level.rounded(.down) - 0.5)) }
          }
        }
      }
      #expect(nearest > 1e-8, "\(nearest)")
    }
  }

  @Test func toneIsSmoothAndEndsAtOne() {
    var last = (value: 0.0, slope: 1.0)
    for step in 1...10_000 {
      let light = Double(step) / 10_000 * 5
      let value = ToneMap.Light.tone(light)
      let slope = (value - last.value) / 0.0005
      #expect(value >= last.value && value <= 1 && slope <= last.slope + 1e-6)
      last = (value, slope)
    }
    #expect(last.value == 1 && ToneMap.Light.tone(0.3) == 0.3)
  }
}
