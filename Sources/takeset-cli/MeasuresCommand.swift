import ArgumentParser
import Datasets
import Evidence
import Foundation
import Loaders
import Model
import Steps

struct MeasuresCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "measures", abstract: "List the measures of a dataset's episodes: motion, sharpness, what is missing.",
    discussion: """
      Numbers without a verdict, which a run records for each episode; docs/measures.md defines them. Those of a single file, such as a packed \
      one or an HDF5 file of robomimic's layout that another program wrote, are computed from it. The table leaves out what no episode has. \
      Episodes are chosen by them with select.

        takeset measures dataset/
        takeset measures dataset/ --csv > measures.csv
        takeset measures low_dim.hdf5
        takeset select dataset/ --where 'measures.sharpness_p10 > 40' --output sharp/
      """)

  @Argument(help: "A dataset directory, or an HDF5 file in robomimic's layout.", completion: .file())
  var path: String
  @Flag(help: "Print JSON.")
  var json = false
  @Flag(help: "Print a table with a column for every measure, separated by commas.")
  var csv = false
  @OptionGroup var jobs: JobOptions

  func validate() throws {
    if json, csv { throw ValidationError("--json and --csv exclude each other") }
  }

  func run() throws {
    let isFolder = try Directory.kind(at: path, followingLinks: true) == .directory
    let found =
      try isFolder
      ? StoredMeasures.all(of: Dataset(directory: path), checks: CheckProcess.checks, threads: jobs.threads)
      : StoredMeasures.all(in: path, threads: jobs.threads)
    print(found.map { ($0.id, $0.measures) })
    for episode in found { if let failure = episode.failure { standardError("error: \(episode.id): \(failure)") } }
    if found.contains(where: { $0.failure != nil }) { throw ExitCode(65) }
  }

  private func print(_ episodes: [(String, Measures?)]) {
    if json {
      return standardOutput(
        JSONValue.object(Dictionary(episodes.map { ($0, ($1 ?? Measures()).json) }) { first, _ in first }).canonicalText)
    }
    let names = Measures.Name.allCases.filter { name in csv || episodes.contains { $0.1?[name] != nil } }
    let lines =
      [["episode"] + names.map(\.rawValue)]
      + episodes.map { id, measures in [id] + names.map { measures?[$0].map { JSONValue.number($0).canonicalText } ?? "" } }
    // A file has the ids as they are; a terminal would obey what is in them.
    let isFile = csv && isatty(STDOUT_FILENO) == 0
    for line in csv ? lines.map({ $0.map(commaSeparated).joined(separator: ",") }) : columned(lines) { standardOutput(line, asIs: isFile) }
  }
}
