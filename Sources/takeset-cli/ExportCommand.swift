import ArgumentParser
import Datasets
import Documents
import Evidence
import Exports
import Foundation
import Merging
import Model
import Reports
import Steps

struct ExportCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "export", abstract: "Convert a dataset into the format of other programs.",
    usage:
      "takeset export <dir> --to <format> --output <directory> [--replace] [--episodes <ids>] [--where <condition>] [<options of the format>]",
    discussion: """
        takeset export dataset/ --to nerfstudio --output scene/
        takeset export dataset/ --to zarr --layout umi --output umi/
        takeset export dataset/ --to ply --voxel 0.01 --episodes take-1,take-2 --output clouds/
        takeset export dataset/ --to colmap --where 'streams has intrinsics' --output colmap/

      takeset-export.json in the output says what was exported and what the format does not hold. Nothing is overwritten without \
      --replace, which replaces an earlier export only.

      Formats and their options:

      \(formats)

      Exit codes: 65 the format cannot hold the dataset; 73 the output exists.
      """)

  @Argument(parsing: .allUnrecognized, help: ArgumentHelp("A dataset directory, and options of the format.", valueName: "dir"))
  var arguments: [String] = []
  @Option(
    help: ArgumentHelp(
      "The format: \(Exporters.names.joined(separator: ", ")).", valueName: "format"))
  var to: String
  @Option(name: .shortAndLong, help: ArgumentHelp("The directory to write; must not exist.", valueName: "directory"))
  var output: String
  @Flag(help: "Replace an earlier export.")
  var replace = false
  @Option(help: ArgumentHelp("Export only these episodes: ids of episodes or takes, separated by commas.", valueName: "ids"))
  var episodes: String?
  @Option(
    name: .customLong("where"),
    help: ArgumentHelp("Export only those that meet this condition, as for select.", valueName: "condition"))
  var condition: String?
  @OptionGroup var jobs: JobOptions
  @Flag(name: .shortAndLong, help: "Print problems only.")
  var quiet = false
  @Flag(help: "Print JSON.")
  var json = false

  func validate() throws {
    if let episodes, Self.ids(episodes).isEmpty { throw ValidationError("--episodes: name at least one episode or take") }
  }

  func run() throws {
    if to == "lerobot" { try becomeLeRobotExport() }
    let (directories, options) = try ExportArguments(arguments, of: to).parsed()
    let exporter = try Export.exporter(to, options: options)
    guard let directory = directories.first else {
      throw UsageError("name the directory of a dataset: takeset export dataset/ --to \(to) …")
    }
    guard directories.count == 1 else { throw UsageError("one dataset at a time; found \(directories.joined(separator: ", "))") }
    var export = Export(try dataset(at: directory), exporter, tool: TakesetCommand.tool, threads: jobs.threads)
    export.selected = try selected(from: export.dataset)
    let summary = try interruptibly { isCancelled in
      export.isCancelled = isCancelled
      return try export.write(to: output, replacing: replace)
    }
    if json {
      let report: JSONValue = [
        "format": .string(to), "files": JSONValue(summary.files), "bytes": .integer(summary.bytes),
        "lost": .array(summary.lost.map { .string($0) }),
      ]
      return standardOutput(report.canonicalText)
    }
    for sentence in summary.lost { standardError("not in the export: \(sentence)") }
    if !quiet { standardOutput("\(output): \(counted(summary.files, "file")), \(megabytes(summary.bytes))") }
  }

  /// Ids of the episodes to export; empty for all. Throws `UsageError`, or `ExportRefusal` where none meets both conditions.
  private func selected(from dataset: @autoclosure () throws -> Dataset) throws -> [String] {
    let named = episodes.map(Self.ids) ?? []
    guard let condition else { return named }
    let filter = try TakeFilter(condition)
    let dataset = try dataset()
    let found = try filter.episodes(of: dataset)
    guard !named.isEmpty else { return found }
    let chosen = try Set(dataset.episodes(named).map(\.id.text))
    let both = found.filter(chosen.contains)
    if both.isEmpty { throw ExportRefusal("no episode of --episodes matches --where; nothing was written") }
    return both
  }

  /// LeRobot's Parquet files and videos are written by the Python package, which has the libraries for them.
  private func becomeLeRobotExport() throws -> Never {
    var words = arguments + [output]
    if let number = jobs.jobs { words += ["--jobs", "\(number)"] }
    if condition != nil, arguments.first?.hasPrefix("-") ?? true { throw UsageError("--where: name the dataset before other options") }
    let ids = try selected(from: takeset_cli.dataset(at: arguments.first ?? ""))
    if !ids.isEmpty { words += ["--episodes", ids.joined(separator: ",")] }
    words += [(replace, "--replace"), (quiet, "--quiet"), (json, "--json")].filter(\.0).map(\.1)
    try PythonPackage.become(
      "takeset.lerobot.__main__", extra: "lerobot", for: "takeset export --to lerobot", arguments: words)
  }

  private static func ids(_ text: String) -> [String] {
    text.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
  }

  private static var formats: String {
    Exporters.all.map { type in
      let description = StepDescription(exporter: type)
      let options = description.signatures.map { "\n    --\($0.name.padded(to: 20)) \($0.meaning)" }
      return "  \(description.name.padded(to: 12)) \(description.summary)" + options.joined()
    }.joined(separator: "\n") + """

        lerobot      LeRobot 3.0, by the Python package: pip install 'takeset[lerobot]'
          --fps N, --task TEXT, and others: python -m takeset.lerobot --help
      """
  }
}

/// The dataset and the options of a format, among the words of a command line: which word is the value of an option depends on the format.
struct ExportArguments {
  private let words: [String]
  private let options: [String: JSONValue]

  init(_ words: [String], of format: String) {
    self.words = words
    let type = Exporters.all.first { $0.name == format }
    options = Dictionary(
      uniqueKeysWithValues: type.map { StepDescription(exporter: $0).signatures.map { ($0.name, $0.value) } } ?? [])
  }

  func parsed() throws -> (directories: [String], options: [String: JSONValue]) {
    var (directories, given): ([String], [String: JSONValue]) = ([], [:])
    var rest = words[...]
    while let word = rest.popFirst() {
      guard word.hasPrefix("--"), word != "--" else {
        directories.append(word)
        continue
      }
      let parts = word.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      let name = parts[0]
      if given[name] != nil { throw UsageError("--\(name) is given twice") }
      if parts.count == 2 {
        given[name] = value(parts[1], of: name)
      } else if case .bool = options[name] {
        given[name] = true
      } else if options[name] == nil {
        // The format reports what it does not know; a word after it may be the dataset.
        given[name] = true
      } else if let next = rest.popFirst() {
        given[name] = value(next, of: name)
      } else {
        throw UsageError("--\(name) needs a value")
      }
    }
    return (directories, given)
  }

  /// A number, true or false, null where that is the default, or text.
  private func value(_ word: String, of name: String) -> JSONValue {
    // A text may look like a number.
    if case .string = options[name] { return .string(word) }
    guard let json = try? JSONReader(Array(word.utf8)).value() else { return .string(word) }
    return switch json {
    case .integer, .number, .bool: json
    case .null where options[name] == .null: json
    default: .string(word)
    }
  }
}
