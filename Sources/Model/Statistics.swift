/// Count, mean and spread of numbers, mergeable (Chan, Golub and LeVeque 1979).
package struct Moments: Sendable, Equatable {
  package var count: Int64 = 0
  package var mean = 0.0
  /// Sum of squared deviations from the mean.
  package var m2 = 0.0
  package var min = Double.infinity
  package var max = -Double.infinity

  package init(count: Int64 = 0, mean: Double = 0, m2: Double = 0, min: Double = .infinity, max: Double = -.infinity) {
    (self.count, self.mean, self.m2, self.min, self.max) = (count, mean, m2, min, max)
  }

  package var standardDeviation: Double { count > 0 ? (Swift.max(m2, 0) / Double(count)).squareRoot() : .nan }

  /// Counts one value. It must be finite, as NaN would spread to all figures.
  package mutating func add(_ value: Double) {
    merge(Moments(count: 1, mean: value, m2: 0, min: value, max: value))
  }

  /// Adds the values of another count, as if each had been added. Exact but for rounding, in any order.
  package mutating func merge(_ other: Moments) {
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

/// A histogram with one bucket per integer for byte data, and buckets of 12 significant bits for floats, so that quantiles
/// are exact for bytes and within a relative error of 2^-12 for floats.
package struct Histogram: Sendable, Equatable {
  /// The width of a bucket: one integer, or the floats that share sign, exponent and 11 bits of the fraction. Shards store the raw value.
  package enum Buckets: String, Sendable { case integers = "integer", floats = "float32 >> 12" }

  package let buckets: Buckets
  package private(set) var counts: [Int64: Int64] = [:]

  package init(_ buckets: Buckets) { self.buckets = buckets }

  /// Counts values that were sorted into a bucket elsewhere.
  package mutating func add(bucket: Int64, count: Int64) { counts[bucket, default: 0] += count }

  /// Counts one float.
  package mutating func add(_ value: Float) { add(bucket: Self.bucket(of: value), count: 1) }

  /// Adds the counts of another histogram, which must have the same buckets.
  package mutating func merge(_ other: Histogram) {
    for (bucket, count) in other.counts { add(bucket: bucket, count: count) }
  }

  /// Returns the bucket of a float: its upper 20 bits, so ordered that greater values have greater buckets.
  package static func bucket(of value: Float) -> Int64 {
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
  package func quantile(_ q: Double) -> Double {
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
package struct Statistics: Sendable, Equatable {
  package var moments: [Moments]
  package var histograms: [Histogram]
  /// The values themselves, by channel, while they are few and known: quantiles are then exact.
  package var values: [[Float]]?
  /// Values of a channel that are still few: a percentile of them is one of some dozens, which a bucket would show.
  package static let few = 4096

  package init(channels: Int, _ buckets: Histogram.Buckets) {
    moments = Array(repeating: Moments(), count: channels)
    histograms = Array(repeating: Histogram(buckets), count: channels)
  }

  package var channels: Int { moments.count }

  /// Counts one value of a channel. `values` is not kept here.
  package mutating func add(_ value: Float, channel: Int) {
    moments[channel].add(Double(value))
    histograms[channel].add(value)
  }

  /// Adds the statistics of other rows, of the same channels. Single values are kept only while they are few.
  package mutating func merge(_ other: Statistics) {
    values =
      if let own = values, let others = other.values, zip(own, others).allSatisfy({ $0.count + $1.count < Self.few }) {
        zip(own, others).map { $0 + $1 }
      } else {
        nil
      }
    for channel in moments.indices {
      moments[channel].merge(other.moments[channel])
      histograms[channel].merge(other.histograms[channel])
    }
  }

  /// Quantiles, exact where the values are known, else clamped to the least and greatest value, which are exact.
  package func quantile(_ q: Double) -> [Double] {
    if let values { return values.map { Self.quantile(q, of: $0.map { Double($0) }) } }
    return zip(moments, histograms).map { Swift.min(Swift.max($1.quantile(q), $0.min), $0.max) }
  }

  /// The quantile as NumPy's default defines it: linear between the two nearest ranks. NaN without values.
  package static func quantile(_ q: Double, of values: [Double]) -> Double {
    guard !values.isEmpty else { return .nan }
    let sorted = values.sorted()
    let position = Double(sorted.count - 1) * q
    let rank = Int(position.rounded(.down))
    let (low, high) = (sorted[rank], sorted[min(rank + 1, sorted.count - 1)])
    let weight = position - Double(rank)
    return weight < 0.5 ? low + (high - low) * weight : high - (high - low) * (1 - weight)
  }
}
