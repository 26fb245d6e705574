import Evidence

/// Counts the bytes of RGB images by channel and value. The counters are 32 bits wide, so that more of them are in the processor's cache.
final class PixelHistogram {
  private let counters = PairCounters()
  /// Sum of the counters of one place, at most.
  private var counted: Int64 = 0

  /// Bytes of an episode's images below which clearing and adding up the counters is not worth it.
  static let leastBytes = 1 << 22

  /// The counters for one image of this many bytes, which whoever digests the image counts. Before they could overflow, they are moved to
  /// `counts`.
  func counters(_ bytes: [UInt8], into counts: inout [Int64]) -> PairCounters {
    makeRoom(bytes, times: 1, in: &counts)
    return counters
  }

  /// Counts an image `times` times.
  func count(_ bytes: [UInt8], times: Int64, into counts: inout [Int64]) {
    makeRoom(bytes, times: times, in: &counts)
    counters.count(bytes[...], times: UInt32(truncatingIfNeeded: times))
  }

  private func makeRoom(_ bytes: [UInt8], times: Int64, in counts: inout [Int64]) {
    let most = Int64(bytes.count / 6 + 1) * times
    // Half of what the counters hold is for images that are still to be counted when those before them are moved.
    if counted + most > Int64(UInt32.max) / 2 { move(to: &counts) }
    counted += most
    // Pairs leave out the last of an odd number of bytes.
    if bytes.count % 2 == 1, let last = bytes.last { counts[(bytes.count - 1) % 3 * 256 + Int(last)] += times }
  }

  /// Adds the counters to `counts`, 256 values for each channel, and clears them.
  func move(to counts: inout [Int64]) {
    guard counted > 0 else { return }
    counters.move(to: &counts)
    counted = 0
  }
}
