import ArgumentParser
import Datasets
import Evidence
import Foundation
import Model
import Runs
import Synchronization

enum ProgressStyle: String, ExpressibleByArgument, CaseIterable { case auto, bar, plain, json, none }

/// Progress of a run on stderr: a bar on a terminal, lines in a log, JSON for programs.
final class ProgressDisplay: Sendable {
  private struct State {
    var takes = 0
    var done = 0
    var failed = 0
    var rejected = 0
    var rows = 0
    var bytes = 0
    /// Takes that are being converted, in the order of their start.
    var current: [String] = []
    /// The expected end of the run; smoothed, so that one long take does not move it far.
    var end: ContinuousClock.Instant?
    var drawn = ContinuousClock.now
    var isBarShown = false
    /// The start of the batch and what was done before it: a watch is idle between batches, which is no part of its rates.
    var batch = (start: ContinuousClock.now, done: 0, rows: 0, bytes: 0)
    /// Time at which totals were last printed as JSON.
    var totaled = ContinuousClock.now
  }

  private let style: ProgressStyle
  private let paint: Style
  private let isVerbose: Bool
  /// Whether a log in JSON reports the takes.
  private let isSilent: Bool
  private let state = Mutex(State())

  init(_ style: ProgressStyle, _ console: OutputOptions, isSilent: Bool = false) {
    self.isSilent = isSilent && style != .json
    self.style = style != .auto ? style : console.quiet ? .none : isatty(STDERR_FILENO) == 1 ? .bar : .plain
    (paint, isVerbose) = (console.style(for: STDERR_FILENO), console.verbose)
  }

  func show(_ event: Run.Event) {
    state.withLock { state in
      switch event {
      case .found(let takes):
        state.takes += takes
        state.end = nil
        state.batch = (.now, state.done, state.rows, state.bytes)
      case .started(let id):
        state.current.append(id)
        redraw(&state)
      case .progress(let rows, let bytes):
        state.rows += rows
        state.bytes += bytes
        redraw(&state)
        writeTotals(&state)
      case .log(let line): write([line], json: ["event": "log", "message": .string(line)], isProblem: true, &state)
      case .said(let id, let text):
        if !isVerbose { break }
        let json: [String: JSONValue] = ["event": "said", "id": .string(id), "text": .string(text)]
        write(Self.lines(said: text, of: id), json: json, isProblem: true, &state)
      case .unchanged: state.done += 1
      case .finished(let id, let take, let outcome, let reason, let findings, let rows, let seconds, let endsTake):
        if endsTake {
          state.done += 1
          state.current.removeAll { $0 == take }
          estimate(&state)
        }
        if outcome == .failed { state.failed += 1 }
        if outcome == .rejected { state.rejected += 1 }
        let warnings = findings.filter { outcome == .written && $0.severity != .info }
        write(
          lines(id, outcome, reason, warnings, rows, seconds, state),
          json: [
            "event": "take", "id": .string(id), "outcome": .string(outcome.rawValue), "reason": JSONValue(reason),
            "frames": JSONValue(rows), "seconds": .number(seconds), "findings": .array(findings.map(\.json)),
          ].merging(totals(state)) { own, _ in own }, isProblem: outcome != .written || !warnings.isEmpty, isFailure: outcome == .failed,
          &state)
      }
    }
  }

  func finish() {
    state.withLock { clearBar(&$0) }
  }

  /// What a step printed, each line with the episode's id.
  static func lines(said text: String, of id: String) -> [String] {
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { "\(id.onOneLine): \(String($0).onOneLine)" }
    return text.hasSuffix("\n") ? lines.dropLast() : lines
  }

  private func lines(
    _ id: String, _ outcome: TakeRecord.Outcome, _ reason: String?, _ warnings: [Finding], _ rows: Int, _ seconds: Double, _ state: State
  ) -> [String] {
    let detail = reason ?? "\(rows == 1 ? "1 frame" : "\(rows) frames"), \(String(format: "%.1f", seconds)) s"
    let word =
      switch outcome {
      case .failed: paint.error(outcome.rawValue)
      case .rejected: paint.warning(outcome.rawValue)
      case .written: paint.success(outcome.rawValue)
      }
    return ["[\(state.done)/\(state.takes)] \(id): \(word): \(detail)"]
      + warnings.map { "      \(paint.warning("warning"))\($0.times) \($0.code.rawValue):\($0.place) \($0.message)" }
  }

