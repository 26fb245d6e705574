import ArgumentParser
import Datasets
import Foundation
import Model
import Runs
import Steps

struct PlanCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "plan", abstract: "Print the takes, HDF5 layout and sizes that a run would write; nothing is converted.",
    discussion: """
      Applies every step of the pipeline to timestamps and sizes. Decodes only the first frame of a video and the depth of a \
      bundle, whose sizes are not known otherwise.

        takeset plan sessions/ --pipeline pipeline.yaml
        takeset plan sessions/ --estimate

      With --tasks it instead writes the list of takes, one task each, that the workers of a cluster convert with \
      `takeset convert` (docs/cluster.md):

        takeset plan sessions/ --output dataset/ --tasks
      """)

  @Argument(help: ArgumentHelp("Takes, or directories to search for takes.", valueName: "input"), completion: .file())
  var inputs: [String]
  @OptionGroup var search: InputOptions
  @Option(help: ArgumentHelp("Pipeline file (YAML).", valueName: "file"), completion: .file(extensions: ["yaml", "yml", "json"]))
  var pipeline: String?
  @OptionGroup var python: PythonOptions
  @Option(help: ArgumentHelp("Public keys of devices, as for run.", valueName: "file"))
  var keys: String?
  @Flag(help: "Also read and encode a few frames, and estimate the size for each image encoding, and the time.")
  var estimate = false
  @Flag(help: "Write the list of tasks for a cluster into the output directory.")
  var tasks = false
  @Option(name: .shortAndLong, help: "With --tasks: the dataset directory; created if missing.", completion: .directory)
  var output: String?
  @Option(
    help: ArgumentHelp("With --tasks: an explicit split, as for run.", valueName: "file"),
    completion: .file(extensions: ["yaml", "yml", "json"]))
  var splitFile: String?
  @Flag(help: "With --tasks: rebuild a dataset that was written by a different pipeline.")
  var replace = false
  @Flag(help: "Print JSON.")
  var json = false
  @OptionGroup var console: OutputOptions

  func validate() throws {
    if inputs.isEmpty { throw ValidationError("give at least one input") }
    if tasks, output == nil { throw ValidationError("--tasks: give the dataset directory with --output") }
    if tasks, estimate { throw ValidationError("give either --tasks or --estimate") }
    if !tasks, output != nil || splitFile != nil || replace {
      throw ValidationError("--output, --split-file and --replace belong to --tasks; without it, nothing is written")
    }
  }

  func run() throws {
    if tasks, let output { return try withSchedulerCodes { try writeTasks(output) } }
    // Text is printed as it comes: there may be many takes.
    var lines: [String] = []
    /// The first episode of each layout.
    var layouts: [String: String] = [:]
    let plan = try Plan(
      inputs: inputs, pipeline: takeset_cli.pipeline(pipeline, python: python.python), followsLinks: search.followLinks,
      keys: deviceKeys(keys),
      estimatingFor: estimate ? Cores.available : nil,
      forEach: json
        ? nil
        : { entry in
          lines += describe(entry, &layouts)
          if lines.count < 1000 { return }
          standardOutput(lines.joined(separator: "\n"))
          lines = []
        })
    plan.notices.forEach { standardError($0) }
    standardOutput(json ? plan.json.canonicalText : (lines + describe(plan)).joined(separator: "\n"))
    if plan.failed > 0 { throw ExitCode(3) }
  }

  private func writeTasks(_ output: String) throws {
    var plan = TaskPlan(
      inputs: inputs, output: output, pipeline: try takeset_cli.pipeline(pipeline, python: python.python), tool: TakesetCommand.tool)
    (plan.keys, plan.splitFile, plan.replaces) = (try deviceKeys(keys), try explicitSplit(splitFile), replace)
    plan.followsLinks = search.followLinks
    let summary = try plan.write()
    summary.notices.forEach { standardError($0) }
    if json { return standardOutput("{\"tasks\":\(summary.tasks),\"unmatched\":\(summary.unmatched)}") }
    let others = summary.unmatched > 0 ? "; \(counted(summary.unmatched, "input")) without a take" : ""
    standardOutput("\(output): \(counted(summary.tasks, "task"))\(others)")
  }

  /// - Parameter layouts: The episodes whose arrays have been printed, by their layout.
  private func describe(_ entry: Plan.Entry, _ layouts: inout [String: String]) -> [String] {
    if let reason = entry.reason {
      let style = console.style(for: STDOUT_FILENO)
      let outcome = entry.outcome == .failed ? style.error(entry.outcome.rawValue) : style.warning(entry.outcome.rawValue)
      return ["\(entry.id): \(outcome): \(reason)"]
    }
    if console.quiet { return [] }
    let summary = "\(entry.id): \(counted(entry.frames, "frame")), \(megabytes(entry.rawBytes)) before compression"
    // Episodes differ in their numbers of rows, and numbers are stored in other ways where they are many.
    let layout = entry.datasets.map { "\($0.path) \($0.dtype) \($0.shape.dropFirst()) \($0.shape.count > 2 ? $0.filters : [])" }.joined(
      separator: "\n")
    if let first = layouts[layout] { return ["\(summary), laid out as \(first)"] }
    layouts[layout] = entry.id
    let arrays = entry.datasets.map { dataset in
      let shape = "(" + dataset.shape.map(String.init).joined(separator: ", ") + ")"
      let filters = dataset.filters.isEmpty ? "no filter" : dataset.filters.joined(separator: " + ")
      let (path, extents) = (dataset.path.padded(to: 50), shape.padded(to: 20))
      return "  \(path) \(dataset.dtype) \(extents) \(filters)"
    }
    return [summary] + arrays
  }

  private func describe(_ plan: Plan) -> [String] {
    ["\(counted(plan.count, "take")), \(counted(plan.frames, "frame")), \(megabytes(plan.rawBytes)) before compression"]
      + (plan.estimate.map { describe($0) } ?? [])
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
