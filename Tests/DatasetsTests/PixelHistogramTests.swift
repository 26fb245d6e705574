import Evidence
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
    let histogram = PixelHistogram()
    var counts = [Int64](repeating: 0, count: 768)
    for (bytes, times) in images { histogram.count(bytes, times: times, into: &counts) }
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

  @Test func whoeverDigestsAnImageCountsIt() {
    let images = [21_003, 21_003, 42].map { count in (0..<count).map { UInt8(truncatingIfNeeded: $0 * $0 >> 7) } }
    let histogram = PixelHistogram()
    var counts = [Int64](repeating: 0, count: 768)
    let lanes = DigestLanes()
    for image in images { lanes.add(image, counters: histogram.counters(image, into: &counts)) { #expect($0 == Digest.of(image)) } }
    lanes.finish()
    histogram.move(to: &counts)
    #expect(counts == images.reduce(into: counted([], times: 1)) { all, image in all = zip(all, counted(image, times: 1)).map { $0 + $1 } })
  }

  @Test func countersDoNotOverflowByImagesThatWait() {
    let image = [UInt8](repeating: 7, count: 6 << 20)
    let histogram = PixelHistogram()
    var counts = [Int64](repeating: 0, count: 768)
    // Nearly full, and moved while forty images wait: they are counted after that, and those of the next round on top of them.
    for _ in 0..<3 {
      let lanes = DigestLanes()
      for _ in 0..<40 { lanes.add(image, counters: histogram.counters(image, into: &counts)) { _ in } }
      histogram.count(image, times: 2032, into: &counts)
      lanes.finish()
      histogram.count(image, times: 2032, into: &counts)
    }
    histogram.move(to: &counts)
    #expect(counts == counted(image, times: 3 * (40 + 2 * 2032)))
  }

  @Test func countersDoNotOverflow() {
    let image = [UInt8](repeating: 7, count: 3 * 2)
    #expect(tallied(Array(repeating: (image, 1 << 31), count: 5)) == counted(image, times: 5 << 31))
  }
}
