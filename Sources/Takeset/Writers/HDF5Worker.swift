import HDF5
import Synchronization

/// Buffers that are used again, so that memory stays as it is however long the take is.
final class BufferPool: Sendable {
  private let free = Mutex<[[[UInt8]]]>([])

  /// - Parameter kinds: How many kinds of buffers there are; those of a kind have about the same size.
  init(kinds: Int) { free.withLock { $0 = Array(repeating: [], count: kinds) } }

  func take(_ kind: Int) -> [UInt8] { free.withLock { $0[kind].popLast() } ?? [] }

  func drain() { free.withLock { $0 = Array(repeating: [], count: $0.count) } }

  func give(_ buffer: [UInt8], _ kind: Int) { free.withLock { $0[kind].append(buffer) } }
}

/// A chunk ready to be stored: its logical bytes, for the digest, and its stored ones. Both go back to the pool when
/// nobody needs the chunk any more.
final class PreparedChunk: Sendable {
  let raw: [UInt8]
  /// `nil` when the bytes are stored as they are.
  let encoded: [UInt8]?
  let skipped: UInt32
  private let dataset: Int
  private let pool: BufferPool

  init(raw: [UInt8], encoded: [UInt8]?, skipped: UInt32, dataset: Int, pool: BufferPool) {
    self.raw = raw
    self.encoded = encoded
    self.skipped = skipped
    self.dataset = dataset
    self.pool = pool
  }

