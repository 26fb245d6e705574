import Model

/// Counts the bytes of RGB images by channel and value, two neighboring bytes at a time.
///
/// Most of the cost is adding to counters in memory, so bytes are counted in pairs, with half the additions. Few of the 65,536 pairs occur
/// often, because neighboring pixels are similar, so the counters in use are in the cache.
struct PixelHistogram {
  private static let pairs = 1 << 16
  /// Counters of the first and second, third and fourth, fifth and sixth byte of every two pixels.
  private var counters = [UInt32](repeating: 0, count: 3 * pairs)
  /// Sum of the counters of one pair of bytes.
  private var counted: Int64 = 0

  /// Size in bytes below which an image is not worth clearing and adding up the counters.
  static let leastBytes = pairs

  /// Counts an image `times` times. Before the counters could overflow, they are moved to `counts`.
  mutating func count(_ bytes: UnsafeRawBufferPointer, times: Int64, into counts: inout [Int64]) {
    let pixelPairs = bytes.count / 6
    if counted + Int64(pixelPairs) * times > Int64(UInt32.max) { move(to: &counts) }
    counted += Int64(pixelPairs) * times
    let times32 = UInt32(truncatingIfNeeded: times)
    counters.withUnsafeMutableBufferPointer { counters in
      guard let first = counters.baseAddress, let start = bytes.baseAddress else { return }
      let (second, third) = (first + Self.pairs, first + 2 * Self.pairs)
      for offset in stride(from: 0, to: 6 * pixelPairs, by: 6) {
        first[Int(start.loadUnaligned(fromByteOffset: offset, as: UInt16.self))] &+= times32
        second[Int(start.loadUnaligned(fromByteOffset: offset + 2, as: UInt16.self))] &+= times32
        third[Int(start.loadUnaligned(fromByteOffset: offset + 4, as: UInt16.self))] &+= times32
      }
    }
    for index in (6 * pixelPairs)..<bytes.count { counts[index % 3 * 256 + Int(bytes[index])] += times }
  }

  /// Adds the counters to `counts`, 256 values for each channel, and clears them.
  mutating func move(to counts: inout [Int64]) {
    guard counted > 0 else { return }
    for place in 0..<3 {
      for pair in 0..<Self.pairs {
        let count = Int64(counters[place * Self.pairs + pair])
        counters[place * Self.pairs + pair] = 0
        // Little-endian: the first byte is the low one.
        counts[2 * place % 3 * 256 + pair & 255] += count
        counts[(2 * place + 1) % 3 * 256 + pair >> 8] += count
      }
    }
    counted = 0
  }
}
