import ArgumentParser
import Model
import Takeset

struct StepsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "steps", abstract: "List every reader, transform and writer with its options and defaults.",
    discussion: """
        takeset steps
        takeset steps resize-image
        takeset steps --json
      """)

  @Argument(help: "Only this one.")
  var name: String?
  @Flag(help: "Print JSON.")
  var json = false

  func run() throws {
    let all = StepDescription.all
    let chosen = all.filter { name == nil || $0.name == name }
    if let name, chosen.isEmpty {
      throw UsageError("there is no step \"\(name)\"; there is \(all.map(\.name).joined(separator: ", "))")
    }
    if json {
      standardOutput(JSONValue.array(chosen.map(\.json)).canonicalText)
    } else {
      standardOutput(chosen.map(\.text).joined(separator: "\n\n"))
    }
  }
}
