package import Datasets
import Evidence
import Foundation
import HDF5
package import Model
import Runs
import Steps

/// A dataset made of the takes of others, without converting them again: `merge` takes all of several, `select` some of one.
///
/// Shards are copied or linked as they are, so rows, digests and provenance are those of the sources. Index, statistics and manifest are
/// written anew; the manifest names the sources.
///
///     let summary = try DatasetMerge([monday, tuesday], tool: tool).write(to: "week", replacing: false)
package struct DatasetMerge: Sendable {
  package var sources: [Dataset]
  package var tool: ToolIdentity
  package var commandLine: [String] = []
  /// The condition on takes; all without one.
  package var filter: TakeFilter?
  /// Ids of takes or episodes; all if empty.
  package var selected: [String] = []
  /// Whether shards are hard links to those of the sources instead of copies.
  package var links = false
  /// Whether the pipeline's rule splits the takes anew, instead of each keeping its part.
  package var splitsAnew = false
  package var splitFile: SplitFile?
  /// A dataset whose takes keep the part they have in it; the pipeline's rule deals the others.
  package var splitsLike: Dataset?
  /// The way to check shards that another program has written to.
  package var externalChecks = Verification.ExternalChecks.inProcess
  package var threads = 1
  /// Whether to stop.
  package var isCancelled: @Sendable () -> Bool = { false }

  /// The contents of the merged dataset.
  package struct Summary: Sendable {
    package var episodes: Int
    /// Takes that are not written, whose records are kept.
    package var others: Int
    package var rows: Int
    /// Ids of episodes that several sources have, with the same content.
    package var duplicates: [String]
    package var findings: [Finding]
  }

  package init(_ sources: [Dataset], tool: ToolIdentity) { (self.sources, self.tool) = (sources, tool) }

  /// An episode, or a take that is not written, and where it is.
  private struct Member {
    var entry: Journal.Entry
    var take: TakeEntry
    /// The number of its source.
    var number: Int
    var part: SplitPart?
  }

  private func source(of member: Member) -> Dataset { sources[member.number] }
  private func record(of member: Member) throws -> TakeRecord {
    try Self.reading(source(of: member)) { try $0.record(of: member.take) }
  }

  /// Throws `UnusableSource` where a source cannot be read, whatever of it.
  private static func reading<Result>(_ source: Dataset, _ body: (Dataset) throws -> Result) throws -> Result {
    do {
      return try body(source)
    } catch let error where !(error is UnusableSource || error is CancellationError) {
      throw UnusableSource(source.directory, error)
    }
  }

  /// Writes the dataset. The directory appears once it is complete.
  ///
  /// Throws `ExportRefusal` if the sources do not fit together, `UnusableSource` if one is damaged or not finished, `UsageError`, `OutputExists`, `OutputFailure`,
  /// `CancellationError`.
  package func write(to output: String, replacing: Bool) throws -> Summary {
    let started = Date()
    let pipeline = try commonPipeline()
    var duplicates: [String] = []
    let members = try members(&duplicates)
    guard members.contains(where: { $0.take.outcome == .written }) else {
      throw try filter?.noMatch(in: sources) ?? ExportRefusal("no episode matches; nothing was written")
    }
    try splitFile?.check(Set(members.map(\.entry.id.take)))
    let staged = try StagedDirectory(output, apartFrom: sources.map(\.directory), replacing: replacing ? Self.kind : nil)
    do {
      let entries = try place(members, in: staged.path)
      let numbers = Dictionary(members.enumerated().map { ($1.entry.id, $0) }, uniquingKeysWith: { first, _ in first })
      let journalPath = staged.path + "/" + DatasetFiles.journal
      try Journal.write(entries, to: journalPath) { try numbers[$0.id].map { try self.record(of: members[$0]).canonicalBytes } ?? [] }
      var publication = Publication(pipeline: pipeline, tool: tool, started: started, commandLine: commandLine)
      publication.splitFile = splitFile
      if let splitsLike {
        publication.earlierParts = try Self.reading(splitsLike) { earlier in
          let parts = earlier.parts
          return Dictionary(
            earlier.takes.compactMap { take in parts[take.id.text].map { (take.id.take, $0) } }, uniquingKeysWith: { first, _ in first })
        }
      } else if splitFile == nil, !splitsAnew {
        publication.parts = Dictionary(members.map { ($0.entry.id.text, $0.part ?? .train) }, uniquingKeysWith: { first, _ in first })
      }
      publication.sources = .array(sourceRecords(members))
      publication.labels = labels(of: members)
      // Shards of Takeset 0.3.0 carry the digest of the whole pipeline, which a record with both digests covers, too.
      publication.recorded = (sources.first { $0.record.conversionDigest != nil } ?? sources.first)?.record
      let findings = try publication.write(entries, of: Journal(path: journalPath), to: staged.path)
      if isCancelled() { throw CancellationError() }
      try staged.commit()
      let written = members.filter { $0.take.outcome == .written }
      return Summary(
        episodes: written.count, others: members.count - written.count, rows: written.reduce(0) { $0 + $1.take.framesOut },
        duplicates: duplicates, findings: findings)
    } catch {
      // Before the directory is removed, for the free space that it reports.
      let failure = OutputFailure(error, writing: output, isResumed: false)
      staged.discard()
      switch error {
      case is ExportRefusal, is UnusableSource, is UsageError, is OutputFailure, is OutputExists, is CancellationError: throw error
      default: throw failure
      }
    }
  }

  private static let kind = StagedDirectory.Kind(name: "a dataset") { path in
    guard try Directory.kind(at: path + "/" + DatasetFiles.journal) == .file else { return "it is not a dataset of Takeset" }
    return try DatasetFiles.foreign(in: path).map { "\($0.onOneLine) in it is none of a dataset's files" }
  }

  /// The pipeline of all sources: rows of several pipelines under one key would mean different things.
  private func commonPipeline() throws -> Pipeline {
    guard let first = sources.first else { throw UsageError("name a dataset") }
    // Those of the index may differ: what is written anew follows the first.
    for other in sources.dropFirst() where other.record.shardDigests.isDisjoint(with: first.record.shardDigests) {
      let differences = PipelineDifferences(first.record.pipeline, other.record.pipeline, in: ("one", "the other")).sentences
      throw ExportRefusal(
        "\(first.directory) and \(other.directory) were made by different pipelines: \(differences.abridged); convert the takes of one with the pipeline of the other"
      )
    }
    return try first.pipeline()
  }

  /// The takes to write, from all sources, each once.
  private func members(_ duplicates: inout [String]) throws -> [Member] {
    var members: [String: Member] = [:]
    let chosen = Set(selected)
    for (number, source) in sources.enumerated() {
      let journal = try Self.reading(source) { try Journal.contents(at: $0.directory + "/" + DatasetFiles.journal).entries }
      let parts = source.parts
      for take in try source.takes.filter({ try isSelected($0, among: chosen, in: source, parts[$0.id.text]) }) {
        // A run that was stopped has put shards in place that the manifest does not know yet.
        guard let entry = journal[take.id.text], source.record.shardDigests.contains(entry.pipeline),
          try Self.reading(source, { try entry.describes($0.record(of: take)) })
        else {
          throw UnusableSource(
            source.directory,
            UsageError(
              "\(source.directory) is not finished: journal.jsonl has no line for \(take.id) as manifest.json has it; run takeset run again to complete it"
            ))
        }
        let member = Member(entry: entry, take: take, number: number, part: parts[take.id.text])
        guard let other = members[take.id.text] else {
          members[take.id.text] = member
          continue
        }
        let (own, others) = (try self.record(of: member), try self.record(of: other))
        guard others.output?.contentDigest == own.output?.contentDigest, others.inputDigest == own.inputDigest else {
          throw ExportRefusal(
            "\(self.source(of: other).directory) and \(source.directory) both have an episode \(take.id), and they differ; leave one out with takeset select"
          )
        }
        if let part = other.part, let differing = member.part, part != differing, splitFile == nil, splitsLike == nil, !splitsAnew {
          throw ExportRefusal(
            "\(take.id) is in \(part.rawValue) of \(self.source(of: other).directory) and in \(differing.rawValue) of \(source.directory); say where it belongs by --split-file, or split all takes anew by --resplit"
          )
        }
        duplicates.append(take.id.text)
      }
    }
    try refuseMixedTakes(members.values.sorted { $0.entry.id < $1.entry.id })
    let all = selected.isEmpty ? [] : sources.flatMap(\.takes)
    let known = Set(all.map(\.id.text) + all.map(\.id.take))
    for id in selected where !known.contains(id) {
      let meant = Spelling.hint(for: id, among: all.map(\.id.text))
      throw UsageError("there is no episode \(id)\(meant)")
    }
    return members.values.sorted { $0.entry.id < $1.entry.id }
  }

  /// The labels of each episode.
  private func labels(of members: [Member]) -> LabelCollection {
    let known = Set(members.map(\.entry.id.text))
    return LabelCollection(
      recorded: sources.map(\.record.labels).reduce(into: [:]) { all, own in
        all.merge(own.filter { known.contains($0.key) }) { $0.merged(with: $1) }
      })
  }

  /// Throws `ExportRefusal` where episodes of one take's name are of different recordings: they would count as one, and be replaced as one.
  private func refuseMixedTakes(_ members: [Member]) throws {
    var firsts: [String: Member] = [:]
    for member in members {
      guard let first = firsts[member.entry.id.take] else {
        firsts[member.entry.id.take] = member
        continue
      }
      guard first.entry.inputDigest != member.entry.inputDigest || first.entry.parts != member.entry.parts else { continue }
      throw ExportRefusal(
        "\(first.entry.id) of \(source(of: first).directory) and \(member.entry.id) of \(source(of: member).directory) are episodes of different recordings, both named \(member.entry.id.take); leave one recording out with takeset select"
      )
    }
  }

  /// - Parameter selected: The ids to take; all if empty.
  private func isSelected(_ take: TakeEntry, among selected: Set<String>, in source: Dataset, _ part: SplitPart?) throws -> Bool {
    guard selected.isEmpty || selected.contains(take.id.text) || selected.contains(take.id.take) else { return false }
    return try filter?.matches(take, of: source, in: part) ?? true
  }

  /// The sources, and behind them the datasets that those were made of, each once: a dataset that grows by merging it with the next one
  /// has a line more each time, and its record is nested no deeper.
  private func sourceRecords(_ members: [Member]) -> [JSONValue] {
    var records = sources.enumerated().map { number, source -> JSONValue in
      var record: [String: JSONValue] = [
        "record_sha256": .string(source.recordDigest), "takes": JSONValue(members.count { $0.number == number }),
        "tool": .object(source.record.tool),
      ]
      let direct = Self.flat(source.record.sources).filter { $0["indirect"] != true }.compactMap { $0["record_sha256"] }
      if !direct.isEmpty { record["sources"] = .array(direct) }
      return .object(record)
    }
    var known = Set(sources.map(\.recordDigest))
    for var record in sources.flatMap({ Self.flat($0.record.sources) }) {
      guard let digest = record["record_sha256"]?.string, known.insert(digest).inserted else { continue }
      record["indirect"] = true
      records.append(.object(record))
    }
    return records
  }

  /// The sources that a record lists. Earlier versions nested the sources of each in it.
  private static func flat(_ sources: JSONValue?, isIndirect: Bool = false) -> [[String: JSONValue]] {
    (sources?.array ?? []).compactMap(\.object).flatMap { source -> [[String: JSONValue]] in
      var source = source
      let nested = (source["sources"]?.array ?? []).filter { $0.object != nil }
      if !nested.isEmpty { source["sources"] = .array(nested.compactMap { $0["record_sha256"] }) }
      if isIndirect { source["indirect"] = true }
      return [source] + flat(.array(nested), isIndirect: true)
    }
  }

  /// Puts the shards in place; returns the entries of the new journal. Throws `ExportRefusal` for a shard that cannot be read.
  private func place(_ members: [Member], in directory: String) throws -> [Journal.Entry] {
    try FileManager.default.createDirectory(atPath: directory + "/" + DatasetFiles.episodes, withIntermediateDirectories: true)
    var stamps: [String?] = []
    try inOrder(members.count, threads: threads, waiting: members.count) {
    } make: { [self] (_: inout Void, index) in
      try placeShard(of: members[index], in: directory)
    } store: {
      stamps.append($1)
    }
    var counted: Set<String> = []
    return try zip(members, stamps).map { member, stamp in
      var entry = member.entry
      if let stamp { entry.shard = stamp }
      // A command that was killed may have noted more than the manifest has.
      if !entry.added.isEmpty { entry.added = try self.record(of: member).additions.map(\.stream) }
      // Frames of a take, and repeats from before it was split, count once, for the first of its episodes that is here.
      let isFirst = counted.insert(entry.id.take).inserted
      if entry.id.part != nil {
        let record = try self.record(of: member)
        let steps = isFirst ? record.steps : Array(record.steps.drop { !(Registry.transform($0.name) is any EpisodeSplitter.Type) })
        entry.framesIn = isFirst ? record.framesIn : 0
        entry.framesRepeated = steps.reduce(0) { $0 &+ ($1.repeated ?? 0) }
      }
      return entry
    }
  }

  /// Checks a shard and puts it in place; returns its new stamp, or `nil` if there is none or it may have changed: a run into this dataset
  /// then compares it with its digests, as one into the source would.
  private func placeShard(of member: Member, in directory: String) throws -> String? {
    if isCancelled() { throw CancellationError() }
    guard let output = member.take.output else { return nil }
    let source = self.source(of: member).directory + "/" + output.path
    guard try Directory.kind(at: source) == .file else { throw damaged(member, source, "it is missing") }
    try Self.reading(self.source(of: member)) { _ in try WrittenShard.checkFolder(of: source) }
    let stamp = try? FileStamp.of(source)
    let target = directory + "/" + DatasetFiles.shard(of: member.entry.id.text)
    try links ? Self.link(source, to: target) : SealedFile.copy(source, to: target)
    // What is checked is what is there now: a run may put another shard in the source's place at any time.
    let isSame = try stamp.map { try !links || FileStamp.of(target).isSame(as: $0.description) } ?? false
    let isAsWritten = isSame && stamp?.isSame(as: member.entry.shard ?? "") == true
    if !links || !isAsWritten { try check(member, in: directory) }
    return isAsWritten ? try FileStamp.of(target).description : nil
  }

  /// Throws `UnusableSource` for a shard that is damaged, or another one. What another program has added to it may stay.
  private func check(_ member: Member, in directory: String) throws {
    let source = self.source(of: member)
    var report = Verification(externalChecks, of: directory)
    report.checkShard(of: try record(of: member), pipelineDigests: source.record.shardDigests)
    guard let first = report.differences.first else { return }
    throw damaged(member, source.directory + "/" + (member.take.output?.path ?? ""), "\(first.path) \(first.message)")
  }

  private func damaged(_ member: Member, _ path: String, _ reason: String) -> UnusableSource {
    let directory = source(of: member).directory
    return UnusableSource(
      directory,
      ExportRefusal(
        "\(member.entry.id): \(path) is damaged: \(reason); takeset verify \(directory) says what else differs, and takeset run makes it again"
      ))
  }

  private static func link(_ source: String, to target: String) throws {
    guard Glibc.link(source, target) == 0 else {
      let error = FileError("link", source)
      if error.code == EXDEV { throw UsageError("\(source) is on another file system, so it cannot be linked; leave out --link to copy") }
      throw error
    }
  }
}

extension Dataset {
  /// The pipeline that made it. Throws `UsageError` where this version does not have it.
  func pipeline() throws -> Pipeline {
    do {
      var pipeline = try PipelineFile.parse(record.pipeline.canonicalText)
      pipeline.folder = pipelineFolder
      return pipeline
    } catch {
      throw UsageError("\(directory): this version of Takeset does not have the pipeline that made it: \(error)")
    }
  }
}
