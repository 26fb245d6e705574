import ArgumentParser
import Foundation
import Model
import Reports
import Steps

struct PreviewCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "preview", abstract: "Write small images and trajectories of a dataset's episodes, for pages that show them.",
    discussion: """
      The directory gets JPEG files of images and depth maps over time and preview.json, which says what is in them \
      (docs/preview.md). The pages of the capture server are made of it.

        takeset preview dataset/ --output preview/
        takeset preview dataset/ --output preview/ --images 24 --first 10
      """)

  @Argument(help: "A dataset directory.", completion: .directory)
  var directory: String
  @Option(name: .shortAndLong, help: "The directory to write; must not exist.", completion: .directory)
  var output: String
  @Option(help: ArgumentHelp("Images of an episode, and as many depth maps, 1 to 600.", valueName: "n"))
  var images = 120
  @Option(help: ArgumentHelp("Only the first episodes, in the order of the index.", valueName: "n"))
  var first: Int?
  @OptionGroup var console: OutputOptions

  func validate() throws {
    if !(1...600).contains(images) { throw ValidationError("--images: expected 1 to 600, found \(images)") }
    if let first, first < 1 { throw ValidationError("--first: expected at least 1, found \(first)") }
  }

  func run() throws {
    try checkIsFolder(directory)
    let summary = try DatasetPreview(directory, count: images, checks: CheckProcess.checks).write(to: output, most: first ?? .max)
    for problem in summary.problems { standardError("\(problem.id): \(problem.reason)") }
    if !console.quiet { standardOutput("\(output): \(counted(summary.episodes, "episode"))") }
    if summary.episodes == 0, !summary.problems.isEmpty { throw ExitCode(1) }
  }
}
