import ArgumentParser
import Documents
import Foundation
import Model
import Reports
import Steps

struct InitCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "init", abstract: "Print a commented pipeline file for a use of the data.",
    discussion: """
        takeset init --for diffusion-policy > pipeline.yaml
        takeset init --for act --output act.yaml
        takeset run sessions/ --output dataset/ --pipeline act.yaml

      Uses: \(Recipe.allCases.map(\.rawValue).joined(separator: ", ")).
      """)

  @Option(
    name: .customLong("for"), help: ArgumentHelp("What the data is for: \(Recipe.names).", valueName: "use"),
    completion: .list(Recipe.allCases.map(\.rawValue)))
  var use: String?
  @Option(
    name: .shortAndLong, help: ArgumentHelp("Write to this file instead of stdout.", valueName: "file"),
    completion: .file(extensions: ["yaml", "yml"]))
  var output: String?
  @Flag(help: "Overwrite an existing file.")
  var replace = false

  func validate() throws {
    if replace, output == nil { throw ValidationError("--replace: needs --output") }
  }

  func run() throws {
    let recipe = try recipe()
    guard let output else { return standardOutput(String(recipe.pipeline.dropLast())) }
    switch try Directory.kind(at: output) {
    case nil: break
    case .file, .link:
      guard replace else { throw UsageError("\(output) already exists; choose another name, or overwrite it with --replace") }
    default: throw UsageError("\(output) already exists and is not a file; choose another name")
    }
    do {
      try SealedFile.write(output) { append in try Array(recipe.pipeline.utf8).withUnsafeBytes { try append($0) } }
    } catch {
      throw OutputFailure("cannot write \(output): \(error)")
    }
    standardOutput("\(output): \(recipe.title)")
  }

  private func recipe() throws -> Recipe {
    guard let use else {
      let width = Recipe.allCases.map(\.rawValue.count).max() ?? 0
      let uses = Recipe.allCases.map { "\n  \($0.rawValue.padding(toLength: width, withPad: " ", startingAt: 0))  \($0.title)" }
      throw UsageError("say what the data is for, with --for:" + uses.joined())
    }
    if let recipe = Recipe(rawValue: use) { return recipe }
    let meant = Spelling.hint(for: use, among: Recipe.allCases.map(\.rawValue))
    throw UsageError("there is no recipe for \"\(use)\"; expected one of \(Recipe.names)\(meant)")
  }
}

extension Recipe {
  fileprivate static var names: String { allCases.map(\.rawValue).joined(separator: ", ") }
}
