import Datasets
import Evidence
import Foundation
import Model
import Runs
import Synchronization

/// Everything that wants to know what a run does: the log, the progress display, the summary and the metrics.
final class RunObserver: Sendable {
  let log: RunLog
  let report: RunReport
  let metrics: RunMetrics?
  private let display: ProgressDisplay
  private let state = Mutex(State())

  private struct State {
    var totals = Run.Summary()
    /// Takes whose last conversion failed.
    var failed: Set<String> = []
    /// Findings about the dataset that were told before; each batch of a watch has them again.
    var told: Set<String> = []
  }

  init(log: RunLog, display: ProgressDisplay, report: RunReport, metrics: RunMetrics?) {
    (self.log, self.display, self.report, self.metrics) = (log, display, report, metrics)
  }

  /// The totals since the start.
  var totals: Run.Summary { state.withLock(\.totals) }
  /// Whether a take failed and was not written or rejected since.
  var hasFailures: Bool { state.withLock { !$0.failed.isEmpty } }

  func finish() {
    display.finish()
    metrics?.idle()
  }

  func show(_ event: Run.Event) {
    display.show(event)
    metrics?.show(event)
    switch event {
    case .log(let line): log.writeJSON(.warning, "note", line)
    case .said(let id, let text): if log.isVerbose { log.writeJSON(.info, "said", text, ["take": .string(id)]) }
    case .found, .started, .progress: break
    case .unchanged(let id):
      state.withLock {
        $0.totals.unchanged += 1
        $0.failed.remove(id)
      }
    case .finished(let id, let take, let outcome, let reason, let findings, let rows, let seconds, _):
      report.add(id, of: take, outcome, reason, findings)
      log.take(id, outcome, reason, findings, rows: rows, seconds: seconds)
      state.withLock { state in
        state.totals.rows += rows
        switch outcome {
        case .written:
          state.totals.written += 1
          if findings.contains(where: { $0.severity != .info }) { state.totals.withWarnings += 1 }
          state.failed.remove(take)
        case .rejected:
          state.totals.rejected += 1
          state.failed.remove(take)
        case .failed:
          state.totals.failed += 1
          state.failed.insert(take)
        }
      }
    }
  }

  /// Findings about the dataset as a whole.
  func show(_ findings: [Finding], _ console: OutputOptions) {
    let style = console.style(for: STDERR_FILENO)
    for finding in findings where !console.quiet || finding.severity != .info {
      let words = "\(finding.code.rawValue): \(finding.message)"
      guard state.withLock({ $0.told.insert(words).inserted }) else { continue }
      let level: RunLog.Level = finding.severity == .info ? .info : finding.severity == .warning ? .warning : .error
      log.write(
        level, "finding", words, text: "\(style.warning(finding.severity.rawValue)): \(words)", ["code": .string(finding.code.rawValue)])
    }
  }

  /// Prints an event of a watch.
  func show(_ event: WatchRun.Event, _ console: OutputOptions, describe: (Run.Summary) -> String, _ style: Style) {
    switch event {
    case .run(let event): show(event)
    case .looked(let waiting, let incomplete): metrics?.looked(waiting: waiting, incomplete: incomplete)
    case .stalled(let path, let reason):
      display.finish()
      log.write(
        .warning, "incomplete", "\(path): not complete: \(reason); it is converted when it is",
        ["path": .string(path), "reason": .string(reason)])
    case .missing(let path):
      log.write(.warning, "input-missing", "\(path) cannot be searched; its takes are kept until it is back", ["path": .string(path)])
    case .isBack(let path): log.write(.info, "input-back", "\(path) can be searched again", ["path": .string(path)])
    case .batchStarted(let takes): log.writeJSON(.info, "batch", "converting \(counted(takes, "take"))", ["takes": JSONValue(takes)])
    case .batchEnded(let summary):
      display.finish()
      metrics?.published()
      show(summary.findings, console)
      log.write(.info, "published", describe(summary), text: describe(summary), fields(summary, hasReasons: false))
    case .outputBlocked(let reason):
      display.finish()
      metrics?.blocked(true)
      log.write(.error, "output-blocked", "\(reason); waiting until the output can be written again", ["reason": .string(reason)])
    case .outputFreed:
      metrics?.blocked(false)
      log.write(.info, "output-freed", "the output can be written again")
    }
  }

  /// A summary's figures, for a line of the log.
  func fields(_ summary: Run.Summary, hasReasons: Bool = true) -> [String: JSONValue] {
    var fields: [String: JSONValue] = [
      "written": JSONValue(summary.written), "unchanged": JSONValue(summary.unchanged), "rejected": JSONValue(summary.rejected),
      "failed": JSONValue(summary.failed), "removed": JSONValue(summary.pruned), "with_warnings": JSONValue(summary.withWarnings),
      "inputs_gone": JSONValue(summary.orphaned),
      "rows": JSONValue(summary.rows),
    ]
    if hasReasons { fields["reasons"] = report.reasons }
    return fields
  }
}
