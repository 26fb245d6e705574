import ArgumentParser
import Foundation
import Model
import Takeset

struct PlanCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "plan", abstract: "Print the HDF5 layout, sizes and takes a run would produce; nothing is converted.",
    discussion: """
      Applies every step of the pipeline to timestamps and sizes. Of a movie the first picture is decoded, and the depth of a \
      bundle is inflated once, as their sizes are known in no other way.

        takeset plan sessions/ --pipeline pipeline.yaml
      """)

  @Argument(help: ArgumentHelp("Takes, or directories to search for takes.", valueName: "input"))
  var inputs: [String]
  @Option(help: ArgumentHelp("Pipeline file (YAML).", valueName: "file"))
  var pipeline: String?
  @Option(help: ArgumentHelp("Public keys of devices, as for run.", valueName: "file"))
  var keys: String?
  @Flag(help: "Print JSON.")
  var json = false

  func run() throws {
    let plan = try Plan(inputs: inputs, pipeline: takeset_cli.pipeline(pipeline), keys: deviceKeys(keys))
    plan.notices.forEach { standardError($0) }
    standardOutput(json ? plan.json.canonicalText : describe(plan))
    if plan.failed > 0 { throw ExitCode(3) }
  }

  private func describe(_ plan: Plan) -> String {
    var lines: [String] = []
    for entry in plan.entries {
      if let reason = entry.reason {
        lines.append("\(entry.id): \(entry.outcome.rawValue): \(reason)")
        continue
      }
      lines.append("\(entry.id): \(entry.frames) frames, \(megabytes(entry.rawBytes)) before compression")
      for dataset in entry.datasets {
        let shape = "(" + dataset.shape.map(String.init).joined(separator: ", ") + ")"
        let filters = dataset.filters.isEmpty ? "no filter" : dataset.filters.joined(separator: " + ")
        let (path, extents) = (padded(dataset.path, 50), padded(shape, 20))
        lines.append("  \(path) \(dataset.dtype) \(extents) \(filters)")
      }
    }
    lines.append("\(plan.entries.count) takes, \(plan.frames) frames, \(megabytes(plan.rawBytes)) before compression")
    return lines.joined(separator: "\n")
  }

  private func padded(_ text: String, _ width: Int) -> String {
    text.padding(toLength: max(width, text.count), withPad: " ", startingAt: 0)
  }

  private func megabytes(_ bytes: Int) -> String { String(format: "%.1f MB", Double(bytes) / 1e6) }
}
