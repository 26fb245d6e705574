/// Counts values of pictures and depth maps by bucket. Whole numbers, so the order of counting does not matter.
final class GridTally {
  /// Depth from 2^-10 to 2^10 m in buckets of `Histogram`; what lies outside counts at the ends.
  private static let depthBuckets = (Histogram.bucket(of: 0x1p-10))...(Histogram.bucket(of: 0x1p10))

  private let kinds: [StreamSpec.Kind]
  private var counts: [[Int64]]

  init(_ grids: [ShardLayout.Grid]) {
    kinds = grids.map(\.stream.spec.kind)
    counts = kinds.map { [Int64](repeating: 0, count: $0 == .image ? 3 * 256 : Self.depthBuckets.count) }
  }

  /// Counts every value of a sample `times` times.
  func count(_ raw: [UInt8], grid: Int, times: Int64) {
    raw.withUnsafeBytes { bytes in
      counts[grid].withUnsafeMutableBufferPointer { counts in
        if kinds[grid] == .image {
          for pixel in stride(from: 0, to: bytes.count - 2, by: 3) {
            counts[Int(bytes[pixel])] &+= times
            counts[256 + Int(bytes[pixel + 1])] &+= times
            counts[512 + Int(bytes[pixel + 2])] &+= times
          }
        } else {
          let lowest = Int32(truncatingIfNeeded: Self.depthBuckets.lowerBound)
          let highest = Int32(truncatingIfNeeded: Self.depthBuckets.upperBound)
          for value in bytes.bindMemory(to: Int32.self) where value > 0 {
            counts[Int(min(max(value >> 12, lowest), highest) - lowest)] &+= times
          }
        }
      }
    }
  }

  func merge(_ other: GridTally) {
    for grid in counts.indices {
      for bucket in counts[grid].indices { counts[grid][bucket] += other.counts[grid][bucket] }
    }
  }

  /// The statistics of one grid; depth brings its moments along, a picture's follow from the counts.
  func statistics(grid: Int, moments: Moments) -> Statistics {
    guard kinds[grid] == .image else {
      var statistics = Statistics(channels: 1, .floats)
      statistics.moments[0] = moments
      for (offset, count) in counts[grid].enumerated() where count > 0 {
        statistics.histograms[0].add(bucket: Self.depthBuckets.lowerBound + Int64(offset), count: count)
      }
      return statistics
    }
    var statistics = Statistics(channels: 3, .integers)
    for channel in 0..<3 {
      for value in 0..<256 {
        let count = counts[grid][channel * 256 + value]
        guard count > 0 else { continue }
        statistics.histograms[channel].add(bucket: Int64(value), count: count)
        statistics.moments[channel].merge(
          Moments(count: count, mean: Double(value), m2: 0, min: Double(value), max: Double(value)))
      }
    }
    return statistics
  }
}
