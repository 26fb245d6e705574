package import Datasets
package import Evidence
package import Foundation
package import Model
package import Steps

/// Writes what makes a dataset of shards and their journal: `dataset.h5` and `manifest.json`.
package struct Publication {
  package var pipeline: Pipeline
  package var tool: ToolIdentity
  package var started: Date
  package var commandLine: [String]
  var jobs = 1
  /// Whether the manifest's `run` names the host and the user.
  var recordsHost = false
  /// An explicit split, in place of the pipeline's rule.
  package var splitFile: SplitFile?
  /// The part of each episode, by its id, in place of both.
  package var parts: [String: SplitPart]?
  /// The parts that takes keep, by their ids, where the pipeline's rule deals the others.
  package var earlierParts: [String: SplitPart] = [:]
  /// Ids of episodes that are kept although their inputs are gone.
  package var vanished: Set<String> = []
  /// Places that the search for takes passed over, for the manifest.
  var ignored: [Finding] = []
  /// The datasets that the episodes come from, for the manifest.
  package var sources: JSONValue?
  /// The record whose pipeline and digests stand in the manifest as they are, because its shards carry them: an earlier version had other
  /// options. `nil` for those of `pipeline`.
  package var recorded: ManifestRecord?
  /// Whether the episodes are those of `recorded`, whose split and findings about the dataset stay, and whose takes are no other ones.
  package var keepsEpisodes = false
  /// The labels of the episodes.
  package var labels = LabelCollection()
  /// A stream that the manifest of `recorded` is to have no longer. The index is not written: it may have more than its manifest, but not less.
  package var removed: StreamName?

  package init(pipeline: Pipeline, tool: ToolIdentity, started: Date, commandLine: [String]) {
    (self.pipeline, self.tool, self.started, self.commandLine) = (pipeline, tool, started, commandLine)
  }

  /// Writes both files from entries of the journal; returns the findings about the dataset as a whole. Throws `OutputFailure`.
  package func write(_ unordered: some Sequence<Journal.Entry>, of journal: Journal, to directory: String) throws -> [Finding] {
    let entries = unordered.sorted { $0.id < $1.id }
    let written = entries.filter { $0.outcome == .written }
    let digest = recorded?.pipelineDigest ?? pipeline.digest().description
    let split = split(written)
    let members = zip(written, split.parts).map {
      DatasetMember(id: $0.id.text, samples: $0.framesOut, part: $1, added: $0.added, labels: labels[$0.id.text])
    }
    let identity = ShardIdentity(ofIndex: written.map { $0.reader }, toolVersion: tool.version, pipelineDigest: digest)
    let path = directory + "/" + DatasetFiles.manifest
    do {
      var index =
        try keptIndex ?? pipeline.writer.publish(members, normalization: pipeline.normalization, identity: identity, in: directory)
      index.findings += split.findings + labels.findings
      if pipeline.folder != nil {
        var versions = PythonVersions()
        for entry in written { try versions.add(TakeRecord(json: journal.record(of: entry.id.text))) }
        index.findings += [versions.finding].compactMap(\.self)
      }
      let stamp = IndexStamp(
        directory + "/" + DatasetFiles.index, of: entries, pipeline: pipeline, splitFile: splitFile,
        vanished: entries.map(\.id.text).filter(vanished.contains), ignored: ignored, labels: labels)
      var said = index.findings
      if keepsEpisodes, let recorded {
        // What holds of the streams that were there is found again.
        said.removeAll(where: recorded.findings.contains)
        index.findings = recorded.findings + said
      }
      index.findings += ignored
      var manifest = Manifest(
        tool: tool, pipeline: recorded?.pipeline ?? pipeline.canonical(), pipelineDigest: digest,
        conversionDigest: recorded.map { $0.conversionDigest ?? digest } ?? pipeline.conversionDigest().description, split: split,
        parts: members.map { ($0.id, $0.part) }, entries: entries, index: index, run: runSection(stamp))
      (manifest.sources, manifest.labels) = (sources, labels.json)
      if let removed, let recorded {
        manifest.recordedStatistics = recorded.statistics.filter { $0.key != removed.rawValue && !$0.key.hasPrefix("\(removed)@") }
      }
      try manifest.write(to: path) { id in
        let record = try journal.record(of: id)
        return vanished.contains(id) ? try Self.markVanished(record) : record
      }
      try SealedFile.syncDirectory(of: path)
      return said
    } catch let failure as OutputFailure {
      throw failure
    } catch {
      // The manifest is about as large as the journal.
      throw OutputFailure(error, writing: directory, needing: (try? FileStamp.of(journal.path).bytes).map { Double($0) })
    }
  }

  private var keptIndex: PublishedIndex? {
    guard removed != nil, let index = recorded?.index else { return nil }
    return PublishedIndex(path: index.path, bytes: index.bytes, digest: index.digest, statistics: [:], findings: [])
  }

  private func split(_ written: [Journal.Entry]) -> DatasetSplit {
    let grouping = pipeline.split?.grouping
    let byTask = pipeline.split?.stratifiesByTask == true
    let episodes = written.map { entry in
      var entry = entry
      guard byTask, var origin = entry.origin else { return entry }
      origin.variant = labels[entry.id.text]?.task
      (entry.reader, entry.origin) = ("", origin)
      return entry
    }.map {
      DatasetSplit.Episode(
        id: $0.id, reader: $0.reader ?? "", group: $0.group(by: grouping), content: $0.inputDigest, recording: $0.recording)
    }
    if keepsEpisodes, let recorded { return DatasetSplit(recorded: recorded, written.map(\.id.text)) }
    if let parts { return DatasetSplit(episodes, keeping: written.map { parts[$0.id.text] ?? .train }) }
    return DatasetSplit(episodes, rule: pipeline.split, file: splitFile, earlier: earlierParts)
  }

  /// The record of a take that is kept although its input is gone, with a finding that says so.
  private static func markVanished(_ record: [UInt8]) throws -> [UInt8] {
    var record = try TakeRecord(json: record)
    record.findings.append(Finding(.inputVanished, "the take is no longer among the inputs; its episode is kept"))
    return record.canonicalBytes
  }

  /// The manifest's `run`, without its takes.
  private func runSection(_ index: IndexStamp) -> [String: JSONValue] {
    func text(_ date: Date) -> String { UnixTime.rfc3339(seconds: Int64(date.timeIntervalSince1970)) }
    var section: [String: JSONValue] = [
      "started": .string(text(started)), "finished": .string(text(Date())),
      "seconds": .number((Date().timeIntervalSince(started) * 1000).rounded() / 1000), "jobs": JSONValue(jobs),
      "command_line": .array(commandLine.map { .string($0) }),
      "index": .string(index.text),
    ]
    section["pipeline_folder"] = pipeline.folder.map { .string($0) }
    if recordsHost {
      var host = utsname()
      uname(&host)
      let name = withUnsafeBytes(of: host.nodename) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      (section["host"], section["user"]) = (.string(name), .string(NSUserName()))
    }
    return section
  }
}

