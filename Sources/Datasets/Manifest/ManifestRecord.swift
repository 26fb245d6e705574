package import Evidence
package import Model
package import Steps

/// The manifest's `record` without its takes, which a `ManifestFile` lists and reads one at a time.
package struct ManifestRecord: Sendable {
  /// The file `dataset.h5` that links to all shards.
  package struct Index: Sendable, Equatable {
    package var path: String
    package var bytes: Int64
    package var digest: Digest
  }

  package var version: Int
  package var tool: [String: JSONValue]
  package var pipeline: JSONValue
  package var pipelineDigest: String
  /// The digest of the pipeline without what concerns the index alone; Takeset 0.3.0 has not written it.
  package var conversionDigest: String?
  package var index: Index
  package var splits: [String: JSONValue]
  /// Statistics by key.
  package var statistics: [String: JSONValue]
  package var totals: [String: JSONValue]
  /// Findings about the dataset as a whole.
  package var findings: [Finding]
  /// The datasets that the episodes were taken from, by `merge` or `select`.
  package var sources: JSONValue?
  /// Labels of episodes, by their ids.
  package var labels: [String: Labels]

  /// - Parameter members: Those of `record`; `nil` if one of them is missing or of another type.
  init?(_ members: [String: JSONValue]) {
    guard let version = members["manifest_version"]?.integer, let tool = members["tool"]?.object, let pipeline = members["pipeline"],
      let pipelineDigest = members["pipeline_sha256"]?.string.flatMap(Digest.init(hex:))?.description,
      let splits = members["splits"]?.object,
      let statistics = members["statistics"]?.object, let totals = members["totals"]?.object, let index = members["index"],
      let path = index["path"]?.string, DatasetFiles.isInside(path), let bytes = index["bytes"]?.integer,
      let digest = index["sha256"]?.string.flatMap({ Digest(hex: $0) }), let list = members["findings"],
      let findings = try? JSONReader(list.canonicalBytes).findings()
    else { return nil }
    (self.version, self.tool, self.pipeline, self.pipelineDigest) = (Int(version), tool, pipeline, pipelineDigest)
    (self.splits, self.statistics, self.totals, self.findings) = (splits, statistics, totals, findings)
    conversionDigest = members["conversion_sha256"]?.string.flatMap(Digest.init(hex:))?.description
    self.index = Index(path: path, bytes: bytes, digest: digest)
    sources = members["sources"] == .null ? nil : members["sources"]
    labels = Self.labels(members["labels"])
  }

  /// The labels in a manifest's record.
  static func labels(_ json: JSONValue?) -> [String: Labels] {
    (json?.object ?? [:]).mapValues { Labels(recorded: $0) }
  }

  /// The part of each written episode.
  package var parts: [String: SplitPart] {
    var parts: [String: SplitPart] = [:]
    for part in SplitPart.allCases { for id in splits[part.rawValue]?.array ?? [] { if let id = id.string { parts[id] = part } } }
    return parts
  }

  /// The digests that its shards and its journal may have; those of takes of Takeset 0.3.0 have that of the whole pipeline.
  package var shardDigests: Set<String> { [conversionDigest ?? pipelineDigest, pipelineDigest] }

  /// Returns the contradictions between the record and its takes: an episode that is listed twice, and totals that are other sums.
  func contradictions(with takes: [TakeEntry]) -> [String] {
    var sentences = Dictionary(grouping: takes, by: \.id).filter { $1.count > 1 }.keys.sorted().map { "lists \($0) more than once" }
    func count(_ outcome: TakeRecord.Outcome) -> Int { takes.count { $0.outcome == outcome } }
    func total(_ key: String) -> Int { Int(totals[key]?.integer ?? -1) }
    let counted = [
      ("takes", Set(takes.map(\.id.take)).count), ("written", count(.written)), ("rejected", count(.rejected)), ("failed", count(.failed)),
      ("frames_out", takes.reduce(0) { $0 + $1.framesOut }),
    ]
    for (key, found) in counted where total(key) != found {
      sentences.append("totals.\(key) is \(totals[key]?.canonicalText ?? "missing"); its takes have \(found)")
    }
    let frames = ["frames_in", "frames_repeated", "frames_dropped"].map { total($0) }
    if !frames.allSatisfy(TakeRecord.isPlausibleCount) || frames[0] + frames[1] != frames[2] + total("frames_out") {
      sentences.append("totals: frames in and repeated are not frames out and dropped")
    }
    // Every reader knows where they are; what a manifest names elsewhere would be checked, and signed, in their place.
    if index.path != DatasetFiles.index { sentences.append("names \(index.path) as the index, which is \(DatasetFiles.index)") }
    for take in takes {
      guard let path = take.output?.path, path != DatasetFiles.shard(of: take.id.text) else { continue }
      sentences.append("names \(path) as the episode \(take.id), which is \(DatasetFiles.shard(of: take.id.text))")
    }
    return sentences
  }

  /// Whether this version reads what the dataset's writer writes.
  package var isOfKnownWriter: Bool { pipeline["writer"]?.object?.keys.first == HDF5Writer.name }
}

extension JSONReader {
  fileprivate func findings() throws -> [Finding] { try list { try Finding(self) } }
}

/// The part of a take's record that is kept in memory: a few hundred bytes. A `ManifestFile` reads the whole record, which is many times as
/// long.
package struct TakeEntry: Sendable, Equatable {
  /// The shard of a written take. Its digests are in the whole record.
  package struct Output: Sendable, Equatable {
    /// Relative to the dataset's directory.
    package var path: String
    package var bytes: Int64
    package var samples: Int
  }

  package var id: EpisodeID
  package var reader: String?
  package var outcome: TakeRecord.Outcome
  package var output: Output?
  /// Byte range of its record in the file.
  var place: Range<Int64>

  package var framesOut: Int { output?.samples ?? 0 }

  /// Throws `JSONError`, or another error for JSON that is no record of a take.
  init(json bytes: [UInt8], at place: Range<Int64>) throws {
    let json = JSONReader(bytes)
    var texts: [String: String] = [:]
    var outcome: TakeRecord.Outcome?
    var (number, output): (Int?, Output?)
    try json.members { key in
      switch key {
      case "id": texts[key] = try json.plainName()
      case "take": texts[key] = try json.optional { try json.plainName() }
      case "reader": texts[key] = try json.optional { try json.line() }
      case "part": number = try json.optional { try json.count() }
      case "outcome": outcome = try json.word(TakeRecord.Outcome.self)
      case "output": output = try json.optional { try Output(json) }
      default: return false
      }
      return true
    }
    guard let id = texts["id"], let outcome else { throw IncompleteRecord(member: "id or outcome") }
    self.id = try EpisodeID(id, take: texts["take"], part: number)
    (reader, self.outcome) = (texts["reader"], outcome)
    (self.output, self.place) = (output, place)
  }
}

extension TakeEntry.Output {
  fileprivate init(_ json: JSONReader) throws {
    var (path, bytes, samples): (String?, Int?, Int?)
    try json.members { key in
      switch key {
      case "path": path = try json.insidePath()
      case "bytes": bytes = try json.count()
      case "samples": samples = try json.count()
      default: return false
      }
      return true
    }
    guard let path, let bytes, let samples else { throw IncompleteRecord(member: "path, bytes or samples") }
    self.init(path: path, bytes: Int64(bytes), samples: samples)
  }
}
