package import Datasets
package import Evidence
package import Model
import Runs
import Steps

/// A change of the labels of a dataset's episodes. Index and manifest alone are written, and change in one moment; no shard is.
///
///     var edit = LabelEdit(of: "dataset")
///     edit.episodes = ["kitchen-3": ["task": "put the cup away", "success": true]]
///     let changed = try edit.execute().changed
package struct LabelEdit: Sendable {
  package var directory: String
  /// Values by the ids of episodes or takes.
  package var episodes: [String: [String: JSONValue]] = [:]
  /// Labels by the ids of takes, or patterns.
  package var file: LabelFile?
  /// The check of shards that another program has written to; only those that get segments are read.
  package var checks = Verification.ExternalChecks.inProcess

  package struct Summary: Sendable {
    /// Ids of the episodes whose labels are others than before.
    package var changed: [String] = []
    /// Ids of those that had these labels already.
    package var unchanged: [String] = []
    package var findings: [Finding] = []
  }

  package init(of directory: String) { self.directory = directory }

  /// Writes the labels.
  ///
  /// Throws `UsageError` for a directory that is no dataset and for names that it does not have, `UnusableValues` for labels that
  /// cannot be, `ExportRefusal` for a shard whose times cannot be read, `OutputFailure`.
  package func execute() throws -> Summary {
    guard DatasetFiles.isDataset(directory) else { throw UsageError("\(directory) is not a Takeset dataset") }
    let output = try OutputDirectory(directory, inputs: [])
    defer { withExtendedLifetime(output) {} }
    let dataset = try Dataset(directory: directory, checks: checks)
    let values = try values(of: dataset.written.map(\.id))
    let recorded = dataset.record.labels
    var labels = LabelCollection(recorded: recorded)
    for (id, own) in values { labels.edit(id, own) }
    let withSegments = dataset.written.filter { values[$0.id.text]?[LabelValue.segmentsName] != nil }
    let takes = Dictionary(withSegments.map { ($0.id, $0) }) { first, _ in first }
    try labels.place(withSegments.map(\.id)) { id in
      guard let take = takes[id] else { return [] }
      let first = try dataset.record(of: take).details?[LabelDetails.firstRow]?.integer ?? 0
      let times = try dataset.episode(take).frames.timestamps
      return times.map { $0.since(times[0]) &+ first }
    }
    var summary = Summary()
    for id in values.keys.sorted() {
      if labels[id]?.json == recorded[id]?.json { summary.unchanged.append(id) } else { summary.changed.append(id) }
    }
    if summary.changed.isEmpty { return summary }
    do {
      try dataset.write(labels)
    } catch let error as UsageError {
      throw error
    } catch {
      throw OutputFailure(error, writing: directory, isResumed: false)
    }
    summary.findings = labels.findings
    return summary
  }

  /// The values of each episode, checked. Throws `UsageError` for a name that the dataset does not have, `UnusableValues`.
  private func values(of ids: [EpisodeID]) throws -> [String: [String: JSONValue]] {
    let names = Set(ids.map(\.text) + ids.map(\.take))
    func unknown(_ name: String, _ place: String) -> UsageError {
      UsageError("\(place)\(directory) has no episode \(name.onOneLine)\(Spelling.hint(for: name, among: names.sorted()))")
    }
    if let name = episodes.keys.sorted().first(where: { !names.contains($0) }) { throw unknown(name, "--episode: ") }
    if let first = file?.mistakes.first { throw UnusableValues("\(file?.name ?? ""): \(first.words)") }
    var (all, used): ([String: [String: JSONValue]], Set<Int>) = ([:], [])
    let lines = file.map { LabelFile.Names($0) }
    for id in ids {
      var own: [String: JSONValue] = [:]
      if let file, let lines {
        let said = file.values(of: id, using: lines)
        used.formUnion(said.lines)
        own = said.values
      }
      for name in [id.take, id.text] {
        for (label, value) in episodes[name] ?? [:] {
          do { own[label] = try LabelValue.checked(label, value) } catch { throw UsageError("\(error)") }
        }
      }
      if !own.isEmpty { all[id.text] = own }
    }
    if let file, let index = file.lines.indices.first(where: { !used.contains($0) }) {
      throw unknown(file.lines[index].name ?? "", "\(file.name): " + (file.lines[index].number.map { "line \($0): " } ?? ""))
    }
    return all
  }
}
