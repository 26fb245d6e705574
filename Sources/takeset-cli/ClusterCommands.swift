import ArgumentParser
import Foundation
import Model
import Runs
import Steps

// Commands for workers that share nothing but a directory; see docs/cluster.md.

struct ConvertCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "convert", abstract: "Convert tasks that `plan --tasks` has listed; for the workers of a cluster.",
    discussion: """
      A worker converts one task, or several in a row, and leaves shards and results in the directory. Workers need no \
      lock, and any number may convert the same task: it is done once.

        takeset plan sessions/ --output dataset/ --tasks
        takeset convert dataset/ --task 0 --count 100
        takeset publish dataset/

      Exit codes, for retry rules: 0 done; 65 a take is bad, which its result says, or another program added to its shard: \
      never retry; 66 inputs are gone; 73, 74 the output cannot be created, or written; 75 try again; 64, 78 a mistake in the command, or another \
      version: stop the whole job; 70 a fault of Takeset.
      """)

  @Argument(help: "The directory of plan --tasks.", completion: .directory)
  var directory: String
  @Option(
    help: ArgumentHelp(
      "The number of the first task, from 0. Without it, SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX or AWS_BATCH_JOB_ARRAY_INDEX, times --count.",
      valueName: "n"))
  var task: Int?
  @Option(help: ArgumentHelp("Number of tasks to convert; those beyond the last do not count.", valueName: "k"))
  var count = 1
  @OptionGroup var jobs: JobOptions
  @OptionGroup var isolation: IsolationOptions
  @OptionGroup var python: PythonOptions
  @OptionGroup var console: OutputOptions

  private static let indexVariables = ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "AWS_BATCH_JOB_ARRAY_INDEX"]

  func validate() throws {
    if let task, task < 0 { throw ValidationError("--task: expected a number from 0, found \(task)") }
    if count < 1 { throw ValidationError("--count: expected at least 1, found \(count)") }
  }

  func run() throws {
    let first = try firstTask()
    let interruption = Interruption()
    var codes: Set<Int32> = []
    try withSchedulerCodes {
      let worker = try TaskWorker(
        directory, tool: TakesetCommand.tool, isolation: isolation.isolation, threads: jobs.threads, python: python.python,
        limits: isolation.limits, checks: CheckProcess.checks)
      guard first < worker.count else { throw UsageError("there is no task \(first); \(directory) has \(counted(worker.count, "task"))") }
      var isWarned = false
      for number in first..<min(worker.count, first + min(count, worker.count)) {
        if interruption.signal != nil { throw CancellationError() }
        if !isWarned, let shortcoming = try worker.shortcoming(number) {
          standardError(shortcoming)
          isWarned = true
        }
        let (id, outcome) = try worker.convert(
          number,
          said: { id, text in if console.verbose { ProgressDisplay.lines(said: text, of: id).forEach(standardError) } },
          isCancelled: { interruption.signal != nil })
        codes.insert(report(number, id, outcome))
      }
    }
    // What may be tried again comes first: the tasks that are done are found done.
    for code: Int32 in [75, 66, 65] where codes.contains(code) { throw ExitCode(code) }
  }

  private func firstTask() throws -> Int {
    if let task { return task }
    let environment = ProcessInfo.processInfo.environment
    guard let name = Self.indexVariables.first(where: { environment[$0] != nil }), let text = environment[name] else {
      throw UsageError("give --task, or set one of \(Self.indexVariables.joined(separator: ", "))")
    }
    guard let index = Int(text), index >= 0 else { throw UsageError("\(name): expected a number from 0, found \(text)") }
    let (first, isTooLarge) = index.multipliedReportingOverflow(by: count)
    guard !isTooLarge else { throw UsageError("\(name): \(text) is too large") }
    return first
  }

  /// Prints what became of a task; returns its exit code.
  private func report(_ number: Int, _ id: String, _ outcome: TaskWorker.Outcome) -> Int32 {
    func say(_ words: String) { logLine("task \(number): \(id): \(words)") }
    switch outcome {
    case .written(let rows, let isNew):
      if !console.quiet { say("\(isNew ? "written" : "done before"), \(counted(rows, "frame"))") }
      return 0
    case .rejected(let reason):
      if !console.quiet { say("rejected: \(reason)") }
      return 0
    case .failed(let reason):
      say("failed: \(reason)")
      return 65
    case .kept(let reason):
      say("not converted: \(reason)")
      return 65
    case .vanished(let reason):
      say("not converted: \(reason)")
      return 66
    case .retry(let reason):
      say("not converted, try again: \(reason)")
      return 75
    }
  }
}

