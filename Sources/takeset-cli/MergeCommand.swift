import ArgumentParser
import Evidence
import Foundation
import Merging
import Model
import Reports
import Steps

struct MergeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "merge", abstract: "Make one dataset of several.",
    discussion: """
        takeset merge monday/ tuesday/ --output week/
        ls -d days/*/ | takeset merge --from - --output year/

      Shards are copied as they are, so every row, digest and record of provenance is kept; the manifest names the sources. All \
      datasets must have been made by the same pipeline. An episode that several have counts once, if it is the same in all. Takes stay in \
      their part of the split.

      Exit codes: 65 the datasets do not fit together, or a shard is damaged; 73 the output exists.
      """)

  @Argument(help: "Dataset directories.", completion: .directory)
  var datasets: [String] = []
  @Option(
    help: ArgumentHelp(
      "Also merge the datasets that this file names, one on each line; - for standard input.", valueName: "file"), completion: .file())
  var from: String?
  @OptionGroup var output: MergeOptions

  func validate() throws {
    if from == nil, datasets.count < 2 { throw ValidationError("name at least two datasets, or use takeset select for a part of one") }
  }

  func run() throws {
    let all = try datasets + listed()
    // A script's list may well be of one.
    if all.isEmpty { throw ValidationError("--from \(from ?? ""): it names no dataset") }
    // The manifest of each stays open.
    var limit = rlimit()
    if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
      limit.rlim_cur = limit.rlim_max
      setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
    try output.reporting {
      var merge = DatasetMerge(
        try all.map { path in
          do { return try dataset(at: path) } catch { throw UnusableSource(path, error) }
        }, tool: TakesetCommand.tool)
      return try output.write(&merge)
    }
  }

  /// The datasets that the file of `--from` names; empty lines are skipped.
  private func listed() throws -> [String] {
    guard let from else { return [] }
    let data = try? from == "-" ? FileHandle.standardInput.readToEnd() ?? Data() : Data(contentsOf: URL(fileURLWithPath: from))
    guard let data, let text = String(data: data, encoding: .utf8) else { throw ValidationError("--from \(from): cannot be read as text") }
    return text.split(whereSeparator: \.isNewline).map(String.init)
  }
}

struct SelectCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "select", abstract: "Make a dataset of some of another one's episodes.",
    discussion: """
        takeset select dataset/ --where 'outcome = written and frames >= 100' --output long/
        takeset select dataset/ --where 'not findings has pose-jump and streams has joints' --output clean/
        takeset select dataset/ --episodes take-1,take-2.0 --output two/

      A condition compares fields: id, take, reader, variant, outcome and split with = and != and, by shell patterns, with ~; part, \
      frames, seconds and warnings with = != < <= > >=; findings and streams with has. Combine comparisons with and, or, not \
      and parentheses.

      Shards are copied as they are, so every row, digest and record of provenance is kept; the manifest names the source. Takes stay in \
      their part of the split.

      Exit codes: 65 no episode matches, or a shard is damaged; 73 the output exists.
      """)

  @Argument(help: "A dataset directory.", completion: .directory)
  var directory: String
  @Option(name: .customLong("where"), help: ArgumentHelp("Take only those that meet this condition.", valueName: "condition"))
  var condition: String?
  @Option(help: ArgumentHelp("Take only these: ids of episodes or takes, separated by commas.", valueName: "ids"))
  var episodes: String?
  @OptionGroup var output: MergeOptions

  func validate() throws {
    if condition == nil, episodes == nil { throw ValidationError("give --where or --episodes; takeset select --help shows conditions") }
    // As where a script's variable is empty: no id would mean every episode.
    if episodes != nil, ids.isEmpty { throw ValidationError("--episodes: name at least one episode or take") }
  }

  private var ids: [String] {
    (episodes ?? "").split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
  }

  func run() throws {
    try output.reporting {
      var merge = DatasetMerge([try dataset(at: directory)], tool: TakesetCommand.tool)
      merge.filter = try condition.map { try TakeFilter($0) }
      merge.selected = ids
      return try output.write(&merge)
    }
  }
}

/// The options that `merge` and `select` have in common.
struct MergeOptions: ParsableArguments {
  @Option(name: .shortAndLong, help: ArgumentHelp("The dataset directory to write; must not exist.", valueName: "directory"))
  var output: String
  @Flag(help: "Replace an earlier dataset.")
  var replace = false
  @Flag(help: "Link shards instead of copying them: no space is used, but a program that changes one changes both.")
  var link = false
  @Flag(help: "Split the takes anew by the pipeline's rule.")
  var resplit = false
  @Option(help: ArgumentHelp("Split the takes by a file of ids by part.", valueName: "file"), completion: .file())
  var splitFile: String?
  @Option(
    help: ArgumentHelp(
      "Keep each take in the part that it has in this dataset, and split the others by the pipeline's rule.", valueName: "dir"),
    completion: .directory)
  var splitLike: String?
  @Flag(help: "Print JSON: what was written, or which dataset cannot be used, and why.")
  var json = false
  @Flag(name: .shortAndLong, help: "Print problems only.")
  var quiet = false

  func validate() throws {
    let given = [(resplit, "--resplit"), (splitFile != nil, "--split-file"), (splitLike != nil, "--split-like")].filter(\.0).map(\.1)
    if given.count > 1 { throw ValidationError("give only one of \(given.joined(separator: " and "))") }
  }

  func write(_ merge: inout DatasetMerge) throws -> DatasetMerge.Summary {
    (merge.links, merge.splitsAnew, merge.commandLine) = (link, resplit, CommandLine.arguments)
    merge.splitFile = try explicitSplit(splitFile)
    if let splitLike {
      do { merge.splitsLike = try dataset(at: splitLike) } catch { throw UnusableSource(splitLike, error) }
    }
    (merge.externalChecks, merge.threads) = (CheckProcess.checks, Cores.available)
    return try interruptibly { isCancelled in
      merge.isCancelled = isCancelled
      return try merge.write(to: output, replacing: replace)
    }
  }

  /// Says what became of a merge.
  func reporting(_ write: () throws -> DatasetMerge.Summary) throws {
    let summary: DatasetMerge.Summary
    do {
      summary = try write()
    } catch let error as UnusableSource {
      if json {
        let unusable: JSONValue = ["dataset": .string(error.directory), "reason": .string(error.description)]
        standardOutput(JSONValue.object(["unusable": .array([unusable])]).canonicalText)
      }
      throw error
    }
    for finding in summary.findings { standardError("\(finding.severity.rawValue): \(finding.message)") }
    if json { return standardOutput(summary.json(output: output).canonicalText) }
    if quiet { return }
    if !summary.duplicates.isEmpty {
      standardError("\(counted(summary.duplicates.count, "episode")) that several datasets have count once: \(summary.duplicates.abridged)")
    }
    let others = summary.others > 0 ? ", and the records of \(counted(summary.others, "take")) without an episode" : ""
    standardOutput("\(output): \(counted(summary.episodes, "episode")), \(counted(summary.rows, "frame"))\(others)")
  }
}

extension DatasetMerge.Summary {
  fileprivate func json(output: String) -> JSONValue {
    [
      "output": .string(output), "episodes": JSONValue(episodes), "frames": JSONValue(rows), "without_episode": JSONValue(others),
      "duplicates": .array(duplicates.map { .string($0) }), "findings": .array(findings.map(\.json)),
    ]
  }
}
