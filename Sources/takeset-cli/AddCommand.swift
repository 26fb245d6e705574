import ArgumentParser
import Evidence
import Foundation
import Merging
import Model
import Steps

struct AddCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "add", abstract: "Add a stream to a dataset, from values that were computed outside.",
    discussion: """
      One value for each row of an episode: from a .npz file of NumPy with an array for each episode, (rows) or (rows, numbers), named by the \
      episode's id; or from a .csv file with a line for each row, and a column episode. NaN stands for an absent number. A file for one \
      episode need not name it.

        takeset add dataset/ --stream gripper_width=width.npz --unit m
        takeset add dataset/ --stream force=force.csv --unit N --episode session_X

      The takes may be gone. Shards are written again with the stream under obs, its mask and its statistics; all that was in them keeps \
      its bytes. After a kill the same command goes on. A later run of the same takes refuses, unless --replace gives up what was added.

      Exit codes: 64 the dataset has no such episode, or such a stream already; 65 the values do not fit, or a shard is damaged.
      """)

  @Argument(help: "A dataset directory.", completion: .directory)
  var directory: String
  @Option(help: ArgumentHelp("The stream's name, and the file with its values.", valueName: "name=file"))
  var stream: String
  @Option(help: ArgumentHelp("The unit of the values, such as m; none by default.", valueName: "unit"))
  var unit = ""
  @Option(help: ArgumentHelp("Add it to this episode only.", valueName: "id"))
  var episode: String?
  @Flag(help: "Give up other values that were added under this name, and what another program has put in its place.")
  var replace = false
  @Flag(help: "Print JSON: what was added.")
  var json = false
  @Flag(name: .shortAndLong, help: "Print problems only.")
  var quiet = false

  func run() throws {
    try checkIsFolder(directory)
    let parts = stream.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    guard parts.count == 2, !parts[1].isEmpty else {
      throw UsageError("--stream: expected NAME=FILE, such as gripper_width=width.npz, found \(stream.onOneLine)")
    }
    let (name, file) = (parts[0], parts[1])
    guard unit.onOneLine == unit, unit.utf8.count <= 64 else { throw UsageError("--unit: expected a short word, such as m") }
    let summary = try interruptibly(orSay: "the same command goes on") { isCancelled in
      var addition = StreamAddition(to: directory, stream: StreamName(name), from: file, tool: TakesetCommand.tool)
      (addition.unit, addition.episode, addition.replaces) = (unit, episode, replace)
      (addition.commandLine, addition.checks, addition.threads) = (CommandLine.arguments, CheckProcess.checks, Cores.available)
      return try addition.execute(isCancelled: isCancelled)
    }
    for finding in summary.findings { standardError("\(finding.severity.rawValue): \(finding.message)") }
    if json { return standardOutput(JSONValue.object(summary.json(name, directory)).canonicalText) }
    if quiet { return }
    if !summary.others.isEmpty {
      let have = summary.others.count == 1 ? "has" : "have"
      standardError("\(counted(summary.others.count, "episode")) of the dataset \(have) no values: \(summary.others.abridged)")
    }
    if summary.isUpToDate {
      return standardOutput("\(directory): \(counted(summary.episodes, "episode")) had \(name) with these values already; nothing to do")
    }
    let empty = summary.empty == 0 ? "" : ", \(summary.empty) without a value"
    standardOutput(
      "\(directory): \(name) (\(counted(summary.elements.count, "number")) a row\(unit.isEmpty ? "" : ", \(unit)")) added to \(counted(summary.episodes, "episode")), \(counted(summary.rows, "row"))\(empty)"
    )
  }
}

extension StreamAddition.Summary {
  fileprivate func json(_ name: String, _ directory: String) -> [String: JSONValue] {
    [
      "dataset": .string(directory), "stream": .string(name), "elements": .array(elements.map { .string($0) }),
      "episodes": JSONValue(episodes), "unchanged": JSONValue(unchanged), "rows": JSONValue(rows), "rows_without_value": JSONValue(empty),
      "without_stream": .array(others.map { .string($0) }), "findings": .array(findings.map(\.json)),
    ]
  }
}
