import Evidence
import HDF5
import Media
import Model
import Rasters
import Synchronization

/// Buffers that are reused, so that memory use does not depend on the length of the take.
final class BufferPool: Sendable {
  private let free = Mutex<[[[UInt8]]]>([])

  /// - Parameter kinds: Number of kinds of buffers; those of one kind have about the same size.
  init(kinds: Int) { free.withLock { $0 = Array(repeating: [], count: kinds) } }

  func take(_ kind: Int) -> [UInt8] { free.withLock { $0[kind].popLast() } ?? [] }

  func drain() { free.withLock { $0 = Array(repeating: [], count: $0.count) } }

  func give(_ buffer: [UInt8], _ kind: Int) { free.withLock { $0[kind].append(buffer) } }
}

/// A chunk ready to be stored: its logical bytes and their digest, and its stored bytes. Both buffers return to the pool when the chunk is
/// no longer needed.
///
/// `@unchecked Sendable`: the worker that makes a chunk sets its digest before anything else sees it.
final class PreparedChunk: @unchecked Sendable {
  let raw: [UInt8]
  fileprivate(set) var digest: Digest?
  /// The deflated bytes; `nil` when the raw bytes are stored.
  let encoded: [UInt8]?
  /// The pixels of an image that was encoded.
  let pixels: [UInt8]?
  let skipped: UInt32
  /// CRC-32 of the encoded bytes.
  let checksum: UInt32?
  private let array: Int
  private let pool: BufferPool

  init(
    raw: [UInt8], encoded: [UInt8]? = nil, skipped: UInt32 = 0, pixels: [UInt8]? = nil, array: Int, pool: BufferPool
  ) {
    (self.raw, self.encoded, self.skipped, self.array, self.pool) = (raw, encoded, skipped, array, pool)
    self.pixels = pixels
    checksum = encoded?.withUnsafeBytes(chunkChecksum)
  }

  deinit {
    // The buffer of an image file is the encoder's own.
    pool.give(pixels ?? raw, 2 * array)
    if let encoded { pool.give(encoded, 2 * array + 1) }
  }

  var stored: [UInt8] { encoded ?? raw }
}

/// One row of the rasters: the chunks of each, or the problem.
struct PreparedRow: Sendable {
  struct Cell: Sendable {
    var samples: PreparedChunk
    var mask: PreparedChunk?
    /// Moments of the valid elements, for depth; for images the histogram suffices.
    var moments = Moments()
    var isReadable: Bool
    /// The findings about the sample, whether or not it is readable.
    var findings: [Finding] = []
  }
  /// Cells by raster.
  var cells: [Cell]
  var image: ImageMeter.Reading?
  var motion: MeasuredMotion.Part?
}

/// Prepares rows of the rasters on one thread: reads, decodes, filters, counts, digests.
final class HDF5Worker: ShardWorker {
  private let shard: HDF5Shard
  private var layout: ShardLayout { shard.layout }
  private var cursors: [any SampleCursor]
  private var encoders: [Int: ChunkEncoder] = [:]
  private var jpeg: JPEGEncoder?
  private var meter: ImageMeter?
  /// The chunks of the block that are not yet among the messages to be digested.
  private var undigested: [PreparedChunk] = []
  private let lanes = DigestLanes()
  /// The rasters as they are read: the largest first, so that files of the others are digested beside its values.
  private let order: [Int]
  /// The last sample of each raster: neighboring rows often share a depth map, which is then read and deflated once.
  private var last: [(sample: Int, cell: PreparedRow.Cell)?]
  private var blank: [PreparedRow.Cell?]
  private let histogram: RasterHistogram
  private let pool: BufferPool

  init(_ shard: HDF5Shard, histogram: RasterHistogram, pool: BufferPool) throws {
    (self.shard, self.histogram, self.pool) = (shard, histogram, pool)
    cursors = try shard.layout.rasters.map { try $0.stream.source.makeCursor($0.request) }
    let sizes = shard.layout.rasters.map { $0.sampleBytes ?? 0 }
    order = sizes.indices.sorted { sizes[$0] > sizes[$1] }
    last = shard.layout.rasters.map { _ in nil }
    blank = shard.layout.rasters.map { _ in nil }
  }

