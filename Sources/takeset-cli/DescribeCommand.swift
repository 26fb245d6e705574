import ArgumentParser
import Foundation
import Provenance
import Reports
import Steps

struct DescribeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "describe", abstract: "Describe a dataset for others: Croissant metadata and a dataset card.",
    discussion: """
      Writes croissant.json (Croissant 1.1) and README.md, and with --ro-crate ro-crate-metadata.json (Process Run Crate), \
      beside manifest.json. The same dataset and options give the same bytes. What only you know is for you to give: license, \
      creator, URL; they are asked for in the output.

        takeset describe dataset/ --license CC-BY-4.0 --name "Pouring water" --creator "A. Researcher"
        takeset describe dataset/ --ro-crate

      Files that somebody else wrote or edited are left alone (exit code 73) unless --replace is given.
      """)

  @Argument(help: "A dataset directory.", completion: .directory)
  var directory: String
  @Option(help: ArgumentHelp("The license: an SPDX identifier, such as CC-BY-4.0, or a URL.", valueName: "spdx"))
  var license: String?
  @Option(help: ArgumentHelp("The dataset's name; by default that of its directory.", valueName: "text"))
  var name: String?
  @Option(help: ArgumentHelp("Who made the dataset; may be given several times.", valueName: "person"))
  var creator: [String] = []
  @Option(help: ArgumentHelp("Where the dataset is or will be published.", valueName: "url"))
  var url: String?
  @Option(help: ArgumentHelp("The day of publication, as 2026-01-31; by default that of the last run.", valueName: "date"))
  var date: String?
  @Flag(help: "Also write ro-crate-metadata.json.")
  var roCrate = false
  @Option(
    name: .shortAndLong, help: ArgumentHelp("Where to write the files, in place of the dataset's directory.", valueName: "dir"),
    completion: .directory)
  var output: String?
  @Flag(help: "Overwrite files that somebody else wrote or edited.")
  var replace = false
  @OptionGroup var jobs: JobOptions
  @OptionGroup var console: OutputOptions

  func run() throws {
    try checkIsFolder(directory)
    var options = DatasetDescription.Options()
    (options.name, options.license, options.creators) = (name, license, creator)
    (options.url, options.date, options.hasCrate, options.replaces) = (url, date, roCrate, replace)
    let description = try DatasetDescription(directory, options: options, threads: jobs.threads, checks: CheckProcess.checks)
    let summary = try description.write(to: output ?? directory)
    guard !console.quiet else { return }
    standardOutput("\(summary.directory): \(summary.files.joined(separator: ", ")) written")
    if !summary.missing.isEmpty { standardOutput("left for you to give: \(summary.missing.joined(separator: ", "))") }
  }
}
