package import Evidence
import Foundation
import HDF5
import Media
package import Model

/// Identity of the program that made a dataset.
package struct ToolIdentity: Sendable {
  package var version: String
  /// The commit it was built from.
  package var revision: String
  package init(version: String, revision: String) {
    self.version = version
    self.revision = revision
  }

  var json: JSONValue {
    [
      "name": "takeset", "version": .string(version), "revision": .string(revision),
      "libraries": Self.libraries, "target": .string(Self.target),
    ]
  }

  /// Library versions, first requested while takes are converted: requesting FFmpeg's loads it.
  package static let libraries: JSONValue = [
    "hdf5": .string(HDF5.libraryVersion()), "libdeflate": .string(HDF5.deflateVersion),
    "libjpeg": .string(JPEGDecoder.library), "ffmpeg": .string(Movie.library),
    "swift": .string(swiftVersion),
  ]

  private static var swiftVersion: String {
    #if compiler(>=6.3)
      "6.3"
    #elseif compiler(>=6.2)
      "6.2"
    #else
      "6.1"
    #endif
  }

  private static var target: String {
    #if arch(x86_64)
      "x86_64-linux"
    #elseif arch(arm64)
      "aarch64-linux"
    #else
      "linux"
    #endif
  }
}

/// The manifest's `record`, as data.
package struct ManifestRecord: Sendable, Decodable {
  package struct Index: Sendable, Equatable, Decodable {
    package var path: String
    package var bytes: Int64
    package var digest: Digest

    private enum CodingKeys: String, CodingKey {
      case path, bytes
      case digest = "sha256"
    }
  }

  package var version: Int
  package var tool: [String: JSONValue]
  package var pipeline: JSONValue
  package var pipelineDigest: String
  package var takes: [TakeRecord]
  package var index: Index
  package var splits: [String: JSONValue]
  /// Statistics by key.
  package var statistics: [String: JSONValue]
  package var totals: [String: JSONValue]
  /// Findings about the dataset as a whole.
  package var findings: [Finding]
  /// The datasets that the episodes were taken from, by `merge` or `select`.
  package var sources: JSONValue?

  private enum CodingKeys: String, CodingKey {
    case tool, pipeline, takes, index, splits, statistics, totals, findings, sources
    case version = "manifest_version"
    case pipelineDigest = "pipeline_sha256"
  }

  /// The writer that made the dataset.
  package var writer: (any Writer)? {
    guard let name = pipeline["writer"]?.object?.keys.first else { return nil }
    return Registry.writers.first { $0.name == name }?.init()
  }
}

/// `manifest.json`: `record`, which depends only on inputs, pipeline and version; `run`, which describes one run; and a digest of each.
struct Manifest {
  static let version = 2

  var tool: ToolIdentity
  var pipeline: JSONValue
  var pipelineDigest: String
  var split: DatasetSplit
  var parts: [(id: String, part: SplitPart)]
  var entries: [Journal.Entry]
  var index: PublishedIndex
  var run: JSONValue
  /// The datasets that the episodes were taken from.
  var sources: JSONValue?