  func prepare(_ block: Int) throws -> PreparedBlock {
    let range = layout.blocks.blocks[block]
    // The block's chunks are digested together, beside the input files, while they are in this thread's cache.
    var last: (row: Int, image: MotionImage)?
    var rows = try DigestLanes.$current.withValue(lanes) {
      defer { lanes.finish() }
      return try range.map { row in
        var cells = [PreparedRow.Cell?](repeating: nil, count: order.count)
        for raster in order { cells[raster] = try cell(raster: raster, row: row, of: range) }
        var prepared = PreparedRow(cells: cells.compactMap(\.self))
        examine(prepared, row)
        prepared.image = measure(prepared, row)
        prepared.motion = motion(prepared, row, after: &last)
        return prepared
      }
    }
    // The first image of the next block is compared with it.
    if let last { rows[last.row - range.lowerBound].motion?.image = last.image }
    let bytes = rows.reduce(0) { $0 + $1.cells.reduce(0) { $0 + $1.samples.raw.count } }
    let shard = shard
    return PreparedBlock(rows: rows.count, bytes: bytes) { [rows] in try shard.store(rows) }
  }

  private func measure(_ prepared: PreparedRow, _ row: Int) -> ImageMeter.Reading? {
    guard let measured = shard.measured, row % measured.every == 0, prepared.cells[measured.raster].isReadable else { return nil }
    let samples = prepared.cells[measured.raster].samples
    if meter == nil { meter = ImageMeter(of: measured.size) }
    return meter?.read(samples.pixels ?? samples.raw)
  }

  /// Compares the image of a row with the one before it, `last`, if that is in the same block.
  private func motion(_ prepared: PreparedRow, _ row: Int, after last: inout (row: Int, image: MotionImage)?) -> MeasuredMotion.Part? {
    guard let motion = shard.motion, motion.rows.contains(row), prepared.cells[shard.motionRaster].isReadable else { return nil }
    let samples = prepared.cells[shard.motionRaster].samples
    guard let image = motion.grid.image(samples.pixels ?? samples.raw) else { return nil }
    defer { last = (row, image) }
    if let last, motion.earlier[row] == last.row { return MeasuredMotion.Part(shifts: last.image.shifts(to: image, lens: motion.lens)) }
    return MeasuredMotion.Part(image: image)
  }

  /// Compares the image of a row with its depth, if it is one of those that are examined.
  private func examine(_ prepared: PreparedRow, _ row: Int) {
    guard let edges = shard.edges, edges.rows.contains(row) else { return }
    func cell(_ name: StreamName) -> (raster: ShardLayout.RasterArrays, cell: PreparedRow.Cell)? {
      zip(layout.rasters, prepared.cells).first { $0.name == name && $1.isReadable }.map { (raster: $0, cell: $1) }
    }
    guard let image = cell(edges.image), let map = cell(edges.depth) else { return }
    var (pixels, size) = (image.cell.samples.pixels ?? image.cell.samples.raw, image.raster.stream.spec.gridSize)
    if image.raster.encoding == .source {
      let enough = size.fitted(within: ImageSize(width: EdgeAgreement.side, height: EdgeAgreement.side))
      let (file, reduction) = (pixels, JPEGDecoder.reduction(from: size, covering: enough))
      let found = try? file.withUnsafeBytes {
        try JPEGDecoder().decode($0, reduction: reduction, limit: max(size.width, size.height), into: &pixels)
      }
      guard found != nil else { return }
      size = JPEGDecoder.reduced(size, by: reduction)
    }
    if let found = edges.row(pixels, size, map.cell.samples.raw) { shard.note(found, at: row) }
  }

