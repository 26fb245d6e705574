import Evidence
import HDF5
import Model

/// The statistics of a shard's streams, in a form that can be merged across shards: `meta/demo_0/statistics`, JSON as bytes.
struct ShardStatistics {
  struct Entry {
    var name: String
    /// Meaning of the numbers; statistics of one name merge only if their meaning is the same.
    var meaning: Meaning
    /// Shape of one sample.
    var shape: [Int]
    var statistics: Statistics

    init(_ name: StreamName, _ spec: StreamSpec, _ statistics: Statistics) {
      self.name = name.rawValue
      self.statistics = statistics
      shape = spec.shape
      let frame = spec.kind.poseFrame ?? spec.actionFrame
      meaning = Meaning(unit: spec.unit, type: spec.type.rawValue, axes: frame?.cameraAxes.rawValue, channels: statistics.channels)
    }

    /// The statistics of a vector that was added to a shard.
    init(added name: StreamName, in shard: Group) throws {
      let array = try StoredEpisode(shard).observation(name.rawValue)
      guard array.type == .float32, array.dims.count == 2, array.dims[1] > 0 else {
        throw HDF5Error(call: "read", target: array.name, message: "expected rows of numbers")
      }
      (self.name, shape) = (name.rawValue, [array.dims[1]])
      statistics = Statistics(channels: shape[0], .floats)
      // What is absent is NaN.
      for (index, value) in try array.readAll(as: Float.self).enumerated() where value.isFinite {
        statistics.add(value, channel: index % shape[0])
      }
      meaning = Meaning(unit: try array.textAttribute("unit") ?? "", type: ScalarType.float32.rawValue, axes: nil, channels: shape[0])
    }

    /// Reads what `write` has written; throws where something is missing.
    fileprivate init(_ reader: JSONReader) throws {
      var (name, unit, type, axes): (String?, String?, String?, String?)
      var buckets: Histogram.Buckets?
      var (shape, channels): ([Int]?, [Channel]?)
      try reader.members { key in
        switch key {
        case "name": name = try reader.string()
        case "unit": unit = try reader.string()
        case "type": type = try reader.string()
        case "axes": axes = try reader.optional { try reader.string() }
        case "shape": shape = try reader.list { try reader.whole() }
        case "bucket": buckets = Histogram.Buckets(rawValue: try reader.string())
        case "channels": channels = try reader.list { try Channel(reader) }
        default: return false
        }
        return true
      }
      guard let name, let unit, let type, let buckets, let shape, let channels else {
        throw UnexpectedValue(expected: "the statistics of a stream")
      }
      (self.name, self.shape) = (name, shape)
      meaning = Meaning(unit: unit, type: type, axes: axes, channels: channels.count)
      statistics = Statistics(channels: channels.count, buckets)
      for (index, channel) in channels.enumerated() where channel.moments.count > 0 {
        statistics.moments[index] = channel.moments
        for (bucket, count) in channel.histogram { statistics.histograms[index].add(bucket: bucket, count: count) }
      }
    }
  }

  private struct Channel {
    private(set) var moments = Moments()
    private(set) var histogram: [(bucket: Int64, count: Int64)] = []

    init(_ reader: JSONReader) throws {
      var (count, mean, m2, least, greatest): (Int64?, Double?, Double?, Double?, Double?)
      var numbers: [Int64]?
      try reader.members { key in
        switch key {
        case "count": count = try Self.exact(reader)
        case "mean": mean = try reader.decimal()
        case "m2": m2 = try reader.decimal()
        case "min": least = try reader.decimal()
        case "max": greatest = try reader.decimal()
        case "histogram": numbers = try reader.list { try Self.exact(reader) }
        default: return false
        }
        return true
      }
      // A channel without values has its count alone.
      if count == 0 { return }
      guard let count, let mean, let m2, let least, let greatest, let numbers, count > 0, numbers.count % 2 == 0 else {
        throw UnexpectedValue(expected: "count, mean, m2, min, max and pairs of a bucket and its count")
      }
      moments = Moments(count: count, mean: mean, m2: m2, min: least, max: greatest)
      for pair in stride(from: 0, to: numbers.count, by: 2) {
        guard numbers[pair + 1] > 0, histogram.last.map({ $0.bucket < numbers[pair] }) ?? true else {
          throw UnexpectedValue(expected: "ascending buckets with their counts")
        }
        histogram.append((numbers[pair], numbers[pair + 1]))
      }
    }

    /// A whole number below 2^53.
    private static func exact(_ reader: JSONReader) throws -> Int64 {
      let number = try reader.number()
      guard abs(number) < 0x1p53, let whole = Int64(exactly: number) else { throw UnexpectedValue(expected: "a whole number") }
      return whole
    }
  }