  /// Writes the manifest; records of takes come one at a time from `record`, so that no more than one is in memory.
  ///
  /// Each take is on a line of its own, which is easy to read and compare; the digests cover the canonical bytes, without these line ends.
  func write(to path: String, record: (String) throws -> [UInt8]) throws {
    try SealedFile.write(path) { write in
      let hasher = SHA256()
      func emit(_ bytes: [UInt8], isCanonical: Bool = true) throws {
        if isCanonical { hasher.update(bytes) }
        try bytes.withUnsafeBytes(write)
      }
      func emit(_ text: String, isCanonical: Bool = true) throws { try emit(Array(text.utf8), isCanonical: isCanonical) }

      try emit("{\n\"record\":\n", isCanonical: false)
      // Members of a canonical object are in the order of their keys; "takes" comes between these two groups.
      var before: [String: JSONValue] = [
        "findings": .array(index.findings.map(\.json)),
        "index": ["path": .string(index.path), "bytes": .integer(index.bytes), "sha256": .string(index.digest.description)],
        "manifest_version": JSONValue(Self.version), "pipeline": pipeline, "pipeline_sha256": .string(pipelineDigest), "splits": splits,
        "statistics": statistics,
      ]
      before["sources"] = sources
      let after: [String: JSONValue] = ["tool": tool.json, "totals": totals]
      var isFirst = true
      for (key, value) in before.sorted(by: { $0.key < $1.key }) {
        try emit(isFirst ? "{" : ",")
        try emit("\n", isCanonical: false)
        try emit("\"\(key)\":" + value.canonicalText)
        isFirst = false
      }
      try emit(",")
      try emit("\n", isCanonical: false)
      try emit("\"takes\":[")
      for (index, entry) in entries.enumerated() {
        if index > 0 { try emit(",") }
        try emit("\n", isCanonical: false)
        try emit(record(entry.id))
      }
      try emit("\n", isCanonical: false)
      try emit("]")
      for (key, value) in after.sorted(by: { $0.key < $1.key }) {
        try emit(",")
        try emit("\n", isCanonical: false)
        try emit("\"\(key)\":" + value.canonicalText)
      }
      try emit("}")
      let runBytes = run.canonicalBytes
      try emit(",\n\"record_sha256\":\"\(hasher.finish())\",\n\"run\":", isCanonical: false)
      try emit(runBytes, isCanonical: false)
      try emit(",\n\"run_sha256\":\"\(Digest.of(runBytes))\"\n}\n", isCanonical: false)
    }
  }

  /// Statistics of each key, with the parameters that normalize it.
  private var statistics: JSONValue {
    .object(
      Dictionary(
        uniqueKeysWithValues: index.statistics.map { key, statistics in
          var members = statistics.json
          if let normalization = index.normalizations[key] { members.merge(normalization.json) { own, _ in own } }
          return (key, .object(members))
        }))
  }

  private var splits: JSONValue {
    var lists = Dictionary(grouping: parts, by: \.part.rawValue).mapValues { JSONValue.array($0.map { .string($0.id) }) }
    for part in SplitPart.allCases where lists[part.rawValue] == nil { lists[part.rawValue] = [] }
    lists["rule"] = .string(split.rule)
    lists["seed"] = split.seed.map { .integer(Int64($0)) } ?? .null
    if let digest = split.fileDigest { lists["file_sha256"] = .string(digest.description) }
    return .object(lists)
  }

  private var totals: JSONValue {
    func count(_ outcome: TakeRecord.Outcome) -> JSONValue { JSONValue(entries.count { $0.outcome == outcome }) }
    let framesIn = entries.reduce(0) { $0 + $1.framesIn }
    let framesOut = entries.reduce(0) { $0 + $1.framesOut }
    let repeated = entries.reduce(0) { $0 + $1.framesRepeated }
    return [
      "takes": JSONValue(Set(entries.map(\.takeID)).count), "written": count(.written), "rejected": count(.rejected),
      "failed": count(.failed),
      "frames_in": JSONValue(framesIn), "frames_out": JSONValue(framesOut), "frames_repeated": JSONValue(repeated),
      "frames_dropped": JSONValue(framesIn + repeated - framesOut),
    ]
  }
}

/// A manifest as read from disk.
struct ManifestFile {
  /// The record; `nil` where it cannot be understood.
  let record: ManifestRecord?
  /// The recorded digest of the record.
  let recordDigest: String
  let run: JSONValue
  /// Whether it is of format 1.
  let isEarlier: Bool
  /// Deviations from the form that Takeset writes.
  let damage: [String]

