import ArgumentParser
import Foundation
import Model
import Synchronization
import Takeset

struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run", abstract: "Convert takes into a dataset.",
    discussion: """
      Each INPUT is a take, or a directory that is searched for takes. Every take becomes episodes/<take-id>.h5; \
      dataset.h5 links them all, manifest.json tells where every row came from. Run the same command again after \
      adding takes, after a crash or a power cut: only what is missing or has changed is made.

        takeset run sessions/ --output dataset/
        takeset run sessions/ --output dataset/ --pipeline pipeline.yaml --jobs 8

      A take that cannot be converted is recorded with the reason and never stops the others (exit code 3).
      """)

  @Argument(help: ArgumentHelp("Takes, or directories to search for takes.", valueName: "input"))
  var inputs: [String]
  @Option(name: .shortAndLong, help: "The dataset directory; created if need be.")
  var output: String
  @Option(help: ArgumentHelp("Pipeline file (YAML); see `takeset steps` and docs/pipeline.md.", valueName: "file"))
  var pipeline: String?
  @Option(
    help: ArgumentHelp(
      "Public keys of devices (JSON), against which signatures of bundles are checked; see docs/formats/realitycam-bundle.md.",
      valueName: "file"))
  var keys: String?
  @Option(help: ArgumentHelp("Threads to use; all cores by default.", valueName: "n"))
  var jobs: Int?
  @Option(help: "What to do when a take fails: skip it, or stop.")
  var onFailure = OnFailure.skip
  @Option(help: "How inputs are compared with the last run's: by stat (size, time, inode) or by content.")
  var check = Check.stat
  @Flag(help: "Rebuild the dataset even if it was written by a different pipeline.")
  var replace = false
  @Flag(help: "Remove episodes whose take is no longer among the inputs.")
  var prune = false
  @Option(help: "How progress is shown on stderr: auto, bar, plain, json or none.")
  var progress = ProgressStyle.auto

  enum OnFailure: String, ExpressibleByArgument, CaseIterable { case skip, stop }
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
    run.keys = try deviceKeys(keys)
    run.commandLine = CommandLine.arguments

    let interruption = Interruption()
    let display = ProgressDisplay(style: progress)
    let summary: Run.Summary
    do {
      summary = try run.execute(isCancelled: { interruption.signal != nil }) { display.show($0) }
    } catch {
      display.finish()
      throw error
    }
    display.finish()
    if let signal = interruption.signal {
      standardError("takeset: interrupted; \(summary.written) takes were sealed, the same command resumes from there")
      throw ExitCode(128 + signal)
    }
    for finding in summary.findings { standardError("\(finding.severity.rawValue): \(finding.code.rawValue): \(finding.message)") }
    standardOutput(describe(summary))
    if summary.failed > 0 { throw ExitCode(3) }
  }

  private func describe(_ summary: Run.Summary) -> String {
    let parts = [
      (summary.written, "written"), (summary.unchanged, "unchanged"), (summary.rejected, "rejected"),
      (summary.failed, "failed"), (summary.pruned, "removed"),
    ].filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
    let takes = parts.isEmpty ? "no takes" : parts.joined(separator: ", ")
    if summary.isUpToDate { return "\(output): nothing to do (\(takes), \(summary.rows) frames)" }
    return "\(output): \(takes), \(summary.rows) frames"
  }
}

/// Remembers the first SIGINT or SIGTERM; a second one ends the process at once.
final class Interruption: Sendable {
  private let received = Atomic<Int32>(0)
  private nonisolated(unsafe) let sources: [any DispatchSourceSignal]

  init() {
    sources = [SIGINT, SIGTERM, SIGHUP].map { number in
      Foundation.signal(number, SIG_IGN)
      return DispatchSource.makeSignalSource(signal: number, queue: .global())
    }
    for (source, number) in zip(sources, [SIGINT, SIGTERM, SIGHUP]) {
      source.setEventHandler { [self] in
        if !received.compareExchange(expected: 0, desired: number, ordering: .relaxed).exchanged { _exit(128 + number) }
      }
      source.resume()
    }
  }

  var signal: Int32? {
    let number = received.load(ordering: .relaxed)
    return number == 0 ? nil : number
  }
}
