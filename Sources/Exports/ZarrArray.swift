import Evidence
import Foundation
import HDF5
import Model

/// An array of a Zarr store, divided into chunks along its first axis only.
///
/// Source: the specification "Zarr Storage Specification Version 2": `.zarray` in JSON, and a file per chunk, named by the chunk's
/// numbers along each axis. Chunks at the end are of full size too.
struct ZarrArray: Sendable {
  /// Path in the store: `data/pose`.
  let path: String
  let type: ScalarType
  /// Number of rows, and the shape of one.
  let rows: Int
  let rowShape: [Int]
  /// Rows of a chunk.
  let chunkRows: Int
  /// Level of the zlib compressor; 0 for none.
  let level: Int
  /// Written as `.zattrs`.
  var attributes: [String: JSONValue] = [:]

  var rowBytes: Int { rowShape.reduce(type.size, *) }
  var chunkCount: Int { (rows + chunkRows - 1) / chunkRows }

  /// The name of a chunk: `data/pose/0.0`.
  func chunk(_ index: Int) -> String { "\(path)/\(index)" + String(repeating: ".0", count: rowShape.count) }

  /// Path and contents of the metadata.
  var metadata: [(path: String, bytes: [UInt8])] {
    let shape = rowShape.map { JSONValue($0) }
    let array: JSONValue = [
      "zarr_format": 2, "shape": .array([JSONValue(rows)] + shape), "chunks": .array([JSONValue(chunkRows)] + shape),
      "dtype": .string(type.numpyName), "order": "C", "fill_value": 0, "filters": .null,
      "compressor": level == 0 ? .null : ["id": "zlib", "level": JSONValue(level)],
    ]
    let files = [("\(path)/.zarray", array.canonicalBytes)]
    return attributes.isEmpty ? files : files + [("\(path)/.zattrs", JSONValue.object(attributes).canonicalBytes)]
  }

  static let group = JSONValue.object(["zarr_format": 2]).canonicalBytes
}

/// Compresses chunks of Zarr arrays. One serves one thread.
struct ZarrCompressor {
  private let encoder: ZlibEncoder?

  init(level: Int) throws { encoder = level == 0 ? nil : try ZlibEncoder(level: level) }

  func callAsFunction(_ bytes: [UInt8]) -> [UInt8] {
    guard let encoder else { return bytes }
    return bytes.withUnsafeBytes { encoder.encode($0) }
  }
}

/// Collects rows of an array, and writes a chunk whenever one is complete.
struct ZarrRows {
  let array: ZarrArray
  private let compress: ZarrCompressor
  private var buffer: [UInt8] = []
  private var next = 0

  init(_ array: ZarrArray) throws {
    self.array = array
    compress = try ZarrCompressor(level: array.level)
  }

  /// Adds a row. Every number is one that the array's type represents.
  mutating func append(_ values: [Double], to store: ZarrStore) throws {
    switch array.type {
    case .uint8: buffer += values.map { UInt8($0) }
    case .int64: values.map { Int64($0) }.withUnsafeBytes { buffer += $0 }
    case .float64: values.withUnsafeBytes { buffer += $0 }
    default: values.map { Float($0) }.withUnsafeBytes { buffer += $0 }
    }
    if buffer.count == array.chunkRows * array.rowBytes { try write(to: store) }
  }

  /// Writes the last chunk, filled up with zeros.
  mutating func finish(in store: ZarrStore) throws {
    guard !buffer.isEmpty else { return }
    buffer += [UInt8](repeating: 0, count: array.chunkRows * array.rowBytes - buffer.count)
    try write(to: store)
  }

  private mutating func write(to store: ZarrStore) throws {
    try store.add(compress(buffer), array.chunk(next))
    buffer.removeAll(keepingCapacity: true)
    next += 1
  }
}

/// The place for the members of a Zarr store: a folder, or a zip file.
struct ZarrStore {
  /// Writes a member; in order, from one thread.
  let add: (_ bytes: [UInt8], _ path: String) throws -> Void

  /// Runs `body` with a store that is a folder, or a zip file of this name.
  static func write(to directory: ExportDirectory, zip: String?, _ body: (ZarrStore) throws -> Void) throws {
    guard let zip else { return try body(ZarrStore { try directory.write($0, to: $1) }) }
    try directory.writing(zip) { write in
      try withoutActuallyEscaping(write) { write in
        var file = StoredZip(write)
        try body(ZarrStore { try file.add($0, named: $1) })
        try file.finish()
      }
    }
  }
}
