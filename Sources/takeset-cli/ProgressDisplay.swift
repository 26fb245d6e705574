import ArgumentParser
import Foundation
import Model
import Synchronization
import Takeset

enum ProgressStyle: String, ExpressibleByArgument, CaseIterable { case auto, bar, plain, json, none }

/// Shows on stderr how a run goes on: a bar on a terminal, lines in a log, JSON for programs.
final class ProgressDisplay: Sendable {
  private struct State {
    var takes = 0
    var done = 0
    var rows = 0
    var bytes = 0
    var drawn = ContinuousClock.now
    var isBarShown = false
  }

  private let style: ProgressStyle
  private let started = ContinuousClock.now
  private let state = Mutex(State())

  init(style: ProgressStyle) {
    self.style = style == .auto ? (isatty(STDERR_FILENO) == 1 ? .bar : .plain) : style
  }

  func show(_ event: Run.Event) {
    state.withLock { state in
      switch event {
      case .found(let takes): state.takes = takes
      case .progress(let rows, let bytes):
        state.rows += rows
        state.bytes += bytes
        redraw(&state)
      case .log(let line): write(line, json: ["event": "log", "message": .string(line)], &state)
      case .finished(let id, let outcome, let reason, let rows, let seconds):
        state.done += 1
        let detail = reason ?? "\(rows) frames, \(String(format: "%.1f", seconds)) s"
        write(
          "[\(state.done)/\(state.takes)] \(id): \(outcome.rawValue): \(detail)",
          json: [
            "event": "take", "id": .string(id), "outcome": .string(outcome.rawValue), "reason": JSONValue(reason),
            "frames": JSONValue(rows), "seconds": .number(seconds), "done": JSONValue(state.done),
            "takes": JSONValue(state.takes),
          ], isFailure: outcome == .failed, &state)
      }
    }
  }

  func finish() {
    state.withLock { clearBar(&$0) }
  }

  private func write(_ line: String, json: JSONValue, isFailure: Bool = true, _ state: inout State) {
    switch style {
    case .none: if isFailure { standardError(line) }
    case .json: standardError(json.canonicalText)
    case .plain, .auto: standardError(line)
    case .bar:
      // Takes that went well are in the bar already.
      if isFailure {
        clearBar(&state)
        standardError(line)
      }
      redraw(&state, always: true)
    }
  }

  private func clearBar(_ state: inout State) {
    guard state.isBarShown else { return }
    FileHandle.standardError.write(Data("\r\u{1B}[K".utf8))
    state.isBarShown = false
  }

  private func redraw(_ state: inout State, always: Bool = false) {
    guard style == .bar else { return }
    let now = ContinuousClock.now
    guard always || state.drawn.duration(to: now) > .milliseconds(100) else { return }
    state.drawn = now
    state.isBarShown = true
    let elapsed = max(Double((now - started) / .milliseconds(1)) / 1000, 0.001)
    let share = state.takes > 0 ? Double(state.done) / Double(state.takes) : 0
    let width = 24
    let filled = Int(share * Double(width))
    let bar = String(repeating: "#", count: filled) + String(repeating: "-", count: width - filled)
    let left = state.done > 0 ? elapsed / Double(state.done) * Double(state.takes - state.done) : nil
    let text = String(
      format: "\r\u{1B}[K[%@] %d/%d takes  %.0f frames/s  %.0f MB/s  ETA %@", bar, state.done, state.takes,
      Double(state.rows) / elapsed, Double(state.bytes) / elapsed / 1e6, left.map(Self.clock) ?? "--:--")
    FileHandle.standardError.write(Data(text.utf8))
  }

  private static func clock(_ seconds: Double) -> String {
    let whole = Int(seconds.rounded())
    return whole >= 3600
      ? String(format: "%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60)
      : String(format: "%02d:%02d", whole / 60, whole % 60)
  }
}
