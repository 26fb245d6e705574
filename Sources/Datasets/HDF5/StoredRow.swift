package import Evidence
import Foundation
package import HDF5
package import Model

/// A row of an episode as a file holds it: the bytes of every array that has rows, and whether they are what was written.
///
/// Read with libhdf5, so the caller makes sure that the file is intact or reads it in a process of its own.
package struct StoredRow: Sendable {
  /// The part of one array that belongs to the row.
  package struct Field: Sendable {
    /// Path in the file, with a leading slash.
    package var path: String
    package var type: Datatype
    /// Shape of the row.
    package var shape: [Int]
    /// Row-major, little-endian; the bytes of a file where images are stored as files.
    package var bytes: [UInt8]
    package var digest: Digest
    /// The kind of stream that the array has the values of.
    package var kind: String?
    package var unit: String?
    /// The encoding of images that are stored as files.
    package var encoding: String?
    /// Width and height of such images.
    package var imageSize: ImageSize?
    /// The scope of the digest that the row is checked by: `row` for a digest of the row, `array` for one of the whole array.
    package var recordedDigestOf: String?
    /// The row's recorded digest, where each row has one.
    package var recordedDigest: Digest?
    /// The difference between the array and its record.
    package var problem: String?
  }

  /// The reading of a sensor with times of its own that is nearest to the row.
  package struct Reading: Sendable {
    package var name: StreamName
    package var index: Int
    /// Time of the reading minus time of the row, in nanoseconds.
    package var delay: Int64
    package var values: [Float]
  }

  package let row: Int
  /// Number of rows.
  package let count: Int
  package let takeID: String
  package let clock: String
  package let timeline: String
  /// The arrays by path without the episode: `data/obs/pose`, `meta/streams/pose/dt_ns`.
  package private(set) var fields: [String: Field] = [:]
  package private(set) var readings: [Reading] = []

  /// Bytes of an array that are read at a time.
  private static let block = 4 << 20
  /// Arrays below `meta` that have no rows of the episode, whatever their length.
  private static let others: Set<String> = [ShardNames.gaps, ShardNames.checksums, ShardNames.rowDigests, ShardNames.statistics]

  /// The number of rows of an episode. Throws `HDF5Error`.
  package static func count(in file: File, demo: String) throws -> Int {
    Int(clamping: try StoredEpisode(file.root, demo: demo).rowCount() ?? 0)
  }

  /// Reads a row. Throws `HDF5Error`.
  ///
  /// - Parameter recorded: Digests of the arrays by the manifest, by path; those in the file where there is none.
  package init(_ row: Int, of demo: String, in file: File, recorded: [String: Digest]?) throws {
    self.row = row
    let episode = try StoredEpisode(file.root, demo: demo)
    let (data, meta) = (episode.data, episode.meta)
    count = try Self.count(in: file, demo: demo)
    takeID = try episode.id() ?? demo
    let times = try episode.times()
    clock = try times.textAttribute("clock") ?? ""
    timeline = try times.textAttribute("timeline") ?? "source"
    let walk = Walk(demo: demo, count: count, row: row, meta: meta, recorded: recorded)
    for (section, group) in [(ShardNames.allData, data), (ShardNames.allMeta, meta)] {
      try walk.visit(group, section, "/\(section)/\(demo)", into: &fields)
    }
    for (name, kind) in try meta.members() where kind == .group && name != ShardNames.streams {
      let group = try meta.group(name)
      if group.contains(ShardNames.accelerations), let reading = try reading(StreamName(name), group) { readings.append(reading) }
    }
  }

  /// Goes through the arrays of an episode.
  private struct Walk {
    let demo: String
    let count: Int
    let row: Int
    let meta: Group
    let recorded: [String: Digest]?

    func visit(_ group: Group, _ key: String, _ path: String, into fields: inout [String: Field], depth: Int = 0) throws {
      guard depth < 4, !group.contains(ShardNames.accelerations) else { return }
      for (name, kind) in try group.members() where !(key == ShardNames.allMeta && StoredRow.others.contains(name)) {
        switch kind {
        case .group: try visit(group.group(name), "\(key)/\(name)", "\(path)/\(name)", into: &fields, depth: depth + 1)
        case .dataset:
          let dataset = try group.dataset(name)
          guard let type = dataset.type, dataset.dims.first == count, !dataset.hasExternalStorage else { continue }
          fields["\(key)/\(name)"] = try field(dataset, type, "\(path)/\(name)")
        case .external, .other: break
        }
      }
    }

    private func field(_ dataset: HDF5Array, _ type: Datatype, _ path: String) throws -> Field {
      let bytes = type == .bytes ? try dataset.readSequence(row: row) : try dataset.read(rows: row..<(row + 1))
      var field = Field(path: path, type: type, shape: Array(dataset.dims.dropFirst()), bytes: bytes, digest: Digest.of(bytes))
      field.kind = try dataset.textAttribute("kind")
      field.unit = try dataset.textAttribute("unit")
      if type == .bytes {
        field.encoding = try dataset.textAttribute("encoding")
        if let width = try dataset.integerAttribute("width"), let height = try dataset.integerAttribute("height") {
          field.imageSize = ImageSize(width: Int(clamping: width), height: Int(clamping: height))
        }
      }
      let scope = try dataset.textAttribute("sha256_of")
      // A record names the shard's paths, whatever the episode is called in this file.
      let recordPath = path.replacing("/\(demo)/", with: "/\(ShardNames.demo)/", maxReplacements: 1)
      let attribute = try dataset.textAttribute("sha256").flatMap { Digest(hex: $0) }
      guard let expected = recorded == nil ? attribute : recorded?[recordPath], let scope else {
        if recorded != nil, recorded?[recordPath] != nil { field.problem = "it has lost its digest" }
        return field
      }
      field.recordedDigestOf = scope == "rows" ? "row" : "array"
      if scope == "rows" {
        let name = String(ShardNames.rowDigests(of: path.dropFirst()).dropFirst("meta/\(demo)/".count))
        let digests = try meta.dataset(name).readAll()
        guard digests.count == 32 * count else {
          field.problem = "the digests of its rows are missing"
          return field
        }
        field.recordedDigest = Digest(bytes: digests[(32 * row)..<(32 * row + 32)])
        if Digest.of(digests) != expected {
          field.problem = "the digests of its rows have changed"
        } else if field.recordedDigest != field.digest {
          field.problem = "the row's content has changed"
        }
      } else if try wholeDigest(dataset, type) != expected {
        field.problem = "its content has changed"
      }
      return field
    }

    /// Digest of a whole array, read some rows at a time.
    private func wholeDigest(_ dataset: HDF5Array, _ type: Datatype) throws -> Digest {
      let hasher = SHA256()
      let rowBytes = max(1, dataset.dims.dropFirst().reduce(type.size, *))
      let step = max(1, StoredRow.block / rowBytes)
      for start in stride(from: 0, to: count, by: step) { hasher.update(try dataset.read(rows: start..<min(count, start + step))) }
      return hasher.finish()
    }
  }

  /// The reading nearest to the row; `nil` where the sensor's clock was not aligned with the frames'.
  private func reading(_ name: StreamName, _ group: Group) throws -> Reading? {
    let stored = try group.dataset(ShardNames.times)
    guard try stored.textAttribute("clock") == clock, let time = integer("meta/timestamp_ns") else { return nil }
    let times = try stored.readAll(as: Int64.self)
    let gaps = times.map { abs(Double($0) - Double(time)) }
    guard let least = gaps.min(), let index = gaps.firstIndex(of: least) else { return nil }
    let values = try [ShardNames.accelerations, ShardNames.rotationRates].flatMap { part in
      try group.dataset(part).read(rows: index..<(index + 1)).withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
    }
    let (delay, overflow) = times[index].subtractingReportingOverflow(time)
    return overflow ? nil : Reading(name: name, index: index, delay: delay, values: values)
  }

  // MARK: Looking at it

  /// Streams of the row, images first, then by name.
  package var streams: [StreamName] {
    let observed = fields.compactMap { key, field -> (Int, StreamName)? in
      guard let kind = field.kind, key.hasPrefix("data/"), !key.hasPrefix("data/next_obs/") else { return nil }
      let name = key.hasPrefix("data/obs/") ? key.dropFirst("data/obs/".count) : key.dropFirst("data/".count)
      let rank = ["image": 0, "depth": 1, "confidence": 2, "pose": 3, "action": 5][kind] ?? 4
      return (rank, StreamName(String(name)))
    }
    return observed.sorted { ($0.0, $0.1) < ($1.0, $1.1) }.map(\.1) + readings.map(\.name)
  }

  /// The array with a stream's values.
  package func field(of stream: StreamName) -> Field? { fields["data/obs/\(stream)"] ?? fields["data/\(stream)"] }

  /// Whether an array belongs to a stream: its values, masks, times and intrinsics, or, in the last case, those of the next row.
  package static func belongs(_ key: String, to stream: StreamName) -> Bool {
    let names = ["\(stream)", "\(stream)_valid", ShardNames.raw(of: stream), "\(stream)_intrinsics"]
    return names.contains { ["data/\($0)", "data/obs/\($0)", "data/next_obs/\($0)", "meta/\($0)"].contains(key) }
      || key.hasPrefix("meta/streams/\(stream)/")
  }

  /// Returns the whole number of a field with one element; `nil` without the field, and for several elements or a fraction.
  package func integer(_ key: String) -> Int64? {
    guard let field = fields[key], field.bytes.count == field.type.size else { return nil }
    return field.values.first.flatMap { Int64(exactly: $0) } ?? field.wideInteger
  }

  /// Returns the first number of a field; `nil` without the field, or for one of bytes.
  package func number(_ key: String) -> Double? { fields[key]?.values.first }
}

