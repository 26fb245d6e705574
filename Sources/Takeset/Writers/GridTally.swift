/// Counts values of pictures and depth maps by bucket. Whole numbers, so the order of counting does not matter.
final class GridTally {
  /// How the values of one grid are counted.
  private enum Buckets: Equatable {
    /// Bytes in channels, each value by itself.
    case bytes(channels: Int)
    /// Whole numbers of 16 bits, each by itself; 0 is none.
    case distances
    /// Metres in the buckets of `Histogram`, from 2^-10 to 2^10 m; what lies outside counts at the ends.
    case metres

    static let metreBuckets = (Histogram.bucket(of: 0x1p-10))...(Histogram.bucket(of: 0x1p10))

    init(_ spec: StreamSpec) {
      self = spec.kind != .depth ? .bytes(channels: spec.shape.last ?? 1) : spec.type == .uint16 ? .distances : .metres
    }

    var count: Int {
      switch self {
      case .bytes(let channels): 256 * channels
      case .distances: 1 << 16
      case .metres: Self.metreBuckets.count
      }
    }
  }

  private let buckets: [Buckets]
  private var counts: [[Int64]]
  /// Of grids with large pictures, from the first one on.
  private var pixels: [PixelTally?]

  init(_ grids: [ShardLayout.Grid]) {
    buckets = grids.map { Buckets($0.stream.spec) }
    counts = buckets.map { [Int64](repeating: 0, count: $0.count) }
    pixels = grids.map { _ in nil }
  }

  /// Counts every value of a sample `times` times.
  func count(_ raw: [UInt8], grid: Int, times: Int64) {
    raw.withUnsafeBytes { bytes in
      if buckets[grid] == .bytes(channels: 3), bytes.count >= PixelTally.leastBytes {
        if pixels[grid] == nil { pixels[grid] = PixelTally() }
        pixels[grid]?.count(bytes, times: times, into: &counts[grid])
        return
      }
      counts[grid].withUnsafeMutableBufferPointer { counts in
        switch buckets[grid] {
        case .bytes(let channels):
          for channel in 0..<channels {
            for index in stride(from: channel, to: bytes.count, by: channels) { counts[channel * 256 + Int(bytes[index])] &+= times }
          }
        case .distances:
          for value in bytes.bindMemory(to: UInt16.self) where value > 0 { counts[Int(value)] &+= times }
        case .metres:
          let lowest = Int32(truncatingIfNeeded: Buckets.metreBuckets.lowerBound)
          let highest = Int32(truncatingIfNeeded: Buckets.metreBuckets.upperBound)
          for value in bytes.bindMemory(to: Int32.self) where value > 0 {
            counts[Int(min(max(value >> 12, lowest), highest) - lowest)] &+= times
          }
        }
      }
    }
  }

  func merge(_ other: GridTally) {
    for grid in counts.indices {
      other.pixels[grid]?.move(to: &other.counts[grid])
      for bucket in counts[grid].indices { counts[grid][bucket] += other.counts[grid][bucket] }
    }
  }

  /// The statistics of one grid; metres bring their moments along, those of whole numbers follow from the counts.
  func statistics(grid: Int, moments: Moments) -> Statistics {
    var statistics: Statistics
    func add(_ value: Int, channel: Int, count: Int64) {
      guard count > 0 else { return }
      statistics.histograms[channel].add(bucket: Int64(value), count: count)
      statistics.moments[channel].merge(Moments(count: count, mean: Double(value), m2: 0, min: Double(value), max: Double(value)))
    }
    switch buckets[grid] {
    case .bytes(let channels):
      statistics = Statistics(channels: channels, .integers)
      for (index, count) in counts[grid].enumerated() { add(index % 256, channel: index / 256, count: count) }
    case .distances:
      statistics = Statistics(channels: 1, .integers)
      for (value, count) in counts[grid].enumerated() { add(value, channel: 0, count: count) }
    case .metres:
      statistics = Statistics(channels: 1, .floats)
      statistics.moments[0] = moments
      for (offset, count) in counts[grid].enumerated() where count > 0 {
        statistics.histograms[0].add(bucket: Buckets.metreBuckets.lowerBound + Int64(offset), count: count)
      }
    }
    return statistics
  }
}