/// Ends a command with the exit codes that docs/cluster.md names for schedulers.
func withSchedulerCodes(_ body: () throws -> Void) throws {
  do {
    try body()
  } catch {
    let code: Int32
    switch error {
    case let failure as OutputFailure: code = failure.taskExitCode
    case is NoInputs: code = 66
    case is NotDeterministic: code = 70
    case is TasksMissing, is CancellationError: code = 75
    default: throw error
    }
    standardError("takeset: \(error is CancellationError ? "interrupted; tasks that are done stay done" : "\(error)")")
    throw ExitCode(code)
  }
}

struct StatusCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status", abstract: "Print how far the tasks of a directory are, and which are missing.",
    discussion: """
        takeset status dataset/
        sbatch --array=$(takeset status dataset/ --format slurm) job.sh
      """)

  @Argument(help: "The directory of plan --tasks.", completion: .directory)
  var directory: String
  @Option(help: "Output format: text, json, or slurm, which prints the missing tasks as an array such as 3,7,12-15.")
  var format = Format.text
  @Option(help: ArgumentHelp("With slurm: tasks in each job of the array, as for convert.", valueName: "k"))
  var count = 1

  enum Format: String, ExpressibleByArgument, CaseIterable { case text, json, slurm }

  func validate() throws {
    if count < 1 { throw ValidationError("--count: expected at least 1, found \(count)") }
  }

  func run() throws { try withSchedulerCodes { show(try TaskStatus(directory, tool: TakesetCommand.tool, checks: CheckProcess.checks)) } }

  private func show(_ status: TaskStatus) {
    switch format {
    case .json: standardOutput(status.json.canonicalText)
    case .slurm: standardOutput(status.ranges(size: count))
    case .text:
      let parts = [
        (status.written, "written"), (status.rejected, "rejected"), (status.failed.count, "failed"), (status.missing.count, "missing"),
      ].filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
      standardOutput("\(directory): \(counted(status.total, "task")): \(parts.joined(separator: ", ")); \(counted(status.rows, "frame"))")
      for task in status.failed { standardOutput("task \(task.number): \(task.id): failed: \(task.reason)") }
      if !status.missing.isEmpty { standardOutput("missing: \(status.ranges())") }
    }
  }
}

struct PublishCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "publish", abstract: "Gather the results of all tasks into a dataset.",
    discussion: """
      Writes dataset.h5 and manifest.json, the same bytes as `takeset run` on one machine. Publishes nothing while a task \
      has no result or a shard is missing, and exits with 75.

        takeset publish dataset/
      """)

  @Argument(help: "The directory of plan --tasks.", completion: .directory)
  var directory: String
  @Flag(help: "Record host and user names in the manifest's `run`.")
  var recordHost = false
  @OptionGroup var labels: LabelOptions
  @OptionGroup var console: OutputOptions

  func run() throws {
    var publication = TaskPublication(directory: directory, tool: TakesetCommand.tool)
    (publication.commandLine, publication.recordsHost) = (CommandLine.arguments, recordHost)
    publication.checks = CheckProcess.checks
    (publication.labels, publication.task) = try (labels.file, labels.checkedTask)
    var summary = TaskPublication.Summary()
    try withSchedulerCodes { summary = try publication.execute() }
    let style = console.style(for: STDERR_FILENO)
    for finding in summary.findings where !console.quiet || finding.severity != .info {
      standardError("\(style.warning(finding.severity.rawValue)): \(finding.code.rawValue): \(finding.message)")
    }
    let parts = [(summary.written, "written"), (summary.rejected, "rejected"), (summary.failed, "failed")]
      .filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
    let takes = parts.isEmpty ? "no takes" : parts.joined(separator: ", ")
    if !console.quiet {
      logLine(
        "\(directory): \(summary.isUpToDate ? "nothing to do (" : "")\(takes), \(counted(summary.rows, "frame"))\(summary.isUpToDate ? ")" : "")"
      )
    }
    if summary.failed > 0 { throw ExitCode(3) }
  }
}
