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
    var files = [(path: output, text: recipe.pipeline)]
    if let step = recipe.step {
      guard URL(fileURLWithPath: output).lastPathComponent != step.name else {
        throw UsageError("--output: \(step.name) is the name of the step beside the pipeline; choose another one, such as umi.yaml")
      }
      let path = URL(fileURLWithPath: output).deletingLastPathComponent().appendingPathComponent(step.name).relativePath
      // One that is there already is the user's own, unless it is the same.
      if FileManager.default.contents(atPath: path) != Data(step.text.utf8) { files.append((path, step.text)) }
    }
    for file in files {
      switch try Directory.kind(at: file.path) {
      case nil: break
      case .file, .link:
        guard replace else { throw UsageError("\(file.path) already exists; choose another place, or overwrite it with --replace") }
      default: throw UsageError("\(file.path) already exists and is not a file; choose another place")
      }
    }
    for file in files {
      do {
        try SealedFile.write(file.path) { append in try Array(file.text.utf8).withUnsafeBytes { try append($0) } }
      } catch {
        throw OutputFailure("cannot write \(file.path): \(error)")
      }
    }
    let beside = files.dropFirst().map { ", and \($0.path) beside it" }.joined()
    standardOutput("\(output): \(recipe.title)\(beside)")
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
