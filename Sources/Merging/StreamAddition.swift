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
///     let addition = StreamAddition(to: "dataset", stream: "width", unit: "m", values: try AddedValues("width.npz"), tool: tool)
///     let summary = try addition.execute()
package struct StreamAddition {
  package var directory: String
  package var stream: StreamName
  package var unit: String
  package var values: AddedValues
  /// The id of the only episode that gets the stream; all that the file names without one.
  package var episode: String?
  package var tool: ToolIdentity
  package var commandLine: [String] = []
  /// The check of shards that another program has written to.
  package var checks = Verification.ExternalChecks.inProcess

  package struct Summary: Sendable {
    package var episodes = 0
    package var rows = 0
    /// Rows without a number.
    package var empty = 0
    /// Episodes that had the stream already, with the same values.
    package var unchanged = 0
    /// Ids of the episodes that do not have the stream.
    package var others: [String] = []
    package var elements: [String] = []
    package var findings: [Finding] = []
  }

  package init(to directory: String, stream: StreamName, unit: String, values: AddedValues, tool: ToolIdentity) {
    (self.directory, self.stream, self.unit, self.values, self.tool) = (directory, stream, unit, values, tool)
  }

  /// An episode that gets the stream.
  private struct Member {
    var entry: Journal.Entry
    var record: TakeRecord
    var addition: ShardAddition
    /// Whether it has the same stream already.
    var isDone: Bool
  }

  /// Adds the stream.
  ///
  /// Throws `UsageError` for a directory that is no finished dataset, names that it does not have, and a stream that it has;
  /// `UnusableValues` for a table of another length; `ExportRefusal` for a damaged shard; `OutputFailure`; `CancellationError`.
  package func execute(isCancelled: () -> Bool = { false }) throws -> Summary {
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
    let dataset = try Dataset(directory: directory, checks: checks)
    let journal: Journal
    do {
      journal = try Journal(path: directory + "/" + DatasetFiles.journal)
    } catch {
      throw OutputFailure(error, writing: directory)
    }
    let entries = try self.entries(of: dataset, in: journal)
    let members = try members(entries, journal)
    var summary = Summary()
    summary.elements = members.first?.addition.elements ?? []
    for member in members {
      if isCancelled() { throw CancellationError() }
      let width = member.addition.elements.count
      summary.rows += member.entry.framesOut
      summary.empty += stride(from: 0, to: member.addition.values.count, by: max(width, 1)).count { start in
        member.addition.values[start..<(start + width)].allSatisfy(\.isNaN)
      }
      if member.isDone { summary.unchanged += 1 } else { try add(member, to: journal) }
    }
    summary.episodes = members.count
    let added = Set(members.map(\.entry.id))
    summary.others = entries.filter { $0.outcome == .written && !added.contains($0.id) && !$0.added.contains(stream) }.map(\.id.text)
    if summary.unchanged < summary.episodes || !isPublished(members, dataset) {
      summary.findings = try publish(dataset, journal, started)
    }
    return summary
  }

  /// The entries of a dataset's episodes, by their ids. Throws `UsageError` where the journal is not that of the manifest.
  private func entries(of dataset: Dataset, in journal: Journal) throws -> [Journal.Entry] {
    let entries = journal.entries
    let own = dataset.takes.compactMap { entries[$0.id.text] }.filter { dataset.record.shardDigests.contains($0.pipeline) }
    guard own.count == dataset.takes.count, own.count == entries.count else {
      throw UsageError(
        "\(directory) is not finished: \(DatasetFiles.journal) has other episodes than \(DatasetFiles.manifest); run takeset run again")
    }
    return own
  }

  // MARK: Values

  private func members(_ entries: [Journal.Entry], _ journal: Journal) throws -> [Member] {
    let written = entries.filter { $0.outcome == .written }
    let tables = try tables(for: written.map(\.id.text))
    var members: [Member] = []
    var elements: [String]?
    for entry in written {
      guard let table = tables[entry.id.text] else { continue }
      let record = try TakeRecord(json: journal.record(of: entry.id.text))
      let names = elementNames(table.width)
      if let elements, elements.count != names.count {
        throw UnusableValues(
          "\(values.name): \(table.place) has \(counted(names.count, "number")) a row, others have \(elements.count); expected as many in all"
        )
      }
      elements = names
      let addition = ShardAddition(stream: stream, unit: unit, elements: names, values: try rows(table, of: entry))
      members.append(Member(entry: entry, record: record, addition: addition, isDone: try isDone(record)))
    }
    return members
  }

  /// The tables by the ids of their episodes.
  private func tables(for ids: [String]) throws -> [String: AddedValues.Table] {
    let known = Set(ids)
    if let episode, !known.contains(episode) {
      throw UsageError("--episode \(episode.onOneLine): \(directory) has no such episode\(Spelling.hint(for: episode, among: ids))")
    }
    let named = values.tables.filter { known.contains($0.key) }
    if let episode {
      guard let table = named[episode] ?? values.single else {
        throw UsageError("\(values.name) has no values for \(episode); it has \(Array(values.tables.keys).sorted().abridged)")
      }
      return [episode: table]
    }
    if named.isEmpty, let single = values.single {
      guard ids.count == 1 else {
        throw UsageError(
          "\(values.name) does not say which of the \(ids.count) episodes its values are of; name each array by the id of its episode, add a column episode, or give --episode"
        )
      }
      return [ids[0]: single]
    }
    if let other = values.tables.keys.filter({ !known.contains($0) }).min() {
      throw UsageError("\(values.name): \(directory) has no episode \(other.onOneLine)\(Spelling.hint(for: other, among: ids))")
    }
    return named
  }

  private func elementNames(_ width: Int) -> [String] {
    if !values.elements.isEmpty { return values.elements }
    return width == 1 ? [stream.rawValue] : (0..<width).map { "\(stream)_\($0)" }
  }

  private func rows(_ table: AddedValues.Table, of entry: Journal.Entry) throws -> [Float] {
    let missing = entry.framesOut - table.rows
    guard missing == 0 || missing > 0 && table.namesRows else {
      let words = table.namesRows ? "rows up to \(table.rows - 1)" : counted(table.rows, "row")
      throw UnusableValues("\(values.name): \(table.place) has \(words), and the episode \(entry.id) has \(entry.framesOut)")
    }
    return table.values + [Float](repeating: .nan, count: missing * table.width)
  }

  /// Whether an episode has the stream with the same values. Throws `UsageError` where it has another stream of the name.
  private func isDone(_ record: TakeRecord) throws -> Bool {
    let array = "\(ShardNames.dataPath)obs/\(stream)"
    guard record.output?.arrays.contains(where: { $0.path == array }) == true else { return false }
    let own = TakeRecord.Addition(stream: stream, file: values.name, digest: values.digest, unit: unit)
    if record.additions.contains(own) { return true }
    let origin = record.additions.first { $0.stream == stream }.map { ", which takeset add has added from \($0.file)" } ?? ""
    throw UsageError("\(record.id) has a stream \(stream) already\(origin); choose another name")
  }

  // MARK: Writing

  private func add(_ member: Member, to journal: Journal) throws {
    var (record, entry) = (member.record, member.entry)
    record.output = try member.addition.write(to: record, in: directory, checks)
    record.additions.append(TakeRecord.Addition(stream: stream, file: values.name, digest: values.digest, unit: unit))
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
  private func isPublished(_ members: [Member], _ dataset: Dataset) -> Bool {
    let takes = Dictionary(dataset.takes.map { ($0.id, $0) }) { first, _ in first }
    return members.allSatisfy { member in
      let recorded = takes[member.entry.id].flatMap { try? dataset.record(of: $0) }
      return recorded?.additions == member.record.additions
    }
  }

  private func publish(_ dataset: Dataset, _ journal: Journal, _ started: Date) throws -> [Finding] {
    do {
      try journal.compact()
    } catch {
      throw OutputFailure(error, writing: journal.path)
    }
    var publication = Publication(pipeline: try dataset.pipeline(), tool: tool, started: started, commandLine: commandLine)
    (publication.recorded, publication.keepsEpisodes, publication.sources) = (dataset.record, true, dataset.record.sources)
    let vanished = try dataset.takes.filter { try dataset.record(of: $0).findings.contains { $0.code == .inputVanished } }
    publication.vanished = Set(vanished.map(\.id.text))
    return try publication.write(journal.entries.values, of: journal, to: directory)
  }
}
