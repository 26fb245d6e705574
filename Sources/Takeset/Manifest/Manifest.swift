import Foundation
import HDF5
import Media

/// Which program made a dataset.
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
      "libraries": [
        "hdf5": .string(HDF5.libraryVersion()), "libdeflate": .string(HDF5.deflateVersion),
        "libjpeg": .string(JPEGDecoder.library), "ffmpeg": .string(Movie.library),
        "swift": .string(Self.swiftVersion),
      ],
      "target": .string(Self.target),
    ]
  }

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

/// `manifest.json`: `record`, which depends on inputs, pipeline and version alone, its digest, and `run`, which tells of this run.
struct Manifest {
  var tool: ToolIdentity
  var pipeline: JSONValue
  var pipelineDigest: String
  var split: Split?
  var parts: [(id: String, part: Split.Part)]
  var statistics: [String: Statistics]
  var heads: [Journal.Head]
  /// Of `dataset.h5`.
  var index: (digest: Digest, bytes: Int64)
  var run: JSONValue

  /// Writes the manifest; records of takes come one at a time from `record`, so that no more than one is in memory.
  ///
  /// Takes stand on lines of their own, which reads and compares well; the digest is of the canonical bytes, without
  /// those line ends.
  func write(to path: String, record: (String) throws -> [UInt8]) throws {
    try SealedFile.write(path) { write in
      let hasher = SHA256()
      func emit(_ bytes: [UInt8], isCanonical: Bool = true) throws {
        if isCanonical { hasher.update(bytes) }
        try bytes.withUnsafeBytes(write)
      }
      func emit(_ text: String, isCanonical: Bool = true) throws { try emit(Array(text.utf8), isCanonical: isCanonical) }

      try emit("{\n\"record\":\n", isCanonical: false)
      // Members of a canonical object stand in the order of their keys; "takes" comes between these two groups.
      let before: [String: JSONValue] = [
        "index": ["path": "dataset.h5", "bytes": .integer(index.bytes), "sha256": .string(index.digest.description)],
        "manifest_version": 1, "pipeline": pipeline, "pipeline_sha256": .string(pipelineDigest), "splits": splits,
        "statistics": .object(statistics.mapValues(\.json)),
      ]
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
      for (index, head) in heads.enumerated() {
        if index > 0 { try emit(",") }
        try emit("\n", isCanonical: false)
        try emit(record(head.id))
      }
      try emit("\n", isCanonical: false)
      try emit("]")
      for (key, value) in after.sorted(by: { $0.key < $1.key }) {
        try emit(",")
        try emit("\n", isCanonical: false)
        try emit("\"\(key)\":" + value.canonicalText)
      }
      try emit("}")
      try emit(",\n\"record_sha256\":\"\(hasher.finish())\",\n\"run\":\(run.canonicalText)\n}\n", isCanonical: false)
    }
  }

  private var splits: JSONValue {
    var lists = Dictionary(grouping: parts, by: \.part.rawValue).mapValues { JSONValue.array($0.map { .string($0.id) }) }
    for part in Split.Part.allCases where lists[part.rawValue] == nil { lists[part.rawValue] = [] }
    lists["rule"] = JSONValue(split.map { "by \($0.group.rawValue): valid \($0.valid), test \($0.test)" } ?? "none: all in train")
    lists["seed"] = split.map { .integer(Int64($0.seed)) } ?? .null
    return .object(lists)
  }

  private var totals: JSONValue {
    func count(_ outcome: TakeRecord.Outcome) -> JSONValue { JSONValue(heads.count { $0.outcome == outcome }) }
    let framesIn = heads.reduce(0) { $0 + $1.framesIn }
    let framesOut = heads.reduce(0) { $0 + $1.framesOut }
    return [
      "takes": JSONValue(heads.count), "written": count(.written), "rejected": count(.rejected), "failed": count(.failed),
      "frames_in": JSONValue(framesIn), "frames_out": JSONValue(framesOut), "frames_dropped": JSONValue(framesIn - framesOut),
    ]
  }
}

extension Statistics {
  /// Channels without a value have null.
  var json: JSONValue {
    func list(_ values: [Double]) -> JSONValue { .array(values.map { $0.isFinite ? .number($0) : .null }) }
    return [
      "count": .array(moments.map { .integer($0.count) }), "mean": list(moments.map(\.mean)),
      "std": list(moments.map(\.standardDeviation)), "min": list(moments.map(\.min)), "max": list(moments.map(\.max)),
      "q01": list(quantile(0.01)), "q99": list(quantile(0.99)),
    ]
  }
}
