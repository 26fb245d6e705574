import ArgumentParser
import Documents
import Evidence
import Model
import Reports
import Steps

struct StepsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "steps", abstract: "List every reader, transform and writer with its options and defaults.",
    discussion: """
        takeset steps
        takeset steps resize-image
        takeset steps --json
        takeset steps --schema > pipeline.schema.json
      """)

  @Argument(help: "Only this step.", completion: .list(StepDescription.all.map(\.name)))
  var name: String?
  @Flag(help: "Print JSON.")
  var json = false
  @Flag(help: "Print the JSON Schema of pipeline files.")
  var schema = false

  func run() throws {
    if schema { return standardOutput(PipelineSchema.json.canonicalText) }
    let all = StepDescription.all
    let chosen = all.filter { name == nil || $0.name == name }
    if let name, chosen.isEmpty {
      let meant = Spelling.hint(for: name, among: all.map(\.name))
      throw UsageError("there is no step \"\(name)\"; expected one of \(all.map(\.name).joined(separator: ", "))\(meant)")
    }
    if json {
      standardOutput(JSONValue.array(chosen.map(\.json)).canonicalText)
    } else {
      standardOutput(chosen.map(\.text).joined(separator: "\n\n"))
    }
  }
}
