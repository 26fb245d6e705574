import ArgumentParser
import Model
import Takeset

struct PackCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "pack", abstract: "Pack a dataset directory into one self-contained HDF5 file.",
    discussion: """
      The file holds all episodes, masks and statistics, for sharing; stored chunks are copied unchanged.

        takeset pack dataset/ --output dataset-2026-01.h5
      """)

  @Argument(help: "A dataset directory.", completion: .directory)
  var directory: String
  @Option(name: .shortAndLong, help: "The file to write; must not exist.")
  var output: String

  func run() throws {
    if try Directory.kind(at: directory, followingLinks: true) == nil { throw NoInputs(path: directory) }
    let packed = try Pack.pack(directory: directory, output: output)
    standardOutput("\(output): \(packed.episodes) episode\(packed.episodes == 1 ? "" : "s"), sha256 \(packed.digest)")
  }
}