  /// Throws `FileError`, or `JSONError` where the file is not a JSON object.
  init(_ directory: String) throws {
    let file = try InputFile(directory + "/" + DatasetFiles.manifest)
    var text: [UInt8] = []
    try file.readAll(limit: 4 << 30, into: &text)
    let reader = JSONReader(text)
    var takes: [TakeRecord]? = []
    let document = try reader.object { key in
      guard key == "record", try reader.nextIsObject else { return nil }
      return .object(
        try reader.object(depth: 1) { key in
          guard key == "takes", try reader.nextIsArray else { return nil }
          takes = try Self.takes(reader)
          return []
        })
    }
    try reader.expectEnd()
    run = document["run"] ?? .null
    recordDigest = document["record_sha256"]?.string ?? ""
    isEarlier = document["record"]?["manifest_version"]?.integer == 1
    var damage: [String] = []
    // Hash the bytes themselves: digits beyond a number's precision would not show in its value.
    for (key, digestKey) in [("record", "record_sha256"), ("run", "run_sha256")] {
      let found = Self.digest(of: key, in: text)?.description
      if found == nil || document[digestKey]?.string != found {
        damage.append("its \(key)'s sha256 is \(found ?? "unknown"), recorded \(document[digestKey]?.string ?? "nothing")")
      }
    }
    if Set(document.keys) != ["record", "record_sha256", "run", "run_sha256"] {
      damage.append("it has other members than record, run and their digests")
    }
    var record = document["record"].flatMap { try? JSONDecoder().decode(ManifestRecord.self, from: Data($0.canonicalBytes)) }
    if let takes { record?.takes = takes } else { record = nil }
    if record == nil { damage.append("its record cannot be understood") }
    (self.record, self.damage) = (record, damage)
  }

  /// The records of the takes; `nil` if one of them cannot be understood. They are decoded one at a time, because values of JSON take
  /// several times the memory of the records.
  private static func takes(_ reader: JSONReader) throws -> [TakeRecord]? {
    var takes: [TakeRecord]? = []
    var isFirst = true
    try reader.beginArray()
    while try reader.nextElement(isFirst: &isFirst) {
      let bytes = try reader.value(depth: 3).canonicalBytes
      if let take = try? TakeRecord(json: bytes) { takes?.append(take) } else { takes = nil }
    }
    return takes
  }

  /// The digest of the canonical bytes of a member as `Manifest` lays it out: from its key at the start of a line to the key after it,
  /// without line ends.
  private static func digest(of key: String, in text: [UInt8]) -> Digest? {
    text.withUnsafeBytes { text in
      guard let base = text.baseAddress else { return nil }
      // Not a copy, which is as large as the file.
      let data = Data(bytesNoCopy: UnsafeMutableRawPointer(mutating: base), count: text.count, deallocator: .none)
      guard let start = data.range(of: Data("\n\"\(key)\":".utf8)) else { return nil }
      let ending = Data("},\n\"\(key)_sha256\":".utf8)
      guard let end = data.range(of: ending, options: .backwards), end.lowerBound >= start.upperBound else { return nil }
      let hasher = SHA256()
      for line in text[start.upperBound...end.lowerBound].split(separator: 0x0A) { hasher.update(UnsafeRawBufferPointer(rebasing: line)) }
      return hasher.finish()
    }
  }
}

extension Statistics {
  /// Statistics by name; channels without a value have null.
  var json: [String: JSONValue] {
    func list(_ values: [Double]) -> JSONValue { .array(values.map { $0.isFinite ? .number($0) : .null }) }
    return [
      "count": .array(moments.map { .integer($0.count) }), "mean": list(moments.map(\.mean)),
      "std": list(moments.map(\.standardDeviation)), "min": list(moments.map(\.min)), "max": list(moments.map(\.max)),
      "q01": list(quantile(0.01)), "q99": list(quantile(0.99)),
    ]
  }
}

extension Normalization {
  var json: [String: JSONValue] {
    [
      "normalization": .string(method), "scale": .array(scale.map { .number($0) }), "offset": .array(offset.map { .number($0) }),
    ]
  }
}
