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
  /// The labels of episodes, by their ids.
  package var labels: JSONValue?
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
  package func write(to path: String, record: (String) throws -> [UInt8]) throws {
    var members: [String: JSONValue] = [
      "conversion_sha256": .string(conversionDigest),
      "findings": .array(index.findings.map(\.json)), "index": index.json,
      "manifest_version": JSONValue(Self.version), "pipeline": pipeline, "pipeline_sha256": .string(pipelineDigest), "splits": splits,
      "statistics": statistics, "tool": tool.json, "totals": totals,
    ]
    (members["sources"], members["labels"]) = (sources, labels)
    let byID = entries.sorted { $0.id.text.utf16.lexicographicallyPrecedes($1.id.text.utf16) }
    let places = byID.enumerated().lazy.map { number, entry in
      var take = Array((number == 0 ? "{" : ",").utf8)
      JSONValue.appendQuoted(entry.id.text, to: &take)
      take.append(UInt8(ascii: ":"))
      JSONValue.object(["location": .string(entry.location), "seconds": .number(entry.seconds)]).appendCanonical(to: &take)
      if number == byID.count - 1 { take.append(UInt8(ascii: "}")) }
      return take
    }
    try ManifestText(record: members, run: run).write(
      to: path, takes: entries.count, runTakes: byID.isEmpty ? AnySequence([Array("{}".utf8)]) : AnySequence(places)
    ) { index in
      try record(entries[index].id.text)
    }
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
