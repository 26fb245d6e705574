import Model
import Testing

@testable import Datasets

@Suite struct PixelHistogramTests {
  /// Every value of every channel, counted one by one.
  private func counted(_ bytes: [UInt8], times: Int64) -> [Int64] {
    var counts = [Int64](repeating: 0, count: 768)
    for (index, value) in bytes.enumerated() { counts[index % 3 * 256 + Int(value)] += times }
    return counts
  }

  private func tallied(_ images: [([UInt8], Int64)]) -> [Int64] {
    var histogram = PixelHistogram()
    var counts = [Int64](repeating: 0, count: 768)
    for (bytes, times) in images { bytes.withUnsafeBytes { histogram.count($0, times: times, into: &counts) } }
    histogram.move(to: &counts)
    return counts
  }

  @Test(arguments: [1, 2, 3, 22_000, 22_001]) func countsEveryByteOfItsChannel(pixels: Int) {
    var state: UInt32 = 5
    let noise = (0..<(3 * pixels)).map { _ in
      state = state &* 1_664_525 &+ 1_013_904_223
      return UInt8(truncatingIfNeeded: state >> 24)
    }
    let smooth = (0..<(3 * pixels)).map { UInt8(truncatingIfNeeded: $0 / 700 + $0 % 3 * 40) }
    let expected = zip(counted(noise, times: 1), counted(smooth, times: 4)).map { $0 + $1 }
    #expect(tallied([(noise, 1), (smooth, 4)]) == expected)
  }

  @Test func countersDoNotOverflow() {
    let image = [UInt8](repeating: 7, count: 3 * 2)
    #expect(tallied(Array(repeating: (image, 1 << 31), count: 5)) == counted(image, times: 5 << 31))
  }
}