extension Journal.Entry {
  /// The group that a split's rule gives the episode; `nil` without a rule, and for a take that could not be opened.
  fileprivate func group(by grouping: ((String, TakeOrigin) -> String)?) -> String? { self.origin.flatMap { grouping?(id.take, $0) } }
}

/// Size, time and inode of the index, and digests of the pipeline, of what the index holds, of the split file, and of the takes that are no
/// longer among the inputs. A later run compares them to see whether the index and the manifest are up to date.
struct IndexStamp {
  var text: String

  /// - Parameter entries: The journal's entries of the episodes. A run that was killed before it published may have sealed more of them.
  init(
    _ index: String, of entries: some Sequence<Journal.Entry>, pipeline: Pipeline, splitFile: SplitFile?, vanished: [String],
    ignored: [Finding], labels: LabelCollection
  ) {
    let file = DatasetFiles.indexStamp(index)
    let split = splitFile.map { ["split file \($0.digest)"] } ?? []
    let (hasher, grouping) = (SHA256(), pipeline.split?.grouping)
    for entry in entries.sorted(by: { $0.id < $1.id }) {
      let words =
        [
          entry.id.text, entry.outcome.rawValue, entry.inputDigest ?? "", entry.toolVersion, entry.keys ?? "",
          entry.group(by: grouping) ?? "",
        ] + entry.added.map(\.rawValue)
      hasher.update(Array((words.joined(separator: "\0") + "\n").utf8))
    }
    let gone = vanished.isEmpty ? [] : ["vanished \(Digest.of(pieces: vanished.sorted().map { Array("\($0)\n".utf8) }))"]
    let passed = ignored.map { "ignored \(Digest.of(Array($0.message.utf8)))" }
    let said = labels.stamp.map { [$0] } ?? []
    text = ([file, "pipeline \(pipeline.digest())", "entries \(hasher.finish())"] + split + gone + passed + said).joined(separator: "\n")
  }

  /// Whether the manifest in a directory has this stamp and is what was written; a damaged one is to be written again.
  func isRecorded(in directory: String) -> Bool {
    (try? ManifestFile.indexStamp(in: directory)) == text && (try? ManifestFile.isAsWritten(in: directory)) == true
  }
}

/// The versions of Python and of packages with which the steps of a dataset's episodes ran.
private struct PythonVersions {
  /// Numbers of episodes by name and version.
  private var counts: [String: [String: Int]] = [:]

  mutating func add(_ record: TakeRecord) {
    guard let python = record.details?["python"]?.object else { return }
    var versions = python["distributions"]?.object ?? [:]
    (versions["Python"], versions["NumPy"]) = (python["python"], python["numpy"])
    for (name, version) in versions { counts[name, default: [:]][version.string ?? "", default: 0] += 1 }
  }

  /// Says which versions differ between episodes; `nil` where none does.
  var finding: Finding? {
    let changed = counts.filter { $0.value.count > 1 }.sorted { $0.key < $1.key }
    if changed.isEmpty { return nil }
    let sentences = changed.map { name, versions in
      "\(name) \(versions.sorted { $0.key < $1.key }.map { "\($0.key) in \(counted($0.value, "episode"))" }.joined(separator: ", "))"
    }
    return Finding(.pythonChanged, "steps in Python ran with several versions: \(sentences.joined(separator: "; "))")
  }
}
