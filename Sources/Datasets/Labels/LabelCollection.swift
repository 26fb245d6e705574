package import Evidence
import Foundation
import HDF5
package import Model
package import Steps

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
  /// Sentences on files of labels that could not be read, which says nothing of them.
  package private(set) var unreadable: [String] = []
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
  ///   - folders: The files of labels in the folders of takes, by their paths, as far as somebody has looked.
  package init(
    of entries: some Collection<Journal.Entry>, file: LabelFile?, task: String?, recorded: [String: Labels], vanished: Set<String>,
    folders: [String: [Directory.Member]] = [:]
  ) {
    let names = file.map { LabelFile.Names($0) }
    var (used, beside): (Set<Int>, [String: Beside]) = ([], [:])
    // In their order, so that findings have theirs.
    for entry in entries.sorted(by: { $0.id < $1.id }) {
      if let file, let names { used.formUnion(file.values(of: entry.id, using: names).lines) }
      guard entry.outcome == .written else { continue }
      let id = entry.id.text
      var own = Labels()
      let said = entry.labels.flatMap { try? JSONReader(Array($0.utf8)).value() }
      setChecked(said?[Self.format], of: id, from: Self.format, &own)
      let inArchive = said?[Self.archive]
      setChecked(inArchive?["labels"], of: id, from: Self.beside + (inArchive?["file"]?.string ?? ""), &own)
      if beside[entry.id.take] == nil {
        mistakes += (inArchive?["mistakes"]?.array ?? []).compactMap(\.string).map { "\(entry.id.take): \($0)" }
      }
      let known = vanished.contains(id) ? .unknown : beside[entry.id.take] ?? readBeside(entry, folders[entry.location])
      beside[entry.id.take] = known
      switch known {
      case .file(let file, let names): own.set(file.values(of: entry.id, using: names).values, from: Self.beside + file.name)
      case .none: break
      case .unknown:
        for (source, name, value) in recorded[id]?.values(from: { $0.hasPrefix(Self.beside) }) ?? [] {
          own.set([name: value], from: source)
        }
      }
      setChecked(said?[Self.step], of: id, from: Self.step, &own)
      if let file, let names { own.set(file.values(of: entry.id, using: names).values, from: "--labels \(file.name)") }
      if let task { own.set(["task": .string(task)], from: "--task") }
      // What was set for a take is that of its episodes, if a step has split it since.
      for id in Set([entry.id.take, id]).sorted() {
        for (_, name, value) in recorded[id]?.edits ?? [] { own.set([name: value], from: Labels.edit) }
      }
      if !own.values.isEmpty { labels[id] = own }
    }
    if let file {
      mistakes += file.mistakes.map { "\(file.name): \($0.words)" }
      for (index, line) in file.lines.enumerated() where !used.contains(index) {
        let place = line.number.map { "line \($0) " } ?? ""
        unmatched.append("\(file.name): \(place)(\((line.name ?? "").onOneLine.prefix(64)))")
      }
    }
    // What somebody has set by hand waits for its episode: the take may have failed this once, or is not converted yet.
    let known = Set(entries.flatMap { [$0.id.text, $0.id.take] })
    for (id, own) in recorded.sorted(by: { $0.key < $1.key }) where labels[id] == nil && !own.edits.isEmpty {
      // An episode of a take that is whole again, or split elsewhere, has those of its take.
      let whole = EpisodeID(ofPart: id).flatMap { recorded[$0.take] }
      if let whole, own.edits.allSatisfy({ edit in whole.edits.contains { $0.name == edit.name && $0.value == edit.value } }) { continue }
      labels[id] = Labels()
      for (_, name, value) in own.edits { labels[id]?.set([name: value], from: Labels.edit) }
      if !known.contains(id) { unmatched.append("\(Labels.edit): \(id), whose labels are kept") }
    }
  }

  /// Labels as datasets record them, each with its sources.
  package init(recorded: [String: Labels]) { labels = recorded }

  /// Sources, as records name them. A file of a take is named after the third.
  private static let (format, step, beside) = ("format", "steps.labels", "take: ")
  /// A file of labels in the archive of a take, as an entry keeps it.
  private static let archive = "archive"

  /// What a record's details say, by source.
  static func said(_ details: [String: JSONValue]?) -> [String: JSONValue] {
    var said: [String: JSONValue] = [:]
    (said[format], said[archive], said[step]) = (
      details?[LabelDetails.format], details?[LabelDetails.archive], details?[LabelDetails.steps]
    )
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

  /// What is known of the file with labels of a take.
  private enum Beside {
    case none
    case file(LabelFile, LabelFile.Names)
    /// It cannot be read now, or its take is gone.
    case unknown
  }

  /// The file with labels in the folder of a take, or beside its only file.
  ///
  /// - Parameter members: Those of the folder, where they are known.
  private mutating func readBeside(_ entry: Journal.Entry, _ members: [Directory.Member]?) -> Beside {
    let location = entry.location
    if members?.isEmpty == true { return .none }
    // The folder of a joined take may be that of others, too.
    if members == nil, entry.joinedGroup != nil { return .unknown }
    do {
      guard let kind = try Directory.kind(at: location) else { return .unknown }
      let start = kind == .directory ? "\(location)/labels" : URL(fileURLWithPath: location).deletingPathExtension().path + ".labels"
      for ending in LabelFile.extensions {
        let path = "\(start).\(ending)"
        guard let kind = try Directory.kind(at: path) else { continue }
        let name = URL(fileURLWithPath: path).lastPathComponent
        guard kind == .file else {
          mistakes.append("\(entry.id.take): \(name) is not a file; links are not followed")
          return .none
        }
        let file = LabelFile(try LabelFile.bytes(of: path, limit: LabelFile.limitOfOneTake), name: name, isOfOneTake: true)
        mistakes += file.mistakes.map { "\(entry.id.take): \(name): \($0.words)" }
        let names = LabelFile.Names(file)
        let lines = Set(names.lines(for: EpisodeID(take: entry.id.take)))
        for (index, line) in file.lines.enumerated()
        where !lines.contains(index) && EpisodeID(ofPart: line.name ?? "")?.take != entry.id.take {
          unmatched.append("\(entry.id.take): \(name): line \(line.number ?? 0) (\((line.name ?? "").onOneLine.prefix(64)))")
        }
        return .file(file, names)
      }
      return .none
    } catch {
      let reason = (error as? FileError)?.reason ?? "\(error)"
      unreadable.append("\(entry.id.take): its labels cannot be read (\(reason)); those that the dataset has stay")
      return .unknown
    }
  }

  /// Sets labels as `takeset label` does. The rows of new segments are to be found by `place`.
  package mutating func edit(_ id: String, _ values: [String: JSONValue]) { labels[id, default: Labels()].set(values, from: Labels.edit) }

  // MARK: Rows

  /// Finds the rows of segments, by the times of the episodes' rows, which it reads from their shards.
  package mutating func place(_ entries: some Sequence<Journal.Entry>, in directory: String) throws {
    let written = entries.filter { $0.outcome == .written }
    let firstRows = Dictionary(written.filter { $0.firstRow != 0 }.map { ($0.id, $0.firstRow) }) { first, _ in first }
    try place(written.map(\.id)) { id in
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
      placed[id.take, default: []].formUnion(own.segments.map(\.wanted))
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
    let mistakes = mistakes + unreadable
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
    let words = mistakes + unreadable + unmatched
    if labels.isEmpty, words.isEmpty { return nil }
    let (hasher, others) = (SHA256(), SHA256())
    for (id, own) in labels.sorted(by: { $0.key < $1.key }) {
      let json: JSONValue = ["values": .object(own.values), "sources": .object(own.sources.mapValues { .string($0) })]
      hasher.update(Array("\(id)\0\(json.canonicalText)\n".utf8))
    }
    for word in words { others.update(Array("\(word)\n".utf8)) }
    return Self.stampWord + hasher.finish().description + (words.isEmpty ? "" : "; \(others.finish())")
  }

  /// The line after another edit: what was wrong in files stays so.
  func stamp(after earlier: String?) -> String? {
    guard let own = stamp, let words = earlier?.split(separator: ";").dropFirst().first else { return stamp }
    return own.split(separator: ";")[0] + ";" + words
  }
}
