import ArgumentParser
import Documents
import Foundation
import Model
import Reports
import Runs
import Steps

struct InitCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "init", abstract: "Print a commented pipeline file for a use of the data, or the draft of a folder's description.",
    discussion: """
        takeset init --for diffusion-policy > pipeline.yaml
        takeset init --for act --output act.yaml
        takeset run sessions/ --output dataset/ --pipeline act.yaml
        takeset init --for folder realsense-1/ --output realsense-1/takeset.yaml

      Uses: \(Recipe.uses.joined(separator: ", ")).
      """)

  @Option(
    name: .customLong("for"), help: ArgumentHelp("What the data is for: \(Recipe.uses.joined(separator: ", ")).", valueName: "use"),
    completion: .list(Recipe.uses))
  var use: String?
  @Argument(
    help: ArgumentHelp(
      "With --for folder: a folder of images or a video, of which a takeset.yaml is drafted by looking at it.", valueName: "path"),
    completion: .directory)
  var folder: String?
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
    if use == Recipe.folder {
      guard let folder else { throw UsageError("--for folder: name the folder, such as takeset init --for folder realsense-1/") }
      return try write(Registry.draft(of: folder), "a draft of the description of \(folder)")
    }
    if let folder { throw UsageError("\(folder): only --for folder looks at a folder") }
    let recipe = try recipe()
    try write(recipe.pipeline, recipe.title, step: recipe.step)
  }

  /// Writes a text, and the step that it needs beside it, or prints the text.
  private func write(_ text: String, _ title: String, step: (name: String, text: String)? = nil) throws {
    guard let output else { return standardOutput(String(text.dropLast())) }
    var files = [(path: output, text: text)]
    if let step {
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
    standardOutput("\(output): \(title)\(beside)")
  }

  private func recipe() throws -> Recipe {
    guard let use else {
      let width = Recipe.allCases.map(\.rawValue.count).max() ?? 0
      let uses =
        Recipe.allCases.map { "\n  \($0.rawValue.padding(toLength: width, withPad: " ", startingAt: 0))  \($0.title)" }
        + [
          "\n  \(Recipe.folder.padding(toLength: width, withPad: " ", startingAt: 0))  a folder of your own: the draft of its description"
        ]
      throw UsageError("say what the data is for, with --for:" + uses.joined())
    }
    if let recipe = Recipe(rawValue: use) { return recipe }
    let meant = Spelling.hint(for: use, among: Recipe.uses)
    throw UsageError("there is no recipe for \"\(use)\"; expected one of \(Recipe.uses.joined(separator: ", "))\(meant)")
  }
}

extension Recipe {
  /// The use that is no recipe: a description is drafted of a folder.
  fileprivate static let folder = "folder"
  fileprivate static var uses: [String] { allCases.map(\.rawValue) + [folder] }
}
