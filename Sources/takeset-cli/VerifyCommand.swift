import ArgumentParser
import Foundation
import Takeset

struct VerifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "verify", abstract: "Compare a dataset with the digests it was written with.",
    discussion: """
      Names every file and dataset that differs, and exits with 2 when one does. A file to which another program has \
      added something still passes, as long as what Takeset wrote is unchanged.

        takeset verify dataset/
        takeset verify dataset/ --inputs
        takeset verify packed.h5
      """)

  @Argument(help: "A dataset directory, or one HDF5 file made by Takeset.")
  var path: String
  @Flag(help: "Digest the inputs again too, where the last run found them.")
  var inputs = false
  @Flag(help: "Print JSON.")
  var json = false

  func run() throws {
    let verification: Verification
    switch Directory.existingKind(of: path, followingLinks: true) {
    case nil: throw UsageError("there is no such file or directory: \(path)")
    case .directory: verification = try Verification(directory: path, inputs: inputs)
    default:
      do {
        verification = try Verification(file: path)
      } catch let error where !(error is UsageError) {
        standardOutput("\(path): cannot be opened: \(error)")
        throw ExitCode(2)
      }
    }
    if json {
      standardOutput(verification.json.canonicalText)
    } else {
      for note in verification.notes { standardOutput("note: \(note)") }
      for difference in verification.differences { standardOutput("\(difference.path): \(difference.message)") }
      let size = String(format: "%.1f MB", Double(verification.bytes) / 1e6)
      standardOutput(
        "\(path): \(verification.isSound ? "sound" : "\(verification.differences.count) differences"); \(verification.files) files, \(verification.datasets) datasets, \(size) read"
      )
    }
    if !verification.isSound { throw ExitCode(2) }
  }
}
