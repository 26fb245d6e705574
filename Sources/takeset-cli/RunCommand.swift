import ArgumentParser
import Datasets
import Evidence
import Foundation
import Model
import Runs
import Steps
import Synchronization

struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run", abstract: "Convert takes into a dataset.",
    discussion: """
      Each INPUT is a take, or a directory that is searched for takes. Every episode becomes episodes/<id>.h5; \
      dataset.h5 links them all, and manifest.json records the source of every row. Run the same command again after \
      adding takes, or after a crash: only what is missing or has changed is converted.

        takeset run sessions/ --output dataset/
        takeset run sessions/ --output dataset/ --pipeline pipeline.yaml --jobs 8
        takeset run incoming/ --output dataset/ --watch

      A take that cannot be converted is recorded with the reason and never stops the others (exit code 3). A run with \
      --watch ends when it is told to (INT or TERM): with 0, or with 3 when a take failed.
      """)

  @Argument(help: ArgumentHelp("Takes, or directories to search for takes.", valueName: "input"), completion: .file())
  var inputs: [String]
  @OptionGroup var search: InputOptions
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
  @OptionGroup var labels: LabelOptions
  @OptionGroup var python: PythonOptions
  @OptionGroup var jobs: JobOptions
  @Option(help: "Action after a take fails: skip it, or stop.")
  var onFailure = OnFailure.skip
  @Option(help: ArgumentHelp("Also exit with 3 when a take has a warning.", valueName: "severity"))
  var failOn: FailOn?
  @Option(help: "Compare inputs with the last run's by stat (size, times, inode) or by content.")
  var check = Check.stat
  @Flag(help: "Rebuild the dataset even if another pipeline wrote it, and shards to which another program has added something.")
  var replace = false
  @Flag(help: "Remove episodes whose take is no longer among the inputs.")
  var prune = false
  @OptionGroup var isolation: IsolationOptions
  @Flag(help: "Record host and user names in the manifest's `run`.")
  var recordHost = false
  @Option(help: "Progress on stderr: auto, bar, plain, json or none.")
  var progress = ProgressStyle.auto
  @Option(help: "Messages on stderr as text, or as json: one object a line; see docs/watching.md.")
  var logFormat = LogFormat.text
  @Option(
    help: ArgumentHelp(
      "Keep figures of the run in this file, in Prometheus' text format, for node_exporter's textfile collector.", valueName: "file"),
    completion: .file(extensions: ["prom"]))
  var metrics: String?
  @Flag(help: "Go on until stopped, and convert takes as they appear and are complete; see docs/watching.md.")
  var watch = false
  @Option(help: ArgumentHelp("With --watch, seconds without a change after which a take's files rest; 5 by default.", valueName: "s"))
  var settle: Double?
  @OptionGroup var console: OutputOptions

  enum OnFailure: String, ExpressibleByArgument, CaseIterable { case skip, stop }
  enum FailOn: String, ExpressibleByArgument, CaseIterable { case warning }
  enum Check: String, ExpressibleByArgument, CaseIterable { case stat, content }

  func validate() throws {
    if inputs.isEmpty { throw ValidationError("give at least one input") }
    if logFormat == .json, progress == .bar || progress == .plain {
      throw ValidationError("--log-format json: --progress \(progress.rawValue) would mix text into the log; give auto, json or none")
    }
    if let settle {
      if !watch { throw ValidationError("--settle is an option of --watch") }
      if !(0.1...86_400).contains(settle) { throw ValidationError("--settle: expected 0.1 to 86400 seconds, found \(settle)") }
    }
    if watch {
      if search.followLinks { throw ValidationError("--watch follows no links; name what they lead to as inputs") }
      if prune { throw ValidationError("--watch keeps every episode; run once with --prune to remove those whose takes are gone") }
      if onFailure == .stop { throw ValidationError("--watch goes on after a failure; --on-failure stop is for a run that ends") }
      if failOn != nil { throw ValidationError("--fail-on is for a run that ends; a log or the metrics of --watch show warnings") }
    }
  }

  func run() throws {
    let log = RunLog(logFormat, progress, console)
    var run = Run(
      inputs: inputs, output: output, pipeline: try takeset_cli.pipeline(pipeline, python: python.python, limits: isolation.limits),
      tool: TakesetCommand.tool)
    run.jobs = jobs.threads
    run.followsLinks = search.followLinks
    run.stopsAtFailure = onFailure == .stop
    run.checksContent = check == .content
    run.replaces = replace
    run.checks = CheckProcess.checks
    run.prunes = prune
    run.recordsHost = recordHost
    run.countsEarlierWarnings = failOn == .warning
    run.keys = try deviceKeys(keys)
    run.splitFile = try explicitSplit(splitFile)
    (run.labels, run.task) = try (labels.file, labels.checkedTask)
    run.isolation = isolation.isolation
    run.commandLine = CommandLine.arguments

    let interruption = Interruption()
    let observer = RunObserver(
      log: log, display: ProgressDisplay(progress, console, isSilent: logFormat == .json),
      report: RunReport(keepsAll: console.verbose && !watch),
      metrics: try metrics.map { try RunMetrics(path: $0, output: output, log: log) })
    log.writeJSON(
      .info, "start", "\(watch ? "watching" : "converting") \(inputs.joined(separator: ", ")) into \(output)",
      [
        "inputs": .array(inputs.map { .string($0) }), "output": .string(output), "version": .string(TakesetCommand.tool.version),
        "jobs": JSONValue(run.jobs), "watch": .bool(watch),
      ])
    if watch { return try watch(run, observer, interruption) }

    let summary: Run.Summary
    do {
      summary = try run.execute(isCancelled: { interruption.signal != nil }) { observer.show($0) }
    } catch {
      observer.finish()
      throw error
    }
    observer.finish()
    if let signal = interruption.signal {
      log.write(
        .warning, "interrupted", "interrupted; \(counted(summary.written, "take")) sealed; the same command resumes from there",
        ["written": JSONValue(summary.written)])
      throw ExitCode(128 + signal)
    }
    observer.metrics?.published()
    observer.show(summary.findings, console)
    log.writeJSON(.info, "end", describe(summary), observer.fields(summary))
    if !console.quiet { printSummary(summary, observer.report) }
    if summary.failed > 0 || failOn == .warning && (summary.withWarnings > 0 || summary.findings.contains { $0.severity != .info }) {
      throw ExitCode(3)
    }
  }

  private func printSummary(_ summary: Run.Summary, _ report: RunReport) {
    let table = report.table(console.style(for: STDOUT_FILENO))
    table.forEach(standardOutput)
    standardOutput(describe(summary))
    guard !table.isEmpty else { return }
    let first = inputs[0].contains(" ") ? "'\(inputs[0])'" : inputs[0]
    let code = report.firstCode?.rawValue ?? "CODE"
    standardOutput("Look closer: takeset inspect \(first)\(inputs.count > 1 ? " ..." : ""); takeset explain \(code)")
  }

  /// Runs until a signal, which is the way to end a watch: exit code 0, or 3 when a take failed and was not mended since.
  private func watch(_ run: Run, _ observer: RunObserver, _ interruption: Interruption) throws {
    let style = console.style(for: STDERR_FILENO)
    observer.log.write(.info, "watching", "watching \(inputs.joined(separator: ", ")); stop with Ctrl-C or SIGTERM")
    do {
      try WatchRun(run, settle: settle ?? 5).execute(isStopped: { interruption.signal != nil }) {
        observer.show($0, console, describe: describe, style)
      }
    } catch {
      observer.finish()
      throw error
    }
    observer.finish()
    let totals = observer.totals
    observer.log.writeJSON(.info, "end", "stopped; \(describe(totals))", observer.fields(totals))
    if !console.quiet {
      observer.report.table(console.style(for: STDOUT_FILENO)).forEach(standardOutput)
      standardOutput("stopped; \(describe(totals))")
    }
    if observer.hasFailures { throw ExitCode(3) }
  }

  private func describe(_ summary: Run.Summary) -> String {
    let parts = [
      (summary.written, "written"), (summary.unchanged, "unchanged"), (summary.rejected, "rejected"),
      (summary.failed, "failed"), (summary.pruned, "removed"),
    ].filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
    let takes = parts.isEmpty ? "no takes" : parts.joined(separator: ", ")
    let frames = summary.rows == 1 ? "1 frame" : "\(summary.rows) frames"
    let kept = summary.orphaned > 0 ? "; \(summary.orphaned) more kept, whose inputs are gone (--prune removes them)" : ""
    if summary.isUpToDate { return "\(output): nothing to do (\(takes), \(frames))\(kept)" }
    let warnings = summary.withWarnings > 0 ? "; \(summary.withWarnings) with warnings" : ""
    return "\(output): \(takes), \(frames)\(warnings)\(kept)"
  }
}

