import ArgumentParser
import Documents
import Foundation
import Reports

/// The command of `make generate`, for developers of Takeset.
struct GenerateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "generate-documents", abstract: "Rewrite the documents that are generated from code.", shouldDisplay: false)

  @Argument(help: "The root of the repository.")
  var root: String

  func run() throws {
    let manual = URL(fileURLWithPath: root).appendingPathComponent("docs/takeset.1")
    let text = try ManualPage.text()
    if (try? String(contentsOf: manual, encoding: .utf8)) != text {
      try Data(text.utf8).write(to: manual)
      standardOutput("wrote docs/takeset.1")
    }
    for document in GeneratedDocument.all where try document.write(below: root) { standardOutput("wrote \(document.path)") }
  }
}
