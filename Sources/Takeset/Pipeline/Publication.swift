import Evidence
import Foundation
import Model

/// Writes what makes a dataset of shards and their journal: `dataset.h5` and `manifest.json`.
struct Publication {
  var pipeline: Pipeline
  var tool: ToolIdentity
  var started: Date
  var commandLine: [String]
  var jobs = 1
  /// Whether the manifest's `run` names the host and the user.
  var recordsHost = false
  /// An explicit split, in place of the pipeline's rule.
  var splitFile: SplitFile?
  /// The part of each episode, by its id, in place of both.
  var parts: [String: SplitPart]?
  /// Ids of episodes that are kept although their inputs are gone.
  var vanished: Set<String> = []
  /// The datasets that the episodes come from, for the manifest.
  var sources: JSONValue?

  /// Writes both files from entries of the journal; returns the findings about the dataset as a whole. Throws `OutputFailure`.
  func write(_ unordered: some Sequence<Journal.Entry>, of journal: Journal, to directory: String) throws -> [Finding] {
    let entries = unordered.sorted { $0.precedes($1) }
    let written = entries.filter { $0.outcome == .written }
    let digest = pipeline.digest().description
    let split = split(written)
    let members = zip(written, split.parts).map { DatasetMember(id: $0.id, samples: $0.framesOut, part: $1) }
    let readers = Set(written.map { $0.reader ?? "" })
    let identity = ShardIdentity(
      reader: readers.count == 1 ? readers.first ?? "" : "takeset", toolVersion: tool.version, pipelineDigest: digest)
    let path = directory + "/" + DatasetFiles.manifest
    do {
      var index = try pipeline.writer.publish(members, normalization: pipeline.normalization, identity: identity, in: directory)
      index.findings += split.findings
      let stamp = IndexStamp(
        directory + "/" + pipeline.writer.indexPath, splitFile: splitFile, vanished: entries.map(\.id).filter(vanished.contains))
      var manifest = Manifest(
        tool: tool, pipeline: pipeline.canonical(), pipelineDigest: digest, split: split,
        parts: members.map { ($0.id, $0.part) }, entries: entries, index: index, run: runSection(entries, stamp))
      manifest.sources = sources
      try manifest.write(to: path) { id in
        let record = try journal.record(of: id)
        return vanished.contains(id) ? try Self.markVanished(record) : record
      }
      try SealedFile.syncDirectory(of: path)
      return index.findings
    } catch {
      throw OutputFailure(error, writing: directory)
    }
  }

  private func split(_ written: [Journal.Entry]) -> DatasetSplit {
    if let parts { return DatasetSplit(keeping: written.map { parts[$0.id] ?? .train }) }
    return DatasetSplit(
      written.map { DatasetSplit.Episode(id: $0.id, take: $0.takeID, reader: $0.reader ?? "", group: $0.splitGroup) }, rule: pipeline.split,
      file: splitFile)
  }

  /// The record of a take that is kept although its input is gone, with a finding that says so.
  private static func markVanished(_ record: [UInt8]) throws -> [UInt8] {
    var record = try TakeRecord(json: record)
    record.findings.append(Finding(.inputVanished, "the take is no longer among the inputs; its episode is kept"))
    return record.canonicalBytes
  }

  private func runSection(_ entries: [Journal.Entry], _ index: IndexStamp) -> JSONValue {
    func text(_ date: Date) -> String { UnixTime.rfc3339(seconds: Int64(date.timeIntervalSince1970)) }
    var section: [String: JSONValue] = [
      "started": .string(text(started)), "finished": .string(text(Date())),
      "seconds": .number((Date().timeIntervalSince(started) * 1000).rounded() / 1000), "jobs": JSONValue(jobs),
      "command_line": .array(commandLine.map { .string($0) }),
      "index": .string(index.text),
      "takes": .object(
        Dictionary(
          uniqueKeysWithValues: entries.map {
            ($0.id, ["location": .string($0.location), "seconds": .number($0.seconds)])
          })),
    ]
    if recordsHost {
      var host = utsname()
      uname(&host)
      let name = withUnsafeBytes(of: host.nodename) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      (section["host"], section["user"]) = (.string(name), .string(NSUserName()))
    }
    return .object(section)
  }
}

/// Size, time and inode of the index, the digest of the split file, and the takes that are no longer among the inputs. A later run compares
/// them to see whether the index and the manifest are up to date.
struct IndexStamp: Equatable {
  var text: String

  init(_ index: String, splitFile: SplitFile?, vanished: [String]) {
    let file = (try? FileStamp.of(index).description) ?? "missing"
    let split = splitFile.map { ["split file \($0.digest)"] } ?? []
    text = ([file] + split + vanished.sorted()).joined(separator: "\n")
  }

  private init(text: String) { self.text = text }

  /// The stamp in the manifest's last line; reading a complete manifest of thousands of takes would take longer than the check.
  static func recorded(in directory: String) -> IndexStamp? {
    guard let handle = FileHandle(forReadingAtPath: directory + "/" + DatasetFiles.manifest),
      let size = try? handle.seekToEnd()
    else { return nil }
    defer { try? handle.close() }
    let tail = min(size, 64 << 20)
    guard (try? handle.seek(toOffset: size - tail)) != nil, let data = try? handle.readToEnd() else { return nil }
    let key = Data("\n\"run\":".utf8)
    guard let range = data.range(of: key, options: .backwards),
      let run = try? JSONReader(Array(data[range.upperBound...])).value(), let text = run["index"]?.string
    else { return nil }
    return IndexStamp(text: text)
  }
}