  private func cell(raster index: Int, row: Int, of block: Range<Int>) throws -> PreparedRow.Cell {
    defer {
      for chunk in undigested { digest(chunk) }
      undigested.removeAll(keepingCapacity: true)
    }
    let raster = layout.rasters[index]
    guard let sample = raster.rows[row]?.sample else { return try blankCell(index) }
    var cell: PreparedRow.Cell
    if let last = last[index], last.sample == sample {
      cell = last.cell
    } else {
      do {
        cell = try read(sample, index)
        cell.findings = cursors[index].notes
      } catch let failure as SampleFailure {
        cell = try blankCell(index)
        cell.findings = [failure.finding]
      }
      last[index] = (sample, cell)
    }
    // Values of a sample that neighboring rows share are counted at the first of them.
    if cell.isReadable, raster.sampleBytes != nil, row == block.lowerBound || raster.rows[row - 1]?.sample != sample {
      let times = raster.rows[row..<block.upperBound].prefix { $0?.sample == sample }.count
      // Pixels that are about to be digested are counted on the way.
      if times == 1, cell.samples.pixels == nil, undigested.last === cell.samples,
        let counters = histogram.counters(cell.samples.raw, raster: index)
      {
        undigested.removeLast()
        digest(cell.samples, counters)
      } else {
        histogram.count(cell.samples.pixels ?? cell.samples.raw, raster: index, times: Int64(times))
      }
    }
    return cell
  }

  private func digest(_ chunk: PreparedChunk, _ counters: PairCounters? = nil) {
    lanes.add(chunk.raw, counters: counters) { chunk.digest = $0 }
  }

  private func read(_ sample: Int, _ index: Int) throws -> PreparedRow.Cell {
    let raster = layout.rasters[index]
    var raw = pool.take(2 * raster.samples)
    try cursors[index].read(sample, into: &raw)
    if let expected = raster.sampleBytes, raw.count != expected {
      throw TakeFailure(.sampleSize, "a sample of \(raster.name) has \(raw.count) bytes, expected \(expected)")
    }
    if let encoding = raster.encoding, encoding != .source {
      let file = try encode(raw, encoding, of: raster.stream.spec)
      let chunk = PreparedChunk(raw: file, pixels: raw, array: raster.samples, pool: pool)
      undigested.append(chunk)
      return PreparedRow.Cell(samples: chunk, isReadable: true)
    }
    guard let array = raster.mask else {
      return PreparedRow.Cell(samples: try chunk(raw, raster.samples), isReadable: true)
    }
    var mask = pool.take(2 * array)
    let moments = DepthMask.mark(raw, raster.stream.spec.type, in: &mask)
    return PreparedRow.Cell(
      samples: try chunk(raw, raster.samples), mask: try chunk(mask, array), moments: moments, isReadable: true)
  }

  private func encode(_ pixels: [UInt8], _ encoding: ShardLayout.RasterArrays.Encoding, of spec: StreamSpec) throws -> [UInt8] {
    let size = spec.gridSize
    guard case .jpeg(let quality) = encoding else { return try PNG.encode(pixels, size: size, isFast: true) }
    let encoder = try jpeg ?? JPEGEncoder()
    jpeg = encoder
    return try encoder.encode(pixels, size: size, quality: quality)
  }

  /// A cell of zeros, or of no file, with its mask off.
  private func blankCell(_ index: Int) throws -> PreparedRow.Cell {
    if let blank = blank[index] { return blank }
    let raster = layout.rasters[index]
    let zeros = [UInt8](repeating: 0, count: raster.encoding == nil ? raster.sampleBytes ?? 0 : 0)
    var cell = PreparedRow.Cell(samples: try chunk(zeros, raster.samples), isReadable: false)
    if let mask = raster.mask {
      cell.mask = try chunk([UInt8](repeating: 0, count: layout.arrays[mask].layout.chunkBytes), mask)
    }
    blank[index] = cell
    return cell
  }

  private func chunk(_ raw: [UInt8], _ array: Int) throws -> PreparedChunk {
    let layout = layout.arrays[array].layout
    var (encoded, skipped): ([UInt8]?, UInt32) = (nil, 0)
    if let level = layout.deflate {
      let encoder = try encoders[level] ?? ChunkEncoder(level: level)
      encoders[level] = encoder
      var buffer = pool.take(2 * array + 1)
      skipped = raw.withUnsafeBytes { encoder.encode($0, elementSize: layout.type.size, into: &buffer) }
      encoded = buffer
    }
    let chunk = PreparedChunk(raw: raw, encoded: encoded, skipped: skipped, array: array, pool: pool)
    undigested.append(chunk)
    return chunk
  }
}
