package import Datasets
import Evidence
import Foundation
package import Model
import Runs
import Steps

/// A stream that is added to the episodes of a dataset, from values that were computed outside: their takes need not be there any more.
///
/// Everything is examined before the first shard is written. Shards are written again one after the other, each with its line in the journal,
/// and then the index and the manifest. After a kill each shard is sound by the old manifest or by the new one, and the same command goes on.
///
///     var addition = StreamAddition(to: "dataset", stream: "width", from: "width.npz", tool: tool)
///     addition.unit = "m"
///     let summary = try addition.execute()
package struct StreamAddition: Sendable {
  package var directory: String
  package var stream: StreamName
  /// The file with the values.
  package var file: String
  package var unit = ""
  /// The id of the only episode that gets the stream; all that the file names without one.
  package var episode: String?
  /// Whether other values that `takeset add` has added under the name are given up, and objects of other programs that are in the way.
  package var replaces = false
  package var tool: ToolIdentity
  package var commandLine: [String] = []
  /// The check of shards that another program has written to.
  package var checks = Verification.ExternalChecks.inProcess
  package var threads = 1

  package struct Summary: Sendable {
    package var episodes = 0
    package var rows = 0
    /// Rows without a number.
    package var empty = 0
    /// Episodes that had the stream already, with the same values.
    package var unchanged = 0
    /// Whether the dataset was as it is to be.
    package var isUpToDate = false
    /// Ids of the episodes that do not have the stream.
    package var others: [String] = []
    package var elements: [String] = []
    package var findings: [Finding] = []
  }

  package init(to directory: String, stream: StreamName, from file: String, tool: ToolIdentity) {
    (self.directory, self.stream, self.file, self.tool) = (directory, stream, file, tool)
  }

  /// An episode that gets the stream.
  private struct Member: Sendable {
    var entry: Journal.Entry
    /// Without another stream of the name, once shards are examined.
    var record: TakeRecord
    var addition: ShardAddition
    var state: State

    enum State: Sendable { case absent, same, other }
  }

  /// Adds the stream.
  ///
  /// Throws `UsageError` for a directory that is no finished dataset, names that it does not have, and a stream that it has;
  /// `UnusableValues` for a file that does not fit; `ExportRefusal` for a shard that cannot get it; `OutputFailure`; `CancellationError`.
  package func execute(isCancelled: @escaping @Sendable () -> Bool = { false }) throws -> Summary {
    let started = Date()
    if stream.isReserved || !StreamName.isName(stream.rawValue) {
      let reason = stream.isReserved ? "datasets have something else of this name" : "expected a name such as gripper_width"
      throw UsageError("--stream \(stream.rawValue.onOneLine): \(reason)")
    }
    _ = try Dataset(directory: directory)
    guard try !TaskList.hasUnpublished(in: directory) else {
      throw UsageError("\(directory) has tasks for a cluster that are not published yet; publish them first")
    }
    let output = try OutputDirectory(directory, inputs: [])
    defer { withExtendedLifetime(output) {} }
    // No run writes from here on.
    var dataset = try Dataset(directory: directory, checks: checks)
    let path = directory + "/" + DatasetFiles.journal
    let contents = try Journal.contents(at: path)
    let entries = try entries(of: dataset, contents.entries)
    let journal: Journal
    do { journal = try Journal(path: path, known: contents) } catch { throw OutputFailure(error, writing: directory) }
    let pipeline = try dataset.pipeline()
    let (values, members) = try members(entries, journal)
    let pending = try examined(members.filter { $0.state != .same }, isCancelled)
    func publish(removing removed: StreamName? = nil) throws -> [Finding] {
      try self.publish(dataset, pipeline, journal, started, removing: removed)
    }

    // A record that names other values than the shard has would be damage, so the old stream leaves the manifest first.
    let replaced = pending.filter { $0.state == .other }
    for member in replaced { try append(member.record, member.entry, to: journal) }
    if !replaced.isEmpty {
      _ = try publish(removing: stream)
      dataset = try Dataset(directory: directory, checks: checks)
    }
    var summary = Summary()
    try inOrder(pending.count, threads: threads) {
    } make: { (_: inout Void, index) in
      if isCancelled() { throw CancellationError() }
      return try added(to: pending[index], from: values)
    } store: { index, record in
      try append(record, pending[index].entry, to: journal)
    }
    summary.unchanged = members.count - pending.count
    for member in members {
      let (numbers, width) = (member.addition.values, max(member.addition.elements.count, 1))
      summary.rows += member.entry.framesOut
      summary.empty += stride(from: 0, to: numbers.count, by: width).count { numbers[$0..<($0 + width)].allSatisfy(\.isNaN) }
    }
    (summary.episodes, summary.elements) = (members.count, members.first?.addition.elements ?? [])
    let known = Set(members.map(\.entry.id))
    summary.others = entries.filter { $0.outcome == .written && !known.contains($0.id) && !$0.added.contains(stream) }.map(\.id.text)
    summary.isUpToDate = try summary.unchanged == summary.episodes && isPublished(members, dataset)
    if !summary.isUpToDate { summary.findings = try publish() }
    return summary
  }

  /// The entries of a dataset's episodes, by their ids. Throws `UsageError` where the journal is not that of the manifest.
  private func entries(of dataset: Dataset, _ entries: [String: Journal.Entry]) throws -> [Journal.Entry] {
    let own = dataset.takes.compactMap { entries[$0.id.text] }.filter { dataset.record.shardDigests.contains($0.pipeline) }
    guard own.count == dataset.takes.count, own.count == entries.count else {
      throw UsageError(
        "\(directory) is not finished: \(DatasetFiles.journal) has other episodes than \(DatasetFiles.manifest); run takeset run again")
    }
    return own
  }

  // MARK: Values

  private func members(_ entries: [Journal.Entry], _ journal: Journal) throws -> (AddedValues, [Member]) {
    let written = entries.filter { $0.outcome == .written }
    let rows = Dictionary(written.map { ($0.id.text, $0.framesOut) }) { first, _ in first }
    if let episode, rows[episode] == nil {
      throw UsageError(
        "--episode \(episode.onOneLine): \(directory) has no such episode\(Spelling.hint(for: episode, among: rows.keys.sorted()))")
    }
    let values = try AddedValues(file, rows: rows, of: stream.rawValue, only: episode)
    var widths: Set<Int> = []
    let members = try written.compactMap { entry -> Member? in
      guard let table = values.tables[entry.id.text] else { return nil }
      widths.insert(table.width)
      let names =
        !values.elements.isEmpty
        ? values.elements : table.width == 1 ? [stream.rawValue] : (0..<table.width).map { "\(stream)_\($0)" }
      var addition = ShardAddition(stream: stream, unit: unit, elements: names, values: table.values)
      addition.replaces = replaces
      let record = try TakeRecord(json: journal.record(of: entry.id.text))
      return Member(entry: entry, record: record, addition: addition, state: try state(record, addition))
    }
    if widths.count > 1 {
      let list = widths.sorted().map(String.init).joined(separator: " and ")
      throw UnusableValues("\(values.name): its arrays have \(list) numbers a row; expected as many in all")
    }
    return (values, members)
  }

  /// Whether an episode has the stream. Throws `UsageError` where it has another one of the name, which is not to be given up.
  private func state(_ record: TakeRecord, _ addition: ShardAddition) throws -> Member.State {
    guard let array = record.output.flatMap(addition.stored) else { return .absent }
    guard let known = record.additions.first(where: { $0.stream == stream }) else {
      throw UsageError("\(record.id) has a stream \(stream) already, which its take has; choose another name")
    }
    if addition.isSame(as: array), known.unit == unit { return .same }
    guard replaces else {
      throw UsageError(
        "\(record.id) has a stream \(stream) already, which takeset add has added from \(known.file); choose another name, or give --replace"
      )
    }
    return .other
  }

  /// The episodes that are to be written, with the records that they have without the stream. Throws `ExportRefusal` where a shard cannot get it.
  private func examined(_ members: [Member], _ isCancelled: @escaping @Sendable () -> Bool) throws -> [Member] {
    var examined: [Member] = []
    try inOrder(members.count, threads: threads) {
    } make: { (_: inout Void, index) in
      if isCancelled() { throw CancellationError() }
      var member = members[index]
      if member.state == .other {
        member.record.output = try ShardAddition.without(stream, member.record, in: directory, checks)
        member.record.additions.removeAll { $0.stream == stream }
      }
      try member.addition.check(member.record, in: directory, checks)
      return member
    } store: {
      examined.append($1)
    }
    return examined
  }

  // MARK: Writing

  /// Writes the shard of an episode with the stream; returns its record.
  private func added(to member: Member, from values: AddedValues) throws -> TakeRecord {
    var record = member.record
    record.output = try member.addition.write(to: record, in: directory, checks)
    record.additions.append(TakeRecord.Addition(stream: stream, file: values.name, digest: values.digest, unit: unit))
    return record
  }

  private func append(_ record: TakeRecord, _ entry: Journal.Entry, to journal: Journal) throws {
    var (record, entry) = (record, entry)
    record.additions.sort { $0.stream < $1.stream }
    entry.added = record.additions.map(\.stream)
    entry.shard = try FileStamp.of(directory + "/" + DatasetFiles.shard(of: entry.id.text)).description
    do {
      try journal.append(entry, record: record.canonicalBytes)
    } catch {
      throw OutputFailure(error, writing: journal.path)
    }
  }

  /// Whether the manifest has the stream of all these episodes.
  private func isPublished(_ members: [Member], _ dataset: Dataset) throws -> Bool {
    let takes = Dictionary(dataset.takes.map { ($0.id, $0) }) { first, _ in first }
    return try members.allSatisfy { member in
      try takes[member.entry.id].map { try dataset.record(of: $0).additions == member.record.additions } ?? false
    }
  }

  private func publish(
    _ dataset: Dataset, _ pipeline: Pipeline, _ journal: Journal, _ started: Date, removing removed: StreamName?
  ) throws -> [Finding] {
    do {
      try journal.compact()
    } catch {
      throw OutputFailure(error, writing: journal.path)
    }
    var publication = Publication(pipeline: pipeline, tool: tool, started: started, commandLine: commandLine)
    (publication.recorded, publication.keepsEpisodes, publication.removed) = (dataset.record, true, removed)
    publication.sources = dataset.record.sources
    publication.labels = LabelCollection(recorded: dataset.record.labels)
    let vanished = try dataset.takes.filter { try dataset.record(of: $0).findings.contains { $0.code == .inputVanished } }
    publication.vanished = Set(vanished.map(\.id.text))
    return try publication.write(journal.entries.values, of: journal, to: directory)
  }
}
