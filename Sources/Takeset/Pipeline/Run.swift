import Foundation
import Synchronization

/// A batch run: every take found among the inputs is brought into the output directory, or its entry says why not.
package struct Run: Sendable {
  package var inputs: [String]
  package var output: String
  package var pipeline: Pipeline
  package var tool: ToolIdentity
  package var jobs = 1
  package var stopsAtFailure = false
  package var replaces = false
  package var prunes = false
  /// Whether inputs are compared by content rather than by size, time and inode.
  package var checksContent = false
  /// Keys of devices, against which the signatures of bundles are checked.
  package var keys: DeviceKeys?
  package var commandLine: [String] = []

  package init(inputs: [String], output: String, pipeline: Pipeline, tool: ToolIdentity) {
    self.inputs = inputs
    self.output = output
    self.pipeline = pipeline
    self.tool = tool
  }

  /// What a run tells while it goes on; called from several threads.
  package enum Event: Sendable {
    case found(takes: Int)
    case log(String)
    /// Rows and bytes that were stored since the last event.
    case progress(rows: Int, bytes: Int)
    case finished(id: String, outcome: TakeRecord.Outcome, reason: String?, rows: Int, seconds: Double)
  }

  package struct Summary: Sendable {
    package var written = 0
    package var rejected = 0
    package var failed = 0
    /// Takes whose output was there and sound.
    package var unchanged = 0
    package var pruned = 0
    package var rows = 0
    package var isCancelled = false
    package var isUpToDate = false
  }

  /// Runs to the end, or until `isCancelled` says otherwise. Throws `UsageError`, `NoInputs` or `OutputFailure`.
  package func execute(
    isCancelled: @escaping @Sendable () -> Bool = { false }, report: @escaping @Sendable (Event) -> Void
  ) throws -> Summary {
    let started = Date()
    let digest = try pipeline.digest().description
    // The earlier heads decide ids, so they are read before anything is created.
    let outputPath = OutputDirectory.absolute(output)
    let earlier: [String: Journal.Head]
    do {
      earlier = try Journal.heads(at: outputPath + "/journal.jsonl")
    } catch {
      throw OutputFailure("cannot read the journal of \(output): \(error)")
    }
    let search = TakeSearch(inputs: inputs, readers: pipeline.candidates, owners: TakeOwners(earlier))
    search.notices.forEach { report(.log($0)) }
    if search.isHopeless { throw NoInputs(search) }

    try refuseForeignOutput(outputPath, earlier, digest)
    let directory = try OutputDirectory(output, inputs: inputs)
    let journal: Journal
    do {
      journal = try Journal(path: directory.journal)
    } catch {
      throw OutputFailure(error, writing: directory.journal)
    }
    let state = RunState(run: self, directory: directory.path, journal: journal, digest: digest, report: report)
    report(.found(takes: search.found.count + search.missed.count))
    for missed in search.missed { state.fail(missed) }

    let jobs = search.found.map { TakeJob(take: $0) }
    let cancelled: @Sendable () -> Bool = { isCancelled() || state.isStopped }
    Scheduler(
      jobs: jobs, threads: max(1, self.jobs),
      work: Scheduler.Work(
        open: { state.open($0) }, finish: { state.finish($0, isCancelled: cancelled) },
        didStore: { state.didStore($0) }, isCancelled: cancelled)
    ).run()

    if let failure = state.outputFailure { throw failure }
    var summary = state.summary
    summary.isCancelled = isCancelled()
    if summary.isCancelled { return summary }
    let seen = state.seen(search)
    if !state.isStopped { summary.pruned = try removeVanished(search, seen, journal, directory, digest, report) }
    let stamp = IndexStamp(directory.path, vanished: journal.heads.keys.filter { !seen.contains($0) })
    summary.isUpToDate =
      !state.hasChanged && summary.pruned == 0 && stamp == IndexStamp.recorded(in: directory.path)
    if !summary.isUpToDate { try publish(directory, journal, digest, seen, started) }
    return summary
  }

  /// Another pipeline's output is not touched unless it is to be replaced.
  private func refuseForeignOutput(_ path: String, _ earlier: [String: Journal.Head], _ digest: String) throws {
    guard !replaces else { return }
    if let other = earlier.values.first(where: { $0.pipeline != digest }) {
      throw UsageError(
        """
        \(output) holds the output of another pipeline (\(other.pipeline.prefix(12)), this one is \(digest.prefix(12))); \
        give another --output, or --replace to make it anew
        """)
    }
    if earlier.isEmpty {
      for name in ["dataset.h5", "manifest.json"] where Directory.existingKind(of: path + "/" + name) != nil {
        throw UsageError("\(output) holds a \(name) that no journal accounts for; give another --output, or --replace to overwrite it")
      }
    }
  }

  /// Removes takes that are no longer among the inputs, where asked to, and those of a replaced pipeline.
  private func removeVanished(
    _ search: TakeSearch, _ seen: Set<String>, _ journal: Journal, _ directory: OutputDirectory, _ digest: String,
    _ report: (Event) -> Void
  ) throws -> Int {
    if prunes, !search.missed.isEmpty {
      report(.log("nothing is pruned, because an input could not be read: what seems to have vanished may only be out of reach"))
    }
    let gone = journal.heads.values.filter { head in
      // An entry for an input that gave no take says nothing once that input is not asked for, and a take whose input and
      // episode are both gone is gone.
      if seen.contains(head.id) { return false }
      let hasLostShard =
        head.outcome == .written && Directory.existingKind(of: directory.path + "/" + DatasetIndex.shardPath(head.id)) == nil
      return prunes && search.missed.isEmpty || head.pipeline != digest || head.reader == nil || hasLostShard
    }
    for head in gone.sorted(by: { $0.id < $1.id }) {
      unlink(directory.path + "/" + DatasetIndex.shardPath(head.id))
      report(.log("\(head.id): removed, it is no longer among the inputs"))
    }
    do {
      try journal.compact(removing: Set(gone.map(\.id)))
    } catch {
      throw OutputFailure(error, writing: directory.journal)
    }
    return gone.count
  }

  /// Writes `dataset.h5` and `manifest.json` from the journal.
  private func publish(
    _ directory: OutputDirectory, _ journal: Journal, _ digest: String, _ seen: Set<String>, _ started: Date
  ) throws {
    // After a --replace that was stopped half-way, the rest is still the other pipeline's.
    let heads = journal.heads.values.filter { $0.pipeline == digest }.sorted { $0.id.utf8.lexicographicallyPrecedes($1.id.utf8) }
    let written = heads.filter { $0.outcome == .written }
    let parts = pipeline.split?.assign(written.map { $0.splitGroup ?? $0.id }) ?? written.map { _ in .train }
    let members = zip(written, parts).enumerated().map { number, member in
      DatasetIndex.Member(
        id: member.0.id, reader: member.0.reader ?? "", samples: member.0.framesOut, part: member.1,
        demo: DatasetIndex.demoName(number))
    }
    do {
      let statistics = try DatasetIndex(
        members: members, directory: directory.path, toolVersion: tool.version, pipelineDigest: digest
      ).write()
      let manifest = Manifest(
        tool: tool, pipeline: try pipeline.canonical(), pipelineDigest: digest, split: pipeline.split,
        parts: members.map { ($0.id, $0.part) }, statistics: statistics, heads: heads,
        index: try SealedFile.digest(of: directory.index),
        run: runSection(heads, started, IndexStamp(directory.path, vanished: heads.map(\.id).filter { !seen.contains($0) })))
      try manifest.write(to: directory.manifest) { id in
        let record = try journal.record(of: id)
        return seen.contains(id) ? record : try Self.markVanished(record)
      }
      try SealedFile.syncDirectory(of: directory.manifest)
    } catch {
      throw OutputFailure(error, writing: directory.path)
    }
  }

  /// A take that stays although its input is gone says so.
  private static func markVanished(_ record: [UInt8]) throws -> [UInt8] {
    var members = try JSONReader(record).value().object ?? [:]
    let finding = Finding(.warning, "input-vanished", "the take is no longer among the inputs; its episode is kept")
    members["findings"] = .array((members["findings"]?.array ?? []) + [finding.json])
    return JSONValue.object(members).canonicalBytes
  }

  private func runSection(_ heads: [Journal.Head], _ started: Date, _ index: IndexStamp) -> JSONValue {
    let format = ISO8601DateFormatter()
    var host = utsname()
    uname(&host)
    let name = withUnsafeBytes(of: host.nodename) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    return [
      "started": .string(format.string(from: started)), "finished": .string(format.string(from: Date())),
      "seconds": .number((Date().timeIntervalSince(started) * 1000).rounded() / 1000), "jobs": JSONValue(jobs),
      "host": .string(name), "user": .string(NSUserName()),
      "command_line": .array(commandLine.map { .string($0) }),
      "index": .string(index.text),
      "takes": .object(
        Dictionary(
          uniqueKeysWithValues: heads.map {
            ($0.id, ["location": .string($0.location), "seconds": .number($0.seconds)])
          })),
    ]
  }
}

/// Size, time and inode of `dataset.h5`, and the takes that are no longer among the inputs: by these a later run sees
/// that index and manifest are still what they would be.
private struct IndexStamp: Equatable {
  var text: String

  init(_ directory: String, vanished: [String]) {
    let file = (try? FileStamp.of(directory + "/dataset.h5").description) ?? "missing"
    text = ([file] + vanished.sorted()).joined(separator: "\n")
  }

  private init(text: String) { self.text = text }

  /// What the manifest's last line says; reading all of a manifest of thousands of takes would take longer than the check.
  static func recorded(in directory: String) -> IndexStamp? {
    guard let handle = FileHandle(forReadingAtPath: directory + "/manifest.json"),
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
