package import Evidence
import Foundation
import HDF5
import Media
import Model
package import Steps

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

/// `manifest.json`: `record`, which depends only on inputs, pipeline and version; `run`, which describes one run; and a digest of each.
package struct Manifest {
  static let version = 2

  package var tool: ToolIdentity
  package var pipeline: JSONValue
  package var pipelineDigest: String
  /// The digest of the pipeline without what concerns the index alone, which the shards have.
  package var conversionDigest: String
  package var split: DatasetSplit
  package var parts: [(id: String, part: SplitPart)]
  package var entries: [Journal.Entry]
  package var index: PublishedIndex
  /// The members of `run`, except the takes.
  package var run: [String: JSONValue]
  /// The datasets that the episodes were taken from.
  package var sources: JSONValue?
  /// Statistics that stand in the manifest as they are, in place of those of `index`.
  package var recordedStatistics: [String: JSONValue]?

  package init(
    tool: ToolIdentity, pipeline: JSONValue, pipelineDigest: String, conversionDigest: String, split: DatasetSplit,
    parts: [(id: String, part: SplitPart)], entries: [Journal.Entry], index: PublishedIndex, run: [String: JSONValue],
    sources: JSONValue? = nil
  ) {
    (self.tool, self.pipeline, self.pipelineDigest, self.conversionDigest) = (tool, pipeline, pipelineDigest, conversionDigest)
    (self.split, self.parts, self.entries, self.index, self.run, self.sources) = (split, parts, entries, index, run, sources)
  }

  /// Writes the manifest; records of takes come one at a time from `record`, so that no more than one is in memory.
  ///
  /// Each take is on a line of its own, which is easy to read and compare; the digests cover the canonical bytes, without these line ends.
  package func write(to path: String, record: (String) throws -> [UInt8]) throws {
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
        "conversion_sha256": .string(conversionDigest),
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
        try emit(record(entry.id.text))
      }
      try emit("\n", isCanonical: false)
      try emit("]")
      for (key, value) in after.sorted(by: { $0.key < $1.key }) {
        try emit(",")
        try emit("\n", isCanonical: false)
        try emit("\"\(key)\":" + value.canonicalText)
      }
      try emit("}")
      try emit(",\n\"record_sha256\":\"\(hasher.finish())\",\n\"run\":", isCanonical: false)
      try writeRun { try emit($0) }
      try emit(",\n\"run_sha256\":\"\(hasher.finish())\"\n}\n", isCanonical: false)
    }
  }

  /// Writes `run` in canonical form; its takes one by one.
  private func writeRun(_ emit: ([UInt8]) throws -> Void) throws {
    var isFirst = true
    for key in (run.keys + ["takes"]).sorted(by: { $0.utf16.lexicographicallyPrecedes($1.utf16) }) {
      try emit(Array("\(isFirst ? "{" : ",")\"\(key)\":".utf8) + (run[key]?.canonicalBytes ?? []))
      isFirst = false
      guard key == "takes" else { continue }
      var separator = UInt8(ascii: "{")
      for entry in entries.sorted(by: { $0.id.text.utf16.lexicographicallyPrecedes($1.id.text.utf16) }) {
        var take = [separator]
        JSONValue.appendQuoted(entry.id.text, to: &take)
        take.append(UInt8(ascii: ":"))
        JSONValue.object(["location": .string(entry.location), "seconds": .number(entry.seconds)]).appendCanonical(to: &take)
        try emit(take)
        separator = UInt8(ascii: ",")
      }
      try emit(Array(entries.isEmpty ? "{}".utf8 : "}".utf8))
    }
    try emit([UInt8(ascii: "}")])
  }

  /// Statistics of each key, with the parameters that normalize it.
  private var statistics: JSONValue {
    if let recordedStatistics { return .object(recordedStatistics) }
    return .object(
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
      "takes": JSONValue(Set(entries.map(\.id.take)).count), "written": count(.written), "rejected": count(.rejected),
      "failed": count(.failed),
      "frames_in": JSONValue(framesIn), "frames_out": JSONValue(framesOut), "frames_repeated": JSONValue(repeated),
      "frames_dropped": JSONValue(framesIn + repeated - framesOut),
    ]
  }
}

extension Statistics {
  /// Statistics by name; channels without a value have null.
  var json: [String: JSONValue] {
    func list(_ values: [Double]) -> JSONValue { .array(values.map { $0.isFinite ? .number($0) : .null }) }
    return [
      "count": .array(moments.map { .integer($0.count) }), "mean": list(moments.map { $0.count > 0 ? $0.mean : .nan }),
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