  /// Returns the totals so far: the members of every event in JSON that reports progress.
  private func totals(_ state: State) -> [String: JSONValue] {
    let seconds = max(Self.seconds(state.batch.start.duration(to: .now)), 0.001)
    let left = state.end.map { max(0, Self.seconds(ContinuousClock.now.duration(to: $0))) }
    func rounded(_ value: Double) -> JSONValue { .number((value * 10).rounded() / 10) }
    return [
      "done": JSONValue(state.done), "takes": JSONValue(state.takes), "failed": JSONValue(state.failed),
      "rejected": JSONValue(state.rejected), "rows": JSONValue(state.rows), "bytes": JSONValue(state.bytes),
      "rows_per_second": rounded(Double(state.rows - state.batch.rows) / seconds),
      "bytes_per_second": rounded(Double(state.bytes - state.batch.bytes) / seconds),
      "elapsed_seconds": .number((seconds * 1000).rounded() / 1000), "eta_seconds": left.map(rounded) ?? .null,
    ]
  }

  /// Prints the totals as JSON once in a while, because a long take is silent.
  private func writeTotals(_ state: inout State) {
    guard style == .json, state.totaled.duration(to: .now) > .seconds(2) else { return }
    state.totaled = .now
    standardError(JSONValue.object(totals(state).merging(["event": "progress"]) { own, _ in own }).canonicalText)
  }

  private static func seconds(_ duration: Duration) -> Double { duration / .seconds(1) }

  private func write(_ lines: [String], json: [String: JSONValue], isProblem: Bool, isFailure: Bool = true, _ state: inout State) {
    if isSilent { return }
    switch style {
    case .none: if isFailure { lines.forEach(standardError) }
    case .json: standardError(JSONValue.object(json).canonicalText)
    case .plain, .auto: lines.forEach(standardError)
    case .bar:
      // The bar already counts takes that were written without problems.
      if isProblem || isVerbose {
        clearBar(&state)
        lines.forEach(standardError)
      }
      redraw(&state, always: true)
    }
  }

  // MARK: The bar

  private func clearBar(_ state: inout State) {
    guard state.isBarShown else { return }
    try? FileHandle.standardError.write(contentsOf: Data("\r\u{1B}[K".utf8))
    state.isBarShown = false
  }

  /// Moves the expected end a fifth of the way toward the estimate from the takes so far.
  private func estimate(_ state: inout State) {
    let done = state.done - state.batch.done
    guard done >= 3, state.takes > state.done else { return }
    let now = ContinuousClock.now
    let promised = now + (now - state.batch.start) / done * (state.takes - state.done)
    state.end = state.end.map { $0 + ($0.duration(to: promised)) / 5 } ?? promised
  }

  private func redraw(_ state: inout State, always: Bool = false) {
    guard style == .bar, !isSilent else { return }
    let now = ContinuousClock.now
    guard always || state.drawn.duration(to: now) > .milliseconds(100) else { return }
    state.drawn = now
    state.isBarShown = true
    let elapsed = max(Self.seconds(now - state.batch.start), 0.001)
    let share = state.takes > 0 ? Double(state.done) / Double(state.takes) : 0
    let length = 20
    let filled = Int(share * Double(length))
    let bar = String(repeating: "#", count: filled) + String(repeating: "-", count: length - filled)
    let left = state.end.map { max(0, Self.seconds(now.duration(to: $0))) }
    var text = String(
      format: "[%@] %d/%d takes  %.0f frames/s  %.0f MB/s  ETA %@", bar, state.done, state.takes,
      Double(state.rows - state.batch.rows) / elapsed, Double(state.bytes - state.batch.bytes) / elapsed / 1e6,
      left.map(Self.clock) ?? "--:--")
    if let name = state.current.first { text += "  \(name)" + (state.current.count > 1 ? " +\(state.current.count - 1)" : "") }
    // A line wider than the terminal would wrap and stay; the width is read each time, because it may change.
    try? FileHandle.standardError.write(contentsOf: Data("\r\(printable(text).prefix(Self.terminalWidth - 1))\u{1B}[K".utf8))
  }

  private static var terminalWidth: Int {
    var size = winsize()
    return ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 1 ? Int(size.ws_col) : 80
  }

  /// Minutes and seconds; above a minute in steps of five seconds, because the estimate is no more accurate.
  private static func clock(_ seconds: Double) -> String {
    let whole = seconds > 60 ? Int((seconds / 5).rounded()) * 5 : Int(seconds.rounded())
    return whole >= 3600
      ? String(format: "%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60)
      : String(format: "%02d:%02d", whole / 60, whole % 60)
  }
}

extension Finding {
  /// ` (5x)` for a finding that occurred several times.
  var times: String { count.map { $0 > 1 ? " (\($0)x)" : "" } ?? "" }
  /// The file and field, such as ` poses.json[3].timestamp:`.
  var place: String { file.map { " \($0)\(field ?? ""):".onOneLine } ?? "" }
}

extension [Finding] {
  /// The codes of all findings above `info`, with their counts: `pose-jump, image-missing (5x)`.
  var warningWords: String { filter { $0.severity != .info }.map { $0.code.rawValue + $0.times }.joined(separator: ", ") }
}