  /// The dataset that the statistics were written to, one chunk.
  struct Written {
    var dataset: HDF5Array
    var planned: ShardLayout.Planned
    var digest: Digest
    var checksum: UInt32
  }

  static let chunkCount = 1

  struct Meaning: Hashable {
    var unit: String
    var type: String
    /// The camera's axes, of poses and of actions. The body, the world and the layout of rotations are the same in all takes of a pipeline,
    /// except that worlds of an arbitrary scale have another unit.
    var axes: String?
    var channels: Int

    /// The unit of lengths, which poses and actions have first, and the units after it.
    var length: LengthUnit? { unit.split(separator: ",").first.flatMap { LengthUnit(rawValue: String($0)) } }
    var otherUnits: String { length.map { String(unit.dropFirst($0.rawValue.count)) } ?? unit }

    init(unit: String, type: String, axes: String?, channels: Int) {
      (self.unit, self.type, self.axes, self.channels) = (unit, type, axes, channels)
    }
  }

  let entries: [Entry]
  /// Size limit, far above the largest possible statistics.
  private static let limit = 1 << 28

  init(_ entries: [Entry]) { self.entries = entries.sorted { $0.name < $1.name } }

  /// Stores them and returns the array, with its digest.
  func write(to meta: Group) throws -> Written {
    let json = JSONValue.array(
      entries.map { entry in
        [
          "name": .string(entry.name), "unit": .string(entry.meaning.unit), "type": .string(entry.meaning.type),
          "axes": JSONValue(entry.meaning.axes), "shape": .array(entry.shape.map { JSONValue($0) }),
          "bucket": .string(entry.statistics.histograms.first?.buckets.rawValue ?? ""), "channels": entry.statistics.channelsJSON,
        ]
      })
    let bytes = json.canonicalBytes
    let layout = Layout(type: .uint8, dims: [bytes.count], chunk: [bytes.count], deflate: 1)
    let dataset = try meta.createDataset("statistics", layout)
    var encoded: [UInt8] = []
    let skipped = try bytes.withUnsafeBytes { try ChunkEncoder(level: 1).encode($0, elementSize: 1, into: &encoded) }
    try encoded.withUnsafeBytes { try dataset.writeChunk($0, at: [0], skipped: skipped) }
    return Written(
      dataset: dataset,
      planned: ShardLayout.Planned(path: ShardNames.statisticsPath, layout: layout, attributes: ["unit": .text("JSON")], digestOf: .bytes),
      digest: Digest.of(bytes), checksum: encoded.withUnsafeBytes(chunkChecksum))
  }

  init(from root: Group) throws {
    let dataset = try root.dataset(ShardNames.statisticsPath)
    func mistake(_ reason: String = "") -> HDF5Error {
      HDF5Error(call: "read", target: dataset.name, message: "expected statistics as JSON\(reason)")
    }
    guard dataset.type == .uint8, dataset.dims.count == 1, dataset.dims[0] <= Self.limit else { throw mistake() }
    let reader = JSONReader(try dataset.readAll())
    do { entries = try reader.list { try Entry(reader) } } catch { throw mistake("; \(error)") }
  }
}

extension Statistics {
  fileprivate var channelsJSON: JSONValue {
    .array(
      zip(moments, histograms).map { moments, histogram in
        guard moments.count > 0 else { return ["count": 0] }
        return [
          "count": .integer(moments.count), "mean": .number(moments.mean), "m2": .number(moments.m2), "min": .number(moments.min),
          "max": .number(moments.max),
          "histogram": .array(histogram.counts.sorted { $0.key < $1.key }.flatMap { [.integer($0.key), .integer($0.value)] }),
        ]
      })
  }

  private static let names = ["mean", "std", "min", "max", "q01", "q99"]

  /// Writes `count`, `mean`, `std`, `min`, `max`, `q01`, `q99`, each with one element per channel. Channels without a value are NaN.
  func write(to group: Group) throws {
    func write<Number>(_ values: [Number], _ type: Datatype, _ name: String) throws {
      let dataset = try group.createDataset(name, Layout(type: type, dims: [values.count], isCompact: true))
      try values.withUnsafeBytes { try dataset.write($0) }
    }
    let empty = moments.map { $0.count == 0 }
    let columns: [[Double]] = [
      moments.map(\.mean), moments.map(\.standardDeviation), moments.map(\.min), moments.map(\.max), quantile(0.01),
      quantile(0.99),
    ]
    try write(moments.map(\.count), .int64, "count")
    for (name, values) in zip(Self.names, columns) {
      try write(zip(values, empty).map { $1 ? .nan : $0 }, .float64, name)
    }
  }
}
