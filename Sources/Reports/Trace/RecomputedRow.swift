import Datasets
import Evidence
import Foundation
import HDF5
import Media
import Model

/// A row of an episode computed again from its take, as a writer would store it.
struct RecomputedRow: Sendable {
  /// Bytes by path without the episode, as in `StoredRow`.
  private(set) var fields: [String: [UInt8]] = [:]
  /// The reason why the sample of a stream cannot be read.
  private(set) var unreadable: [StreamName: String] = [:]

  /// The first element that two rows differ in.
  struct Difference: Sendable, Equatable {
    var path: String
    /// Index in the row; empty for a number, `nil` where the lengths or the whole arrays differ.
    var element: [Int]?
    var stored: String
    var recomputed: String

    var words: String {
      let place = element.map { $0.isEmpty ? "" : "[\($0.map(String.init).joined(separator: ", "))]" } ?? ""
      return "\(path)\(place) is \(stored) in the dataset and \(recomputed) from the source"
    }

    var json: JSONValue {
      [
        "array": .string(path), "element": element.map { .array($0.map { JSONValue($0) }) } ?? .null, "stored": .string(stored),
        "recomputed": .string(recomputed),
      ]
    }
  }

  /// Reads the samples of one row of an episode. Throws `TakeFailure`.
  init(_ row: Int, of episode: Episode, stored storage: SampleStorage) throws {
    let layout = try ShardLayout(episode, storage)
    var flags: [StreamName: [Bool]] = [:]
    for raster in layout.rasters {
      var cell = try Self.cell(raster, row, layout)
      add(cell, layout, raster.samples, raster.mask)
      if let problem = cell.problem { unreadable[raster.name] = problem }
      flags[raster.name] = episode.frames.timestamps.indices.map { $0 == row && !cell.isReadable }
      if let next = raster.next {
        if row + 1 < episode.frames.count { cell = try Self.cell(raster, row + 1, layout) }
        add(cell, layout, next.samples, next.mask)
      }
    }
    var columns = try ColumnWriter(layout, rowDigests: [], isUnreadable: flags)
    let inertial = episode.streams.filter { $0.value.spec.kind.place == .meta }.map { "\(ShardNames.meta)/\($0.key)/" }
    for column in layout.columns {
      let array = layout.arrays[column.array]
      if case .rowDigests = column.content { continue }
      guard array.layout.dims.first == episode.frames.count, array.path != "\(ShardNames.meta)/gaps",
        !inertial.contains(where: array.path.hasPrefix)
      else { continue }
      fields[Self.key(array.path)] = try columns.bytes(of: column, row: row)
    }
  }

  private static func key(_ path: String) -> String { path.replacing("/\(ShardNames.demo)/", with: "/", maxReplacements: 1) }

  private mutating func add(_ cell: Cell, _ layout: ShardLayout, _ samples: Int, _ mask: Int?) {
    fields[Self.key(layout.arrays[samples].path)] = cell.samples
    if let mask { fields[Self.key(layout.arrays[mask].path)] = cell.mask }
  }

  private struct Cell {
    var samples: [UInt8]
    var mask: [UInt8] = []
    var isReadable = true
    var problem: String?
  }

  /// Returns the cell of a row of images, depth or confidence: zeros, or no file, where there is no sample that can be read.
  private static func cell(_ raster: ShardLayout.RasterArrays, _ row: Int, _ layout: ShardLayout) throws -> Cell {
    var cell = Cell(samples: [])
    do {
      guard let sample = raster.rows[row]?.sample else { throw SampleFailure(finding: Finding(.sampleMissing, "the row has no sample")) }
      var request = raster.request
      // A cursor of its own starts at the nearest place at which a video can be decoded.
      request.isStandalone = raster.stream.source.access.runs != nil
      var cursor = try raster.stream.source.makeCursor(request)
      try cursor.read(sample, into: &cell.samples)
      if let encoding = raster.encoding, encoding != .source {
        let size = raster.stream.spec.gridSize
        if case .jpeg(let quality) = encoding {
          cell.samples = try JPEGEncoder().encode(cell.samples, size: size, quality: quality)
        } else {
          cell.samples = try PNG.encode(cell.samples, size: size, isFast: true)
        }
      }
      if raster.mask != nil { _ = DepthMask.mark(cell.samples, raster.stream.spec.type, in: &cell.mask) }
    } catch let failure as SampleFailure {
      cell.samples = [UInt8](repeating: 0, count: raster.encoding == nil ? raster.sampleBytes ?? 0 : 0)
      cell.mask = [UInt8](repeating: 0, count: raster.mask.map { layout.arrays[$0].layout.chunkBytes } ?? 0)
      cell.isReadable = false
      if raster.rows[row] != nil { cell.problem = failure.finding.message }
    }
    return cell
  }

  /// The first difference from what is stored, in the arrays of a stream or in all. Arrays that were added do not count: those of streams that
  /// the record names, and others, of which it knows nothing.
  func difference(from stored: StoredRow, in stream: StreamName? = nil, except added: Set<StreamName> = []) -> Difference? {
    let keys = Set(fields.keys).union(stored.fields.filter { $0.value.recordedDigestOf != nil }.keys).sorted()
    for key in keys where stream.map({ StoredRow.belongs(key, to: $0) }) ?? true {
      if added.contains(where: { StoredRow.belongs(key, to: $0) }) { continue }
      guard let field = stored.fields[key] else {
        return Difference(path: "/" + key, stored: "absent", recomputed: "present")
      }
      guard let bytes = fields[key] else { return Difference(path: field.path, stored: "present", recomputed: "absent") }
      if bytes != field.bytes { return Self.difference(field, bytes) }
    }
    return nil
  }

  private static func difference(_ field: StoredRow.Field, _ bytes: [UInt8]) -> Difference {
    guard bytes.count == field.bytes.count, let byte = zip(bytes, field.bytes).enumerated().first(where: { $1.0 != $1.1 })?.offset else {
      return Difference(path: field.path, stored: "\(field.bytes.count) bytes", recomputed: "\(bytes.count) bytes")
    }
    let type = field.type == .bytes ? Datatype.uint8 : field.type
    var rest = byte / type.size
    func text(_ all: [UInt8]) -> String {
      let start = byte / type.size * type.size
      let value = StoredRow.Field.numbers(Array(all[start..<(start + type.size)]), type)[0]
      return type == .float32 ? "\(Float(value))" : type == .float64 ? "\(value)" : String(format: "%.0f", value)
    }
    var element: [Int] = []
    if field.type == .bytes {
      element = [rest]
    } else {
      for extent in field.shape.reversed() where extent > 0 {
        element.insert(rest % extent, at: 0)
        rest /= extent
      }
    }
    return Difference(path: field.path, element: element, stored: text(field.bytes), recomputed: text(bytes))
  }
}
