import Evidence
import Model

/// Counts values of images and depth maps by bucket. The counts are integers, so the order of counting does not matter.
final class RasterHistogram {
  /// Buckets in which the values of one raster are counted.
  private enum Buckets: Equatable {
    /// Bytes in channels, one bucket per value.
    case bytes(channels: Int)
    /// 16-bit integers (depth in millimeters), one bucket per value; 0 is none.
    case millimeters
    /// Depth in meters, in the buckets of `Histogram` from 2^-10 to 2^10 m; values outside count in the first or last bucket.
    case meters

    static let meterBuckets = (Histogram.bucket(of: 0x1p-10))...(Histogram.bucket(of: 0x1p10))

    init(_ spec: StreamSpec) {
      self = spec.kind != .depth ? .bytes(channels: spec.shape.last ?? 1) : spec.type == .uint16 ? .millimeters : .meters
    }

    var count: Int {
      switch self {
      case .bytes(let channels): 256 * channels
      case .millimeters: 1 << 16
      case .meters: Self.meterBuckets.count
      }
    }
  }

  private let buckets: [Buckets]
  private var counts: [[Int64]]
  /// Those of rasters with many pixels.
  private let pixels: [PixelHistogram?]

  init(_ rasters: [ShardLayout.RasterArrays]) {
    buckets = rasters.map { Buckets($0.stream.spec) }
    counts = buckets.map { [Int64](repeating: 0, count: $0.count) }
    pixels = zip(rasters, buckets).map { raster, buckets in
      let isLarge = (raster.sampleBytes ?? 0) * raster.rows.count >= PixelHistogram.leastBytes
      return buckets == .bytes(channels: 3) && isLarge ? PixelHistogram() : nil
    }
  }

  /// The counters for a sample, which whoever digests it counts; `nil` where it is to be counted here.
  func counters(_ raw: [UInt8], raster: Int) -> PairCounters? { pixels[raster]?.counters(raw, into: &counts[raster]) }

  /// Counts every value of a sample `times` times.
  func count(_ raw: [UInt8], raster: Int, times: Int64) {
    if let pixels = pixels[raster] { return pixels.count(raw, times: times, into: &counts[raster]) }
    raw.withUnsafeBytes { bytes in
      counts[raster].withUnsafeMutableBufferPointer { counts in
        switch buckets[raster] {
        case .bytes(let channels):
          for channel in 0..<channels {
            for index in stride(from: channel, to: bytes.count, by: channels) { counts[channel * 256 + Int(bytes[index])] &+= times }
          }
        case .millimeters:
          for value in bytes.bindMemory(to: UInt16.self) where value > 0 { counts[Int(value)] &+= times }
        case .meters:
          let lowest = Int32(truncatingIfNeeded: Buckets.meterBuckets.lowerBound)
          let highest = Int32(truncatingIfNeeded: Buckets.meterBuckets.upperBound)
          for value in bytes.bindMemory(to: Int32.self) where value > 0 {
            counts[Int(min(max(value >> 12, lowest), highest) - lowest)] &+= times
          }
        }
      }
    }
  }

  func merge(_ other: RasterHistogram) {
    for raster in counts.indices {
      other.movePixels(raster)
      movePixels(raster)
      other.counts[raster].withUnsafeBufferPointer { other in
        counts[raster].withUnsafeMutableBufferPointer { own in
          for bucket in own.indices { own[bucket] &+= other[bucket] }
        }
      }
    }
  }

  private func movePixels(_ raster: Int) { pixels[raster]?.move(to: &counts[raster]) }

  /// The statistics of one raster; values in meters have their own moments, those of integers follow from the counts.
  func statistics(raster: Int, moments: Moments) -> Statistics {
    movePixels(raster)
    let counts = counts[raster]
    var statistics: Statistics
    func add(_ value: Int, channel: Int, count: Int64) {
      guard count > 0 else { return }
      statistics.histograms[channel].add(bucket: Int64(value), count: count)
      statistics.moments[channel].merge(Moments(count: count, mean: Double(value), m2: 0, min: Double(value), max: Double(value)))
    }
    switch buckets[raster] {
    case .bytes(let channels):
      statistics = Statistics(channels: channels, .integers)
      for (index, count) in counts.enumerated() { add(index % 256, channel: index / 256, count: count) }
    case .millimeters:
      statistics = Statistics(channels: 1, .integers)
      for (value, count) in counts.enumerated() { add(value, channel: 0, count: count) }
    case .meters:
      statistics = Statistics(channels: 1, .floats)
      statistics.moments[0] = moments
      for (offset, count) in counts.enumerated() where count > 0 {
        statistics.histograms[0].add(bucket: Buckets.meterBuckets.lowerBound + Int64(offset), count: count)
      }
    }
    return statistics
  }
}
