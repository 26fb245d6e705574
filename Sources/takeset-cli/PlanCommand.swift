import ArgumentParser
import Foundation
import Model
import Takeset

struct PlanCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "plan", abstract: "Print the takes, HDF5 layout and sizes that a run would write; nothing is converted.",
    discussion: """
      Applies every step of the pipeline to timestamps and sizes. Decodes only the first frame of a video and the depth of a \
      bundle, whose sizes are not known otherwise.

        takeset plan sessions/ --pipeline pipeline.yaml
        takeset plan sessions/ --estimate
      """)

  @Argument(help: ArgumentHelp("Takes, or directories to search for takes.", valueName: "input"), completion: .file())
  var inputs: [String]
  @Option(help: ArgumentHelp("Pipeline file (YAML).", valueName: "file"), completion: .file(extensions: ["yaml", "yml", "json"]))
  var pipeline: String?
  @Option(help: ArgumentHelp("Public keys of devices, as for run.", valueName: "file"))
  var keys: String?
  @Flag(help: "Also read and encode a few frames, and estimate the size for each image encoding, and the time.")
  var estimate = false
  @Flag(help: "Print JSON.")
  var json = false
  @OptionGroup var console: OutputOptions

  func run() throws {
    let plan = try Plan(
      inputs: inputs, pipeline: takeset_cli.pipeline(pipeline), keys: deviceKeys(keys), estimatingFor: estimate ? Cores.available : nil)
    plan.notices.forEach { standardError($0) }
    standardOutput(json ? plan.json.canonicalText : describe(plan))
    if plan.failed > 0 { throw ExitCode(3) }
  }

  private func describe(_ plan: Plan) -> String {
    var lines: [String] = []
    for entry in plan.entries {
      if let reason = entry.reason {
        let style = console.style(for: STDOUT_FILENO)
        let outcome = entry.outcome == .failed ? style.error(entry.outcome.rawValue) : style.warning(entry.outcome.rawValue)
        lines.append("\(entry.id): \(outcome): \(reason)")
        continue
      }
      if console.quiet { continue }
      lines.append("\(entry.id): \(entry.frames) frame\(entry.frames == 1 ? "" : "s"), \(megabytes(entry.rawBytes)) before compression")
      for dataset in entry.datasets {
        let shape = "(" + dataset.shape.map(String.init).joined(separator: ", ") + ")"
        let filters = dataset.filters.isEmpty ? "no filter" : dataset.filters.joined(separator: " + ")
        let (path, extents) = (dataset.path.padded(to: 50), shape.padded(to: 20))
        lines.append("  \(path) \(dataset.dtype) \(extents) \(filters)")
      }
    }
    lines.append("\(counted(plan.entries.count, "take")), \(counted(plan.frames, "frame")), \(megabytes(plan.rawBytes)) before compression")
    if let estimate = plan.estimate { lines += describe(estimate) }
    return lines.joined(separator: "\n")
  }

  private func describe(_ estimate: Estimate) -> [String] {
    let minutes = estimate.seconds / 60
    let time = minutes < 1 ? "less than a minute" : String(format: "%.0f minutes", minutes.rounded(.up))
    var lines = ["estimate from \(estimate.rows) images and depth maps:"]
    for choice in estimate.choices { lines.append("  image: \(choice.image.rawValue.padded(to: 5)) \(megabytes(Int(choice.bytes)))") }
    return lines + ["  as configured: \(megabytes(Int(estimate.bytes))), \(time)"]
  }

  private func megabytes(_ bytes: Int) -> String { String(format: "%.1f MB", Double(bytes) / 1e6) }
}
