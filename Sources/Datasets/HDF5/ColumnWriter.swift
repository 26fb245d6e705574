import Evidence
import HDF5
package import Model

/// Creates and stores the small arrays of a shard, in order, once all frames have been read.
package struct ColumnWriter {
  private let layout: ShardLayout
  private let rowDigests: [[UInt8]]
  private let isUnreadable: [StreamName: [Bool]]
  private var rows: RowReader
  private var encoders: [Int: ChunkEncoder] = [:]
  private var encoded: [UInt8] = []
  /// Statistics of the streams whose values were written.
  private(set) var statistics: [StreamName: Statistics] = [:]
  /// Checksums of the stored chunks, by array.
  private(set) var checksums: [Int: [UInt32]] = [:]

  var findings: [Finding] { rows.findings }

  package init(_ layout: ShardLayout, rowDigests: [[UInt8]], isUnreadable: [StreamName: [Bool]]) throws {
    (self.layout, self.rowDigests, self.isUnreadable) = (layout, rowDigests, isUnreadable)
    rows = RowReader(layout.episode)
  }

  /// Stores an array and returns the digest of its logical content.
  mutating func write(_ column: ShardLayout.Column, to dataset: HDF5Array) throws -> Digest {
    let layout = layout.arrays[column.array].layout
    let hasher = SHA256()
    let count = layout.dims[0]
    let make = try maker(column.content, width: layout.dims.dropFirst().reduce(1, *), count: count)
    guard let chunk = layout.chunk, let level = layout.deflate else {
      let bytes = try make(0..<count, &self)
      hasher.update(bytes)
      try bytes.withUnsafeBytes { try dataset.write($0) }
      return hasher.finish()
    }
    for start in stride(from: 0, to: count, by: chunk[0]) {
      var raw = try make(start..<min(start + chunk[0], count), &self)
      hasher.update(raw)
      // Chunks are stored in full; the last one is padded.
      raw.append(contentsOf: repeatElement(0, count: layout.chunkBytes - raw.count))
      let origin = [start] + layout.dims.dropFirst().map { _ in 0 }
      let encoder = try encoders[level] ?? ChunkEncoder(level: level)
      encoders[level] = encoder
      let skipped = raw.withUnsafeBytes { encoder.encode($0, elementSize: layout.type.size, into: &encoded) }
      try encoded.withUnsafeBytes {
        try dataset.writeChunk($0, at: origin, skipped: skipped)
        checksums[column.array, default: []].append(chunkChecksum($0))
      }
    }
    return hasher.finish()
  }

  /// The bytes of one row of an array, which nothing is written to.
  package mutating func bytes(of column: ShardLayout.Column, row: Int) throws -> [UInt8] {
    let dims = layout.arrays[column.array].layout.dims
    return try maker(column.content, width: dims.dropFirst().reduce(1, *), count: dims[0])(row..<(row + 1), &self)
  }

  private typealias Make = (Range<Int>, inout ColumnWriter) throws -> [UInt8]

  /// A function that returns the bytes of a range of rows.
  private mutating func maker(_ content: ShardLayout.Column.Content, width: Int, count: Int) throws -> Make {
    func bytes<Number>(_ numbers: some RandomAccessCollection<Number>) -> [UInt8] { Array(numbers).withUnsafeBytes { Array($0) } }
    let episode = layout.episode
    switch content {
    case .integers(let values):
      return { range, _ in bytes(values[(range.lowerBound * width)..<(range.upperBound * width)]) }
    case .floats(let values): return { range, _ in bytes(values[range]) }
    case .rowDigests(let array):
      let digests = rowDigests[array]
      return { range, _ in Array(digests[(range.lowerBound * 32)..<(range.upperBound * 32)]) }
    case .bytes(let values): return { range, _ in Array(values[range]) }
    case .values(let name):
      let spec = try self.spec(name)
      let channels = spec.statisticsChannels
      statistics[name] = Statistics(channels: channels, .floats)
      return { range, writer in
        try range.flatMap { row in
          let (stored, counted) = try writer.value(name, row, spec)
          for (index, value) in counted.enumerated() where value.isFinite {
            writer.statistics[name]?.add(value, channel: index % channels)
          }
          return bytes(stored)
        }
      }
    case .nextValues(let name):
      let spec = try self.spec(name)
      let last = count - 1
      return { range, writer in try range.flatMap { bytes(try writer.value(name, min($0 + 1, last), spec).stored) } }
    case .rawValues(let name):
      guard let stream = episode.streams[name] else { return { _, _ in [] } }
      let read = try RowReader.rawValues(of: stream)
      return { range, _ in try range.flatMap { bytes(try read($0)) } }
    case .mask(let name, let isNext):
      let spec = try self.spec(name)
      let last = count - 1
      return { range, writer in
        try range.flatMap { row in
          let values = try writer.rows.values(of: name, at: isNext ? min(row + 1, last) : row)
          guard spec.kind.mask == .row else { return values.map { $0.isNaN ? UInt8(0) : 1 } }
          return Self.groups(of: values, spec).map { $0.contains(where: \.isNaN) ? 0 : 1 }
        }
      }
    case .samples(let name, let numbers):
      guard let stream = episode.streams[name] else { return { _, _ in [] } }
      var cursor = try stream.source.makeCursor(SampleRequest())
      var sample: [UInt8] = []
      return { range, _ in
        try range.flatMap { index in
          try cursor.read(index, into: &sample)
          return Array(sample[(4 * numbers.lowerBound)..<(4 * numbers.upperBound)])
        }
      }
    case .readable(let name):
      let stream = episode.streams[name]
      var flags = isUnreadable[name].map { $0.map { $0 ? UInt8(0) : 1 } } ?? (stream?.rows ?? []).map { $0 == nil ? 0 : 1 }
      if let stream, let isRepeat = stream.isRepeat {
        for (row, value) in (stream.rows ?? []).enumerated() { if let value, isRepeat[value.sample] { flags[row] = 0 } }
      }
      return { range, _ in Array(flags[range]) }
    case .intrinsics(let name):
      guard let stream = episode.streams[name] else { return { _, _ in [] } }
      return { range, _ in
        range.flatMap { row in
          let camera = episode.intrinsics(of: stream, at: stream.rows?[row])
          return bytes(camera.map { [$0.fx, $0.fy, $0.cx, $0.cy].map { Float($0) } } ?? Array(repeating: .nan, count: 4))
        }
      }
    case .quality:
      let quality = episode.quality(unreadable: isUnreadable).map(\.rawValue)
      return { range, _ in Array(quality[range]) }
    }
  }

  private func spec(_ name: StreamName) throws -> StreamSpec {
    guard let spec = layout.episode.streams[name]?.spec ?? layout.episode.derived[name]?.spec else {
      throw TakeFailure(.internal, "there is no stream \(name)")
    }
    return spec
  }

  /// The numbers of a row as stored, and those that count for the statistics: NaN where there is none.
  private mutating func value(_ name: StreamName, _ row: Int, _ spec: StreamSpec) throws -> (stored: [Float], counted: [Float]) {
    let values = try rows.values(of: name, at: row)
    guard spec.kind.mask == .row else { return (values, values) }
    if values.contains(where: \.isNaN), let placeholder = try layout.episode.derived[name]?.placeholder(at: row, of: &rows) {
      return (placeholder, Array(repeating: .nan, count: values.count))
    }
    var (stored, counted): ([Float], [Float]) = ([], [])
    for group in Self.groups(of: values, spec) {
      let isMissing = group.contains(where: \.isNaN)
      stored += isMissing ? Array(repeating: spec.kind.missingValue, count: group.count) : Array(group)
      counted += isMissing ? Array(repeating: .nan, count: group.count) : Array(group)
    }
    return (stored, counted)
  }

  /// The values in rows of the last dimension, each valid or missing as a whole.
  private static func groups(of values: [Float], _ spec: StreamSpec) -> [ArraySlice<Float>] {
    let width = max(spec.shape.last ?? 1, 1)
    return stride(from: 0, to: values.count, by: width).map { values[$0..<min($0 + width, values.count)] }
  }
}