  deinit {
    pool.give(raw, 2 * dataset)
    if let encoded { pool.give(encoded, 2 * dataset + 1) }
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
  private let blocks: [Range<Int>]
  private var cursors: [any SampleCursor]
  private var encoders: [Int: ChunkEncoder] = [:]
  /// The last sample of each grid: neighbouring rows often share a depth map, which is then read and deflated once.
  private var last: [(sample: Int, cell: PreparedRow.Cell)?]
  private var blank: [PreparedRow.Cell?]
  private let tally: GridTally
  private let pool: BufferPool

  init(layout: ShardLayout, blocks: [Range<Int>], tally: GridTally, pool: BufferPool) throws {
    self.layout = layout
    self.blocks = blocks
    self.tally = tally
    self.pool = pool
    cursors = try layout.grids.map { try $0.stream.source.makeCursor() }
    last = layout.grids.map { _ in nil }
    blank = layout.grids.map { _ in nil }
  }

  func prepare(_ block: Int) throws -> PreparedBlock {
    let rows = blocks[block]
    defer { for grid in layout.grids { grid.stream.source.feed?.release(grid.samples(of: rows)) } }
    return PreparedBlock(
      block: block,
      rows: try rows.map { row in
        PreparedRow(cells: try layout.grids.indices.map { try cell(grid: $0, row: row, of: rows) })
      })
  }

  private func cell(grid index: Int, row: Int, of block: Range<Int>) throws -> PreparedRow.Cell {
    let grid = layout.grids[index]
    guard let sample = grid.rows[row] else { return try blankCell(index) }
    var cell: PreparedRow.Cell
    if let last = last[index], last.sample == sample {
      cell = last.cell
    } else {
      do {
        cell = try read(sample, index)
      } catch let failure as SampleFailure {
        cell = try blankCell(index)
        cell.finding = failure.finding
      }
      last[index] = (sample, cell)
    }
    // Values of a sample that neighbouring rows share are counted at the first of them.
    if cell.isReadable, grid.sampleBytes != nil, row == block.lowerBound || grid.rows[row - 1] != sample {
      let times = grid.rows[row..<block.upperBound].prefix { $0 == sample }.count
      tally.count(cell.samples.raw, grid: index, times: Int64(times))
    }
    return cell
  }

  private func read(_ sample: Int, _ index: Int) throws -> PreparedRow.Cell {
    let grid = layout.grids[index]
    var raw = pool.take(2 * grid.samples)
    try cursors[index].read(sample, into: &raw)
    if let expected = grid.sampleBytes, raw.count != expected {
      throw TakeFailure("sample-size", "a sample of \(grid.name) has \(raw.count) bytes, expected \(expected)")
    }
    guard let dataset = grid.mask else {
      return PreparedRow.Cell(samples: try chunk(raw, grid.samples), isReadable: true)
    }
    var mask = pool.take(2 * dataset)
    let moments = Self.markPositive(raw, grid.stream.spec.type, in: &mask)
    return PreparedRow.Cell(
      samples: try chunk(raw, grid.samples), mask: try chunk(mask, dataset), moments: moments, isReadable: true)
  }

  /// Nothing, with its mask off.
  private func blankCell(_ index: Int) throws -> PreparedRow.Cell {
    if let blank = blank[index] { return blank }
    let grid = layout.grids[index]
    let zeros = [UInt8](repeating: 0, count: grid.sampleBytes ?? 0)
    var cell = PreparedRow.Cell(samples: try chunk(zeros, grid.samples), isReadable: false)
    if let mask = grid.mask {
      cell.mask = try chunk([UInt8](repeating: 0, count: layout.datasets[mask].layout.chunkBytes), mask)
    }
    blank[index] = cell
    return cell
  }

  private func chunk(_ raw: [UInt8], _ dataset: Int) throws -> PreparedChunk {
    let layout = layout.datasets[dataset].layout
    guard let level = layout.deflate else {
      return PreparedChunk(raw: raw, encoded: nil, skipped: 0, dataset: dataset, pool: pool)
    }
    let encoder = try encoders[level] ?? ChunkEncoder(level: level)
    encoders[level] = encoder
    var encoded = pool.take(2 * dataset + 1)
    let skipped = raw.withUnsafeBytes { encoder.encode($0, elementSize: layout.type.size, into: &encoded) }
    return PreparedChunk(raw: raw, encoded: encoded, skipped: skipped, dataset: dataset, pool: pool)
  }

  /// Writes one byte a pixel, 1 where the distance is positive, and returns the moments of those.
  static func markPositive(_ raw: [UInt8], _ type: Datatype, in mask: inout [UInt8]) -> Moments {
    let pixels = raw.count / type.size
    if mask.count != pixels { mask = [UInt8](repeating: 0, count: pixels) }
    return raw.withUnsafeBytes { bytes in
      mask.withUnsafeMutableBufferPointer { mask in
        type == .uint16 ? mark(bytes.bindMemory(to: UInt16.self), mask) { Float($0) } : mark(bytes.bindMemory(to: Float.self), mask) { $0 }
      }
    }
  }

  @inline(__always)
  private static func mark<Value>(
    _ values: UnsafeBufferPointer<Value>, _ mask: UnsafeMutableBufferPointer<UInt8>, _ distance: (Value) -> Float
  ) -> Moments {
    // Eight at a time, in sums of their own; the order of adding is the same on every machine.
    var (sums, squares) = (SIMD8<Double>.zero, SIMD8<Double>.zero)
    var (least, greatest) = (SIMD8<Float>(repeating: .infinity), SIMD8<Float>(repeating: -.infinity))
    var counts = SIMD8<Int32>.zero
    for start in stride(from: 0, to: values.count, by: 8) {
      var lane = SIMD8<Float>.zero
      for offset in 0..<min(8, values.count - start) { lane[offset] = distance(values[start + offset]) }
      let isValid = lane .> 0
      let flags = SIMD8<Int32>.zero.replacing(with: 1, where: isValid)
      for offset in 0..<min(8, values.count - start) { mask[start + offset] = UInt8(truncatingIfNeeded: flags[offset]) }
      counts &+= flags
      let counted = SIMD8<Double>(SIMD8<Float>.zero.replacing(with: lane, where: isValid))
      sums += counted
      squares += counted * counted
      least.replace(with: lane, where: isValid .& (lane .< least))
      greatest.replace(with: lane, where: isValid .& (lane .> greatest))
    }
    let (count, sum) = (Int(counts.wrappedSum()), sums.sum())
    guard count > 0 else { return Moments() }
    let mean = sum / Double(count)
    return Moments(
      count: Int64(count), mean: mean, m2: max(0, squares.sum() - sum * mean), min: Double(least.min()),
      max: Double(greatest.max()))
  }
}
