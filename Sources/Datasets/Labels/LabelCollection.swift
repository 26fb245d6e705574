package import Evidence
import Foundation
import HDF5
package import Model
import Steps

/// The labels of a dataset's episodes, from all sources: their formats, files in or beside takes, steps in Python, a file or a task that a
/// command was given, and what `takeset label` has set before. Later ones win, name by name.
///
///     var labels = try LabelCollection(of: entries, file: file, task: nil, recorded: recorded, vanished: [])
///     try labels.place(entries, in: "dataset")
///     labels["kitchen-3"]?.task
package struct LabelCollection: Sendable {
  private var labels: [String: Labels] = [:]
  /// What is wrong in files of labels, by the file or take.
  private var mistakes: [String] = []
  /// Lines that name no take.
  private var unmatched: [String] = []
  private var unplaced: [String] = []

  package init() {}

  package subscript(id: String) -> Labels? { labels[id] }

  /// - Parameters:
  ///   - entries: All episodes, and the takes that have none.
  ///   - file: Labels by the ids of takes.
  ///   - task: The task of every episode.
  ///   - recorded: The labels of the manifest before, of which those that `takeset label` has set are kept.
  ///   - vanished: Ids of the episodes whose takes are gone; what files beside them said is kept, too.
  package init(
    of entries: some Collection<Journal.Entry>, file: LabelFile?, task: String?, recorded: [String: Labels], vanished: Set<String>
  ) {
    let names = file.map { LabelFile.Names($0) }
    var (used, beside): (Set<Int>, [String: LabelFile?]) = ([], [:])
    for entry in entries {
      if let file, let names { used.formUnion(file.values(of: entry.id, using: names).lines) }
      guard entry.outcome == .written else { continue }
      let id = entry.id.text
      var own = Labels()
      let said = entry.labels.flatMap { try? JSONReader(Array($0.utf8)).value() }
      setChecked(said?[Self.format], of: id, from: Self.format, &own)
      if vanished.contains(id) {
        for (source, name, value) in recorded[id]?.values(from: { $0.hasPrefix(Self.beside) }) ?? [] {
          own.set([name: value], from: source)
        }
      } else {
        let known = beside[entry.id.take] ?? readBeside(entry)
        beside[entry.id.take] = .some(known)
        if let known { own.set(known.values(of: entry.id, using: LabelFile.Names(known)).values, from: Self.beside + known.name) }
      }
      setChecked(said?[Self.step], of: id, from: Self.step, &own)
      if let file, let names { own.set(file.values(of: entry.id, using: names).values, from: "--labels \(file.name)") }
      if let task { own.set(["task": .string(task)], from: "--task") }
      for (_, name, value) in recorded[id]?.values(from: { $0 == Labels.edit }) ?? [] { own.set([name: value], from: Labels.edit) }
      if !own.values.isEmpty { labels[id] = own }
    }
    if let file {
      mistakes += file.mistakes.map { "\(file.name): \($0.words)" }
      for (index, line) in file.lines.enumerated() where !used.contains(index) {
        let place = line.number.map { "line \($0) " } ?? ""
        unmatched.append("\(file.name): \(place)(\((line.name ?? "").onOneLine.prefix(64)))")
      }
    }
    let known = Set(entries.map(\.id.text))
    for (id, labels) in recorded.sorted(by: { $0.key < $1.key }) where !known.contains(id) {
      let names = labels.values { $0 == Labels.edit }.map(\.name)
      if !names.isEmpty { unmatched.append("\(Labels.edit): \(id) (\(names.joined(separator: ", ")))") }
    }
  }

  /// Labels as datasets record them, each with its sources.
  package init(recorded: [String: Labels]) { labels = recorded }

  /// Sources, as records name them. A file of a take is named after the third.
  private static let (format, step, beside) = ("format", "steps.labels", "take: ")

  /// What a record's details say, by source.
  static func said(_ details: [String: JSONValue]?) -> [String: JSONValue] {
    var said: [String: JSONValue] = [:]
    (said[format], said[step]) = (details?[LabelDetails.format], details?[LabelDetails.steps])
    return said
  }

  private mutating func setChecked(_ said: JSONValue?, of id: String, from source: String, _ labels: inout Labels) {
    for (name, value) in (said?.object ?? [:]).sorted(by: { $0.key < $1.key }) where name != "measures" {
      do {
        labels.set([name: try LabelValue.checked(name, value)], from: source)
      } catch {
        mistakes.append("\(id): \(source): \(error)")
      }
    }
  }

  /// The file with labels in the folder of a take, or beside its only file.
  private mutating func readBeside(_ entry: Journal.Entry) -> LabelFile? {
    let location = entry.location
    do {
      guard let kind = try Directory.kind(at: location) else { return nil }
      let start = kind == .directory ? "\(location)/labels" : URL(fileURLWithPath: location).deletingPathExtension().path + ".labels"
      for ending in LabelFile.extensions {
        let path = "\(start).\(ending)"
        guard try Directory.kind(at: path) == .file else { continue }
        let name = URL(fileURLWithPath: path).lastPathComponent
        let file = LabelFile(try LabelFile.bytes(of: path), name: name, isOfOneTake: true)
        mistakes += file.mistakes.map { "\(entry.id.take): \(name): \($0.words)" }
        let names = LabelFile.Names(file)
        let lines = Set(names.lines(for: EpisodeID(take: entry.id.take)))
        for (index, line) in file.lines.enumerated()
        where !lines.contains(index) && EpisodeID(ofPart: line.name ?? "")?.take != entry.id.take {
          unmatched.append("\(entry.id.take): \(name): line \(line.number ?? 0) (\((line.name ?? "").onOneLine.prefix(64)))")
        }
        return file
      }
    } catch {
      mistakes.append("\(entry.id.take): its file of labels cannot be read: \(error)")
    }
    return nil
  }

  /// Sets labels as `takeset label` does. The rows of new segments are to be found by `place`.
  package mutating func edit(_ id: String, _ values: [String: JSONValue]) { labels[id, default: Labels()].set(values, from: Labels.edit) }

  // MARK: Rows

  /// Finds the rows of segments, by the times of the episodes' rows, which it reads from their shards.
  package mutating func place(_ entries: some Sequence<Journal.Entry>, in directory: String) throws {
    let firstRows = Dictionary(entries.filter { $0.firstRow != 0 }.map { ($0.id, $0.firstRow) }) { first, _ in first }
    try place(entries.map(\.id)) { id in
      let file = try File.open(directory + "/" + DatasetFiles.shard(of: id.text))
      defer { try? file.close() }
      let first = firstRows[id] ?? 0
      return try StoredEpisode(file.root).times().readAll(as: Int64.self).map { $0 &+ first }
    }
  }

  /// Finds the rows of segments.
  ///
  /// - Parameter times: Returns the times of an episode's rows, in nanoseconds since the first frame of the take.
  package mutating func place(_ episodes: some Sequence<EpisodeID>, times: (EpisodeID) throws -> [Int64]) rethrows {
    /// Segments of each take that have rows somewhere.
    var (placed, all): ([String: Set<JSONValue>], [String: [JSONValue]]) = ([:], [:])
    for id in episodes {
      guard var own = labels[id.text], !own.wantedSegments.isEmpty else { continue }
      own.place(in: try times(id))
      labels[id.text] = own
      all[id.take] = own.wantedSegments
      for json in own.wantedSegments {
        if let segment = try? LabelValue.segment(json),
          own.segments.contains(where: { $0.start == segment.start && $0.end == segment.end && $0.text == segment.text })
        {
          placed[id.take, default: []].insert(json)
        }
      }
    }
    for (take, segments) in all.sorted(by: { $0.key < $1.key }) {
      for json in segments where placed[take]?.contains(json) != true {
        guard let segment = try? LabelValue.segment(json) else { continue }
        unplaced.append("\(take): \(segment.start) to \(segment.end) s (\(segment.text.onOneLine.prefix(64)))")
      }
    }
  }

  // MARK: Results

  package var findings: [Finding] {
    var findings: [Finding] = []
    if !mistakes.isEmpty { findings.append(Finding(.labelsInvalid, mistakes.abridged, count: mistakes.count)) }
    if !unplaced.isEmpty {
      findings.append(
        Finding(.labelsInvalid, "segments in which no row lies: \(unplaced.abridged)", severity: .info, count: unplaced.count))
    }
    if !unmatched.isEmpty {
      findings.append(Finding(.labelsUnmatched, "no take has this name: \(unmatched.abridged)", count: unmatched.count))
    }
    return findings
  }

  static let stampWord = "labels "

  /// The manifest's `labels`; `nil` where there are none.
  package var json: JSONValue? { labels.isEmpty ? nil : .object(labels.mapValues(\.json)) }

  /// The line of `run.index` about what the sources say, without rows; `nil` for nothing.
  package var stamp: String? {
    if labels.isEmpty, mistakes.isEmpty, unmatched.isEmpty { return nil }
    let hasher = SHA256()
    for (id, own) in labels.sorted(by: { $0.key < $1.key }) {
      let json: JSONValue = ["values": .object(own.values), "sources": .object(own.sources.mapValues { .string($0) })]
      hasher.update(Array("\(id)\0\(json.canonicalText)\n".utf8))
    }
    for word in mistakes + unmatched { hasher.update(Array("\(word)\n".utf8)) }
    return Self.stampWord + hasher.finish().description
  }
}
