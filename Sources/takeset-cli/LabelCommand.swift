import ArgumentParser
import Datasets
import Evidence
import Foundation
import Merging
import Model
import Steps

struct LabelCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "label", abstract: "List or change the labels of a dataset's episodes.",
    discussion: """
      A task, success, tags, segments with a text each, and numbers or words under names of your own. Only dataset.h5 and manifest.json are \
      written, in one moment; shards stay as they are, and later runs keep what is set here. An empty value takes a label away.

        takeset label dataset/ --list
        takeset label dataset/ --episode kitchen-3 --task "put the cup away" --success true --tag night
        takeset label dataset/ --from labels.csv
        takeset label dataset/ --list --csv > labels.csv

      Exit codes: 64 the dataset has no such episode; 65 the file has a label that cannot be.
      """)

  @Argument(help: "A dataset directory.", completion: .directory)
  var directory: String
  @Option(
    help: ArgumentHelp("Labels of takes (CSV, YAML or JSON); see docs/labels.md.", valueName: "file"),
    completion: .file(extensions: ["csv", "yaml", "yml", "json"]))
  var from: String?
  @Option(help: ArgumentHelp("Label this episode, or all episodes of this take.", valueName: "id"))
  var episode: [String] = []
  @Option(help: ArgumentHelp("Its task.", valueName: "text"))
  var task: String?
  @Option(help: "Whether it has succeeded: true, false, or none for unknown.")
  var success: Success?
  @Option(help: ArgumentHelp("A tag; all those that are given replace those it had.", valueName: "tag"))
  var tag: [String] = []
  @Option(help: ArgumentHelp("A label of another name: a number, true or false, or a text.", valueName: "name=value"))
  var set: [String] = []
  @Flag(help: "Print the labels of all episodes.")
  var list = false
  @Flag(help: "Print JSON.")
  var json = false
  @Flag(help: "With --list, print a table that --from reads.")
  var csv = false
  @Flag(name: .shortAndLong, help: "Print problems only.")
  var quiet = false

  enum Success: String, ExpressibleByArgument, CaseIterable {
    case `true`, `false`, none
    var value: JSONValue { self == .none ? .null : .bool(self == .true) }
  }

  func validate() throws {
    let isEdit = from != nil || !episode.isEmpty
    let hasValues = task != nil || success != nil || !tag.isEmpty || !set.isEmpty
    if list == isEdit { throw ValidationError("give --list, --from FILE, or --episode ID with labels") }
    if csv, !list || json { throw ValidationError("--csv is a form of --list, as --json is") }
    if from != nil, !episode.isEmpty { throw ValidationError("--from has the ids of its takes; leave out --episode") }
    if episode.isEmpty, hasValues { throw ValidationError("--task, --success, --tag and --set need --episode") }
    if !episode.isEmpty, !hasValues { throw ValidationError("--episode needs --task, --success, --tag or --set") }
  }

  func run() throws {
    try checkIsFolder(directory)
    if list {
      let dataset = try Dataset(directory: directory)
      let listing = LabelListing(dataset.written.map { ($0.id.text, dataset.record.labels[$0.id.text] ?? Labels()) })
      if json { return standardOutput(listing.json.canonicalText) }
      // A file has the texts as they are; a terminal would obey what is in them.
      let isFile = csv && isatty(STDOUT_FILENO) == 0
      return (csv ? listing.csv : listing.table).forEach { standardOutput($0, asIs: isFile) }
    }
    var edit = LabelEdit(of: directory)
    edit.checks = CheckProcess.checks
    edit.file = try from.map { try LabelFile($0) }
    let values = try values()
    for id in episode { edit.episodes[id] = values }
    let summary = try edit.execute()
    for finding in summary.findings { standardError("\(finding.severity.rawValue): \(finding.message)") }
    if json {
      return standardOutput(
        JSONValue.object([
          "dataset": .string(directory), "changed": .array(summary.changed.map { .string($0) }),
          "unchanged": .array(summary.unchanged.map { .string($0) }), "findings": .array(summary.findings.map(\.json)),
        ]).canonicalText)
    }
    if quiet { return }
    let unchanged = summary.unchanged.isEmpty ? "" : ", \(summary.unchanged.count) had these labels already"
    standardOutput("\(directory): \(counted(summary.changed.count, "episode")) labelled\(unchanged)")
  }

  private func values() throws -> [String: JSONValue] {
    var values: [String: JSONValue] = [:]
    for text in set {
      let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      guard parts.count == 2 else { throw UsageError("--set: expected NAME=VALUE, such as robot_id=7, found \(text.onOneLine)") }
      values[parts[0]] = parts[1].isEmpty ? .null : LabelValue.ofField(parts[1], parts[0])
    }
    if let task { values["task"] = task.isEmpty ? .null : .string(task) }
    if let success { values["success"] = success.value }
    if !tag.isEmpty { values["tags"] = .array(tag.filter { !$0.isEmpty }.map { .string($0) }) }
    return values
  }
}

/// The labels of a dataset's episodes, as `takeset label --list` shows them.
private struct LabelListing {
  private let episodes: [(id: String, labels: Labels)]

  init(_ episodes: [(id: String, labels: Labels)]) { self.episodes = episodes }

  var json: JSONValue { .object(Dictionary(episodes.map { ($0.id, $0.labels.isEmpty ? [:] : $0.labels.json) }) { first, _ in first }) }

  private func text(_ value: JSONValue?) -> String {
    switch value {
    case .string(let text): text
    case .array(let list): list.compactMap(\.string).joined(separator: ";")
    case .null, nil: ""
    case let value?: value.canonicalText
    }
  }

  /// One line an episode.
  var table: [String] {
    var lines = [["episode", "task", "success", "tags", "segments", "other"]]
    for (id, labels) in episodes {
      let others = labels.others.map { "\($0.name)=\(text($0.value).onOneLine)" }.joined(separator: " ")
      lines.append([
        id, (labels.task ?? "").onOneLine, text(labels.values["success"]), labels.tags.joined(separator: ";").onOneLine,
        labels.segments.isEmpty ? "" : "\(labels.segments.count)", others,
      ])
    }
    return columned(lines)
  }

  /// One line an episode, and one for each segment, in the form of a file of labels.
  var csv: [String] {
    let others = Set(episodes.flatMap { $0.labels.others.map(\.name) }).sorted()
    let columns = ["take", "task", "success", "tags", "start", "end", "text"] + others
    func line(_ fields: [String: String]) -> String {
      columns.map { commaSeparated(fields[$0] ?? "") }.joined(separator: ",")
    }
    return [columns.joined(separator: ",")]
      + episodes.flatMap { id, labels in
        var fields = [
          "take": id, "task": labels.task ?? "", "success": text(labels.values["success"]), "tags": text(labels.values["tags"]),
        ]
        for (name, value) in labels.others { fields[name] = text(value) }
        return [line(fields)]
          + labels.segments.map { segment in
            line([
              "take": id, "success": segment.success.map { "\($0)" } ?? "", "start": "\(segment.start)", "end": "\(segment.end)",
              "text": segment.text,
            ])
          }
      }
  }
}