/// Does work that stops with `CancellationError` at the first signal, having removed what it wrote.
func interruptibly<Result>(
  orSay words: String = "nothing was written", _ work: (_ isCancelled: @escaping @Sendable () -> Bool) throws -> Result
) throws -> Result {
  let interruption = Interruption()
  do {
    return try work { interruption.signal != nil }
  } catch is CancellationError {
    standardError("takeset: interrupted; \(words)")
    throw ExitCode(128 + (interruption.signal ?? SIGINT))
  }
}

/// The first SIGINT, SIGTERM or SIGHUP; a second one ends the process immediately. A SIGHUP that is ignored from the start, as by `nohup`,
/// stays ignored.
final class Interruption: Sendable {
  /// Set by the signal handler itself, so that a signal counts from the moment it arrives.
  private static let received = Atomic<Int32>(0)

  private static let handlers: Void = {
    // Initialized here, because a handler may not.
    _ = received.load(ordering: .relaxed)
    for number in [SIGINT, SIGTERM, SIGHUP] {
      let earlier = Foundation.signal(number) { number in
        if !Interruption.received.compareExchange(expected: 0, desired: number, ordering: .relaxed).exchanged { _exit(128 + number) }
      }
      // A program starts with signals at their default, which is nil, or ignored.
      if number == SIGHUP, earlier != nil { Foundation.signal(SIGHUP, SIG_IGN) }
    }
  }()

  init() { _ = Self.handlers }

  var signal: Int32? {
    let number = Self.received.load(ordering: .relaxed)
    return number == 0 ? nil : number
  }
}
