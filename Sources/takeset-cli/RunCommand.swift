import ArgumentParser
import Foundation
import Model
import Synchronization
import Takeset

struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run", abstract: "Convert takes into a dataset.",
    discussion: """
      Each INPUT is a take, or a directory that is searched for takes. Every episode becomes episodes/<id>.h5; \
      dataset.h5 links them all, and manifest.json records the source of every row. Run the same command again after \
      adding takes, or after a crash: only what is missing or has changed is converted.

        takeset run sessions/ --output dataset/
        takeset run sessions/ --output dataset/ --pipeline pipeline.yaml --jobs 8

      A take that cannot be converted is recorded with the reason and never stops the others (exit code 3).
      """)

  @Argument(help: ArgumentHelp("Takes, or directories to search for takes.", valueName: "input"), completion: .file())
  var inputs: [String]
  @Option(name: .shortAndLong, help: "The dataset directory; created if missing.", completion: .directory)
  var output: String
  @Option(
    help: ArgumentHelp("Pipeline file (YAML); see `takeset steps` and docs/pipeline.md.", valueName: "file"),
    completion: .file(extensions: ["yaml", "yml", "json"]))
  var pipeline: String?
  @Option(
    help: ArgumentHelp(
      "Public keys of devices (JSON) to check the signatures of bundles; see docs/formats/realitycam-bundle.md.", valueName: "file"),
    completion: .file(extensions: ["json"]))
  var keys: String?
  @Option(
    help: ArgumentHelp(
      "An explicit split (YAML or JSON: lists of take ids under train, valid, test), in place of the pipeline's.", valueName: "file"),
    completion: .file(extensions: ["yaml", "yml", "json"]))
  var splitFile: String?
  @Option(help: ArgumentHelp("Threads to use; all cores by default.", valueName: "n"))
  var jobs: Int?
  @Option(help: "Action after a take fails: skip it, or stop.")
  var onFailure = OnFailure.skip
  @Option(help: ArgumentHelp("Also exit with 3 when a take has a warning.", valueName: "severity"))
  var failOn: FailOn?
  @Option(help: "Compare inputs with the last run's by stat (size, times, inode) or by content.")
  var check = Check.stat
  @Flag(help: "Rebuild the dataset even if it was written by a different pipeline.")
  var replace = false
  @Flag(help: "Remove episodes whose take is no longer among the inputs.")
  var prune = false
  @Flag(help: "Record host and user names in the manifest's `run`.")
  var recordHost = false
  @Option(help: "Progress on stderr: auto, bar, plain, json or none.")
  var progress = ProgressStyle.auto
  @OptionGroup var console: OutputOptions

  enum OnFailure: String, ExpressibleByArgument, CaseIterable { case skip, stop }
  enum FailOn: String, ExpressibleByArgument, CaseIterable { case warning }
  enum Check: String, ExpressibleByArgument, CaseIterable { case stat, content }

  func validate() throws {
    if inputs.isEmpty { throw ValidationError("give at least one input") }
    if let jobs, !(1...1024).contains(jobs) { throw ValidationError("--jobs: expected 1 to 1024, found \(jobs)") }
  }

  func run() throws {
    var run = Run(
      inputs: inputs, output: output, pipeline: try takeset_cli.pipeline(pipeline), tool: TakesetCommand.tool)
    run.jobs = jobs ?? Cores.available
    run.stopsAtFailure = onFailure == .stop
    run.checksContent = check == .content
    run.replaces = replace
    run.prunes = prune
    run.recordsHost = recordHost
    run.countsEarlierWarnings = failOn == .warning
    run.keys = try deviceKeys(keys)
    run.splitFile = try explicitSplit(splitFile)
    run.commandLine = CommandLine.arguments

    let interruption = Interruption()
    let display = ProgressDisplay(progress, console)
    let report = RunReport()
    let summary: Run.Summary
    do {
      summary = try run.execute(isCancelled: { interruption.signal != nil }) { event in
        display.show(event)
        if case .finished(let id, _, let outcome, let reason, let findings, _, _, _) = event { report.add(id, outcome, reason, findings) }
      }
    } catch {
      display.finish()
      throw error
    }
    display.finish()
    if let signal = interruption.signal {
      standardError("takeset: interrupted; \(counted(summary.written, "take")) sealed; the same command resumes from there")
      throw ExitCode(128 + signal)
    }
    let style = console.style(for: STDERR_FILENO)
    for finding in summary.findings where !console.quiet || finding.severity != .info {
      standardError("\(style.warning(finding.severity.rawValue)): \(finding.code.rawValue): \(finding.message)")
    }
    if !console.quiet { printSummary(summary, report) }
    if summary.failed > 0 || failOn == .warning && (summary.withWarnings > 0 || summary.findings.contains { $0.severity != .info }) {
      throw ExitCode(3)
    }
  }

  private func printSummary(_ summary: Run.Summary, _ report: RunReport) {
    let table = report.table(console.style(for: STDOUT_FILENO), all: console.verbose)
    table.forEach(standardOutput)
    standardOutput(describe(summary))
    guard !table.isEmpty else { return }
    let first = inputs[0].contains(" ") ? "'\(inputs[0])'" : inputs[0]
    standardOutput("Look closer: takeset inspect \(first)\(inputs.count > 1 ? " ..." : ""); takeset explain CODE")
  }

  private func describe(_ summary: Run.Summary) -> String {
    let parts = [
      (summary.written, "written"), (summary.unchanged, "unchanged"), (summary.rejected, "rejected"),
      (summary.failed, "failed"), (summary.pruned, "removed"),
    ].filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
    let takes = parts.isEmpty ? "no takes" : parts.joined(separator: ", ")
    let frames = summary.rows == 1 ? "1 frame" : "\(summary.rows) frames"
    if summary.isUpToDate { return "\(output): nothing to do (\(takes), \(frames))" }
    let warnings = summary.withWarnings > 0 ? "; \(summary.withWarnings) with warnings" : ""
    return "\(output): \(takes), \(frames)\(warnings)"
  }
}

/// Does work that stops with `CancellationError` at the first signal, having removed what it wrote.
func interruptibly<Result>(_ work: (_ isCancelled: @escaping @Sendable () -> Bool) throws -> Result) throws -> Result {
  let interruption = Interruption()
  do {
    return try work { interruption.signal != nil }
  } catch is CancellationError {
    standardError("takeset: interrupted; nothing was written")
    throw ExitCode(128 + (interruption.signal ?? SIGINT))
  }
}

/// The first SIGINT, SIGTERM or SIGHUP; a second one ends the process immediately.
final class Interruption: Sendable {
  /// Set by the signal handler itself, so that a signal counts from the moment it arrives.
  private static let received = Atomic<Int32>(0)

  init() {
    // Initialized here, because a handler may not.
    _ = Self.received.load(ordering: .relaxed)
    for number in [SIGINT, SIGTERM, SIGHUP] {
      Foundation.signal(number) { number in
        if !Interruption.received.compareExchange(expected: 0, desired: number, ordering: .relaxed).exchanged { _exit(128 + number) }
      }
    }
  }

  var signal: Int32? {
    let number = Self.received.load(ordering: .relaxed)
    return number == 0 ? nil : number
  }
}
