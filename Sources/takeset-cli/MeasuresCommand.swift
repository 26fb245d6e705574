import ArgumentParser
import Datasets
import Evidence
import Foundation
import Model

struct MeasuresCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "measures", abstract: "List the measures of a dataset's episodes: motion, sharpness, what is missing.",
    discussion: """
      Numbers without a verdict, which a run records for each episode; docs/measures.md defines them. The table leaves out what no episode \
      has. Episodes are chosen by them with select.

        takeset measures dataset/
        takeset measures dataset/ --csv > measures.csv
        takeset select dataset/ --where 'measures.sharpness_p10 > 40' --output sharp/
      """)

  @Argument(help: "A dataset directory.", completion: .directory)
  var directory: String
  @Flag(help: "Print JSON.")
  var json = false
  @Flag(help: "Print a table with a column for every measure, separated by commas.")
  var csv = false

  func validate() throws {
    if json, csv { throw ValidationError("--json and --csv exclude each other") }
  }

  func run() throws {
    try checkIsFolder(directory)
    let dataset = try Dataset(directory: directory)
    let episodes = try dataset.written.map { ($0.id.text, try dataset.record(of: $0).measures) }
    let unmeasured = episodes.count { $0.1 == nil }
    if unmeasured > 0 {
      standardError(
        "note: \(counted(unmeasured, "episode")) of \(episodes.count) have no measures, as an earlier version of takeset wrote them; takeset run --replace converts them again"
      )
    }
    if json {
      return standardOutput(
        JSONValue.object(Dictionary(episodes.map { ($0, ($1 ?? Measures()).json) }) { first, _ in first }).canonicalText)
    }
    let names = Measures.Name.allCases.filter { name in csv || episodes.contains { $0.1?[name] != nil } }
    let lines =
      [["episode"] + names.map(\.rawValue)]
      + episodes.map { id, measures in [id] + names.map { measures?[$0].map { JSONValue.number($0).canonicalText } ?? "" } }
    for line in csv ? lines.map({ $0.map(commaSeparated).joined(separator: ",") }) : columned(lines) { standardOutput(line) }
  }
}
