import HDF5

/// A chunk ready to be stored: its logical bytes, for the digest, and its stored ones.
final class PreparedChunk: Sendable {
  let raw: [UInt8]
  /// `nil` when the bytes are stored as they are.
  let encoded: [UInt8]?
  let skipped: UInt32

  init(raw: [UInt8], encoded: [UInt8]? = nil, skipped: UInt32 = 0) {
    self.raw = raw
    self.encoded = encoded
    self.skipped = skipped
  }
}

/// One row of the grids: for each its chunks, or what went wrong.
struct PreparedRow: Sendable {
  struct Cell: Sendable {
    var samples: PreparedChunk
    var mask: PreparedChunk?
    /// Of the valid elements, for depth; pictures keep theirs in the histogram.
    var moments = Moments()
    var isReadable: Bool
    var finding: Finding?
  }
  /// By grid.
  var cells: [Cell]
}

/// Prepares rows of the grids on one thread: reads, decodes, filters, counts.
final class HDF5Worker: ShardWorker {
  private let layout: ShardLayout
  private let blockRows: Int
  private var cursors: [any SampleCursor]
  private var encoders: [Int: ChunkEncoder] = [:]
  /// The last sample of each grid: neighbouring rows often share a depth map, which is then read and deflated once.
  private var last: [(sample: Int, cell: PreparedRow.Cell)?]
  private var blank: [PreparedRow.Cell?]
  private let tally: GridTally

  init(layout: ShardLayout, blockRows: Int, tally: GridTally) throws {
    self.layout = layout
    self.blockRows = blockRows
    self.tally = tally
    cursors = try layout.grids.map { try $0.stream.source.makeCursor() }
    last = layout.grids.map { _ in nil }
    blank = layout.grids.map { _ in nil }
  }

  func prepare(_ block: Int) throws -> PreparedBlock {
    let first = block * blockRows
    let rows = first..<min(first + blockRows, layout.episode.frames.count)
    return PreparedBlock(
      block: block,
      rows: try rows.map { row in
        PreparedRow(cells: try layout.grids.indices.map { try cell(grid: $0, row: row) })
      })
  }

  private func cell(grid index: Int, row: Int) throws -> PreparedRow.Cell {
    let grid = layout.grids[index]
    guard let sample = grid.rows[row] else { return try blankCell(index) }
    if let last = last[index], last.sample == sample {
      if last.cell.isReadable { tally.count(last.cell.samples.raw, grid: index) }
      return last.cell
    }
    var cell: PreparedRow.Cell
    do {
      var raw: [UInt8] = []
      try cursors[index].read(sample, into: &raw)
      guard raw.count == grid.stream.spec.sampleBytes else {
        throw TakeFailure("sample-size", "a sample of \(grid.name) has \(raw.count) bytes, expected \(grid.stream.spec.sampleBytes)")
      }
      cell = PreparedRow.Cell(samples: try chunk(raw, grid.samples), isReadable: true)
      if let mask = grid.mask {
        let (bytes, moments) = Self.positive(raw)
        cell.mask = try chunk(bytes, mask)
        cell.moments = moments
      }
      tally.count(raw, grid: index)
    } catch let failure as SampleFailure {
      cell = try blankCell(index)
      cell.finding = failure.finding
    }
    last[index] = (sample, cell)
    return cell
  }

  /// Nothing, with its mask off.
  private func blankCell(_ index: Int) throws -> PreparedRow.Cell {
    if let blank = blank[index] { return blank }
    let grid = layout.grids[index]
    let zeros = [UInt8](repeating: 0, count: grid.stream.spec.sampleBytes)
    var cell = PreparedRow.Cell(samples: try chunk(zeros, grid.samples), isReadable: false)
    if let mask = grid.mask {
      cell.mask = try chunk([UInt8](repeating: 0, count: layout.datasets[mask].layout.chunkBytes), mask)
    }
    blank[index] = cell
    return cell
  }

  private func chunk(_ raw: [UInt8], _ dataset: Int) throws -> PreparedChunk {
    let layout = layout.datasets[dataset].layout
    guard let level = layout.deflate else { return PreparedChunk(raw: raw) }
    let encoder = try encoders[level] ?? ChunkEncoder(level: level)
    encoders[level] = encoder
    var encoded: [UInt8] = []
    let skipped = raw.withUnsafeBytes { encoder.encode($0, elementSize: layout.type.size, into: &encoded) }
    return PreparedChunk(raw: raw, encoded: encoded, skipped: skipped)
  }

  /// One byte a pixel, 1 where the Float32 is positive, and the moments of those.
  static func positive(_ raw: [UInt8]) -> (mask: [UInt8], Moments) {
    raw.withUnsafeBytes { bytes in
      let metres = bytes.bindMemory(to: Float.self)
      var moments = Moments()
      var (sum, squares) = (0.0, 0.0)
      var (least, greatest) = (Float.infinity, -Float.infinity)
      var count = 0
      let mask = [UInt8](unsafeUninitializedCapacity: metres.count) { mask, initialised in
        for pixel in metres.indices {
          let value = metres[pixel]
          let isValid = value > 0
          mask[pixel] = isValid ? 1 : 0
          count += isValid ? 1 : 0
          let counted = isValid ? Double(value) : 0
          sum += counted
          squares += counted * counted
          least = min(least, isValid ? value : .infinity)
          greatest = max(greatest, value)
        }
        initialised = metres.count
      }
      if count > 0 {
        let mean = sum / Double(count)
        moments = Moments(
          count: Int64(count), mean: mean, m2: max(0, squares - sum * mean), min: Double(least), max: Double(greatest))
      }
      return (mask, moments)
    }
  }
}

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

  func count(_ raw: [UInt8], grid: Int) {
    raw.withUnsafeBytes { bytes in
      counts[grid].withUnsafeMutableBufferPointer { counts in
        if kinds[grid] == .image {
          for pixel in stride(from: 0, to: bytes.count - 2, by: 3) {
            counts[Int(bytes[pixel])] &+= 1
            counts[256 + Int(bytes[pixel + 1])] &+= 1
            counts[512 + Int(bytes[pixel + 2])] &+= 1
          }
        } else {
          let lowest = Int32(truncatingIfNeeded: Self.depthBuckets.lowerBound)
          let highest = Int32(truncatingIfNeeded: Self.depthBuckets.upperBound)
          for value in bytes.bindMemory(to: Int32.self) where value > 0 {
            counts[Int(min(max(value >> 12, lowest), highest) - lowest)] &+= 1
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