extension StoredRow.Field {
  /// The elements as numbers; 64-bit ones are rounded.
  package var values: [Double] { Self.numbers(bytes, type) }

  /// The one 64-bit integer that the row is.
  fileprivate var wideInteger: Int64? {
    guard type == .int64, bytes.count == 8 else { return nil }
    return bytes.withUnsafeBytes { Int64(littleEndian: $0.loadUnaligned(as: Int64.self)) }
  }

  /// Returns row-major, little-endian elements as numbers; none for a type that is not numeric. Bytes of an incomplete element are ignored.
  package static func numbers(_ bytes: [UInt8], _ type: Datatype) -> [Double] {
    bytes.withUnsafeBytes { raw in
      func all<Number>(_ kind: Number.Type, _ number: (Number) -> Double) -> [Double] {
        let size = MemoryLayout<Number>.size
        return (0..<(raw.count / size)).map { number(raw.loadUnaligned(fromByteOffset: $0 * size, as: Number.self)) }
      }
      switch type {
      case .uint8, .boolean: return all(UInt8.self) { Double($0) }
      case .int8: return all(Int8.self) { Double($0) }
      case .uint16: return all(UInt16.self) { Double($0) }
      case .int32: return all(Int32.self) { Double($0) }
      case .int64: return all(Int64.self) { Double($0) }
      case .float32: return all(Float.self) { Double($0) }
      case .float64: return all(Double.self) { $0 }
      case .string, .text, .bytes: return []
      }
    }
  }
}
