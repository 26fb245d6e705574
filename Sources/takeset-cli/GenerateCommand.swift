import ArgumentParser
import Takeset

/// `make generate`: for people who work on Takeset.
struct GenerateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "generate-documents", abstract: "Rewrite the documents that are made from code.", shouldDisplay: false)

  @Argument(help: "The repository.")
  var root: String

  func run() throws {
    for document in GeneratedDocument.all where try document.write(below: root) { standardOutput("wrote \(document.path)") }
  }
}
