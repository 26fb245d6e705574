import HDF5

/// Count, mean and spread of numbers, mergeable (Chan, Golub and LeVeque 1979).
struct Moments: Sendable, Equatable {
  var count: Int64 = 0
  var mean = 0.0
  /// Sum of squared deviations from the mean.
  var m2 = 0.0
  var min = Double.infinity
  var max = -Double.infinity

  var standardDeviation: Double { count > 0 ? (Swift.max(m2, 0) / Double(count)).squareRoot() : .nan }

  mutating func add(_ value: Double) {
    merge(Moments(count: 1, mean: value, m2: 0, min: value, max: value))
  }

  mutating func merge(_ other: Moments) {
    guard other.count > 0 else { return }
    let total = count + other.count
    let delta = other.mean - mean
    mean += delta * (Double(other.count) / Double(total))
    m2 += other.m2 + delta * delta * (Double(count) * Double(other.count) / Double(total))
    count = total
    min = Swift.min(min, other.min)
    max = Swift.max(max, other.max)
  }
}

/// How often values fall into buckets: each whole number by itself for byte data, 12 significant bits for floats, so
/// that a quantile is exact for the first and within 2^-12 of itself for the second.
struct Histogram: Sendable, Equatable {
  enum Buckets: String, Sendable { case integers = "integer", floats = "float32 >> 12" }

  let buckets: Buckets
  private(set) var counts: [Int64: Int64] = [:]

  init(_ buckets: Buckets) { self.buckets = buckets }

  mutating func add(bucket: Int64, count: Int64) { counts[bucket, default: 0] += count }

  mutating func add(_ value: Float) { add(bucket: Self.bucket(of: value), count: 1) }

  mutating func merge(_ other: Histogram) {
    for (bucket, count) in other.counts { add(bucket: bucket, count: count) }
  }

  static func bucket(of value: Float) -> Int64 {
    let magnitude = Int64((value.bitPattern & 0x7FFF_FFFF) >> 12)
    return value.sign == .minus ? -magnitude - 1 : magnitude
  }

  private func value(of bucket: Int64) -> Double {
    if buckets == .integers { return Double(bucket) }
    let magnitude = UInt32(truncatingIfNeeded: bucket < 0 ? -bucket - 1 : bucket)
    let middle = Double(Float(bitPattern: magnitude << 12 | 0x800))
    return magnitude == 0 ? 0 : bucket < 0 ? -middle : middle
  }

  /// The quantile as NumPy's default defines it: linear between the two nearest ranks.
  func quantile(_ q: Double) -> Double {
    let sorted = counts.sorted { $0.key < $1.key }
    let total = sorted.reduce(0) { $0 + $1.value }
    guard total > 0 else { return .nan }
    let position = Double(total - 1) * q
    func value(atRank rank: Int64) -> Double {
      var seen: Int64 = 0
      for (bucket, count) in sorted {
        seen += count
        if rank < seen { return self.value(of: bucket) }
      }
      return .nan
    }
    let low = value(atRank: Int64(position.rounded(.down)))
    let high = value(atRank: Int64(position.rounded(.up)))
    return low + (high - low) * (position - position.rounded(.down))
  }
}

/// Statistics of one key, channel by channel.
struct Statistics: Sendable, Equatable {
  var moments: [Moments]
  var histograms: [Histogram]

  init(channels: Int, _ buckets: Histogram.Buckets) {
    moments = Array(repeating: Moments(), count: channels)
    histograms = Array(repeating: Histogram(buckets), count: channels)
  }

  var channels: Int { moments.count }

  mutating func add(_ value: Float, channel: Int) {
    moments[channel].add(Double(value))
    histograms[channel].add(value)
  }

  mutating func merge(_ other: Statistics) {
    for channel in moments.indices {
      moments[channel].merge(other.moments[channel])
      histograms[channel].merge(other.histograms[channel])
    }
  }

  /// Quantiles, kept within the least and greatest value, which are exact.
  func quantile(_ q: Double) -> [Double] {
    zip(moments, histograms).map { Swift.min(Swift.max($1.quantile(q), $0.min), $0.max) }
  }
}

// MARK: - In HDF5

extension Statistics {
  private static let names = ["mean", "std", "min", "max", "q01", "q99"]

  /// Writes `count`, `mean`, `std`, `min`, `max`, `q01`, `q99`, each with one element a channel. Channels without a
  /// value are NaN. With `mergeable`, the histogram too: rows of channel, bucket, count.
  func write(to group: Group, mergeable: Bool) throws {
    let empty = moments.map { $0.count == 0 }
    let columns: [[Double]] = [
      moments.map(\.mean), moments.map(\.standardDeviation), moments.map(\.min), moments.map(\.max), quantile(0.01),
      quantile(0.99),
    ]
    try write(moments.map(\.count), .int64, "count", to: group)
    for (name, values) in zip(Self.names, columns) {
      try write(zip(values, empty).map { $1 ? .nan : $0 }, .float64, name, to: group)
    }
    guard mergeable else { return }
    let table = histograms.enumerated().flatMap { channel, histogram in
      histogram.counts.sorted { $0.key < $1.key }.flatMap { [Int64(channel), $0.key, $0.value] }
    }
    let rows = table.count / 3
    let layout = Layout(type: .int64, dims: [rows, 3], chunk: rows > 0 ? [rows, 3] : nil, deflate: rows > 0 ? 4 : nil)
    let dataset = try group.createDataset("histogram", layout)
    try dataset.setAttribute("bucket", histograms.first?.buckets.rawValue ?? "")
    if rows > 0 {
      var encoded: [UInt8] = []
      let skipped = try table.withUnsafeBytes { try ChunkEncoder(level: 4).encode($0, elementSize: 8, into: &encoded) }
      try encoded.withUnsafeBytes { try dataset.writeChunk($0, at: [0, 0], skipped: skipped) }
    }
  }

  private func write<Number>(_ values: [Number], _ type: Datatype, _ name: String, to group: Group) throws {
    let dataset = try group.createDataset(name, Layout(type: type, dims: [values.count]))
    try values.withUnsafeBytes { try dataset.write($0) }
  }

  /// What `write(to:mergeable:)` wrote.
  init(from group: Group) throws {
    let counts = try group.dataset("count").readAll(as: Int64.self)
    let columns = try Self.names.map { try group.dataset($0).readAll(as: Double.self) }
    let dataset = try group.dataset("histogram")
    let buckets = try dataset.textAttribute("bucket").flatMap(Histogram.Buckets.init) ?? .floats
    self.init(channels: counts.count, buckets)
    for channel in counts.indices where counts[channel] > 0 {
      let spread = columns[1][channel]
      moments[channel] = Moments(
        count: counts[channel], mean: columns[0][channel], m2: spread * spread * Double(counts[channel]),
        min: columns[2][channel], max: columns[3][channel])
    }
    let table = try dataset.readAll(as: Int64.self)
    for row in stride(from: 0, to: table.count - 2, by: 3) {
      guard moments.indices.contains(Int(table[row])) else { continue }
      histograms[Int(table[row])].add(bucket: table[row + 1], count: table[row + 2])
    }
  }
}
