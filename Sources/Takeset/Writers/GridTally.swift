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

  init(_ grids: [ShardLayout.Grid]) {
    buckets = grids.map { Buckets($0.stream.spec) }
    counts = buckets.map { [Int64](repeating: 0, count: $0.count) }
  }

  /// Counts every value of a sample `times` times.
  func count(_ raw: [UInt8], grid: Int, times: Int64) {
    raw.withUnsafeBytes { bytes in
      counts[grid].withUnsafeMutableBufferPointer { counts in
        switch buckets[grid] {
        case .bytes(channels: 3): Self.countPixels(bytes, into: counts, times: times)
        case .bytes(let channels):
          for (index, value) in bytes.enumerated() { counts[index % channels * 256 + Int(value)] &+= times }
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

  /// Counts RGB, four pixels at a time. Each of the four has counters of its own: neighbours are often alike, and to add to a counter that
  /// was only just stored makes the processor wait.
  private static func countPixels(_ bytes: UnsafeRawBufferPointer, into counts: UnsafeMutableBufferPointer<Int64>, times: Int64) {
    let values = 3 * 256
    withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 4 * values) { own in
      own.initialize(repeating: 0)
      guard let own = own.baseAddress, let start = bytes.baseAddress else { return }
      @inline(__always) func add(_ bits: UInt64, _ shift: UInt64, _ counter: Int) {
        own[counter &+ Int(truncatingIfNeeded: bits &>> shift & 255)] &+= 1
      }
      let whole = bytes.count / 12 * 12
      var offset = 0
      while offset < whole {
        let a = start.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
        let b = UInt64(start.loadUnaligned(fromByteOffset: offset + 8, as: UInt32.self))
        add(a, 0, 0)
        add(a, 8, 256)
        add(a, 16, 512)
        add(a, 24, values)
        add(a, 32, values + 256)
        add(a, 40, values + 512)
        add(a, 48, 2 * values)
        add(a, 56, 2 * values + 256)
        add(b, 0, 2 * values + 512)
        add(b, 8, 3 * values)
        add(b, 16, 3 * values + 256)
        add(b, 24, 3 * values + 512)
        offset += 12
      }
      for index in whole..<bytes.count { own[index % 3 * 256 + Int(bytes[index])] &+= 1 }
      for value in 0..<values {
        let count = own[value] &+ own[values + value] &+ own[2 * values + value] &+ own[3 * values + value]
        counts[value] &+= Int64(count) &* times
      }
    }
  }

  func merge(_ other: GridTally) {
    for grid in counts.indices {
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
