import Datasets
import Foundation
import Model
import Runs
import Steps
import Synchronization

/// Figures of a run in Prometheus' text format (version 0.0.4), for the textfile collector of node_exporter. The file is replaced as a
/// whole, so that a reader never finds half of it.
final class RunMetrics: Sendable {
  private struct State {
    var takes: [String: Int] = ["written": 0, "rejected": 0, "failed": 0, "unchanged": 0]
    var rows = 0
    var bytes = 0
    var seconds = 0.0
    var started = Date().timeIntervalSince1970
    var lastTake = 0.0
    var lastSuccess = 0.0
    var isBusy = false
    var isBlocked = false
    var waiting = 0
    var incomplete = 0
    var written: ContinuousClock.Instant?
    var isBroken = false
  }

  private let path: String
  private let output: String
  private let label: String
  private let log: RunLog
  private let state = Mutex(State())

  /// Seconds between two files, except where something important has happened.
  private static let period = Duration.seconds(5)

  /// - Throws: `UsageError` when the file cannot be written, or is another one than the metrics of an earlier run.
  init(path: String, output: String, log: RunLog) throws {
    try OutputFile.check(path, markedBy: "# HELP takeset_", "a file of metrics by Takeset")
    (self.path, self.output, self.log) = (path, output, log)
    label = "dataset=\"\(Self.escaped(URL(fileURLWithPath: output).standardizedFileURL.path))\""
    state.withLock { state in
      let earlier = Self.times(in: path, label)
      // A run that has only begun has not made the dataset's last success undone.
      (state.lastTake, state.lastSuccess) = (earlier["last_take_timestamp_seconds"] ?? 0, earlier["last_success_timestamp_seconds"] ?? 0)
    }
    if let reason = state.withLock({ write(&$0) }) { throw UsageError("--metrics: cannot write \(path): \(reason)") }
  }

  func show(_ event: Run.Event) {
    state.withLock { state in
      switch event {
      case .found, .log, .said: return
      case .started: state.isBusy = true
      case .unchanged: state.takes["unchanged", default: 0] += 1
      case .progress(let rows, let bytes):
        state.rows += rows
        state.bytes += bytes
      case .finished(_, _, let outcome, _, _, _, let seconds, _):
        state.takes[outcome.rawValue, default: 0] += 1
        state.seconds += seconds
        if outcome == .written { state.lastTake = Date().timeIntervalSince1970 }
      }
      writeIfDue(&state)
    }
  }

  /// The dataset is complete on disk, index and manifest included.
  func published() {
    update {
      $0.lastSuccess = Date().timeIntervalSince1970
      $0.isBusy = false
    }
  }

  func idle() { update { $0.isBusy = false } }
  func blocked(_ isBlocked: Bool) {
    update {
      $0.isBlocked = isBlocked
      if isBlocked { $0.isBusy = false }
    }
  }

  func looked(waiting: Int, incomplete: Int) {
    state.withLock { state in
      (state.waiting, state.incomplete) = (waiting, incomplete)
      writeIfDue(&state)
    }
  }

  private func update(_ change: (inout State) -> Void) {
    state.withLock { state in
      change(&state)
      report(write(&state), &state)
    }
  }

  private func writeIfDue(_ state: inout State) {
    guard state.written.map({ $0.duration(to: .now) >= Self.period }) ?? true else { return }
    report(write(&state), &state)
  }

  /// A file that cannot be written is reported once, and is no reason to stop.
  private func report(_ reason: String?, _ state: inout State) {
    if let reason, !state.isBroken { log.write(.warning, "metrics", "cannot write the metrics to \(path): \(reason)") }
    state.isBroken = reason != nil
  }

  /// Writes the file; returns why that is not possible.
  private func write(_ state: inout State) -> String? {
    state.written = .now
    do {
      try SealedFile.replace(path, by: Array(text(state).utf8))
      return nil
    } catch {
      return (error as? FileError)?.reason ?? "\(error)"
    }
  }

  private func text(_ state: State) -> String {
    var lines: [String] = []
    func add(_ name: String, _ type: String, _ help: String, _ samples: [(labels: String, value: String)]) {
      lines.append("# HELP takeset_\(name) \(help)")
      lines.append("# TYPE takeset_\(name) \(type)")
      for sample in samples { lines.append("takeset_\(name){\(label)\(sample.labels)} \(sample.value)") }
    }
    func add(_ name: String, _ type: String, _ help: String, _ value: String) { add(name, type, help, [("", value)]) }
    func time(_ seconds: Double) -> String { String(format: "%.3f", seconds) }
    add(
      "takes_total", "counter", "Takes and episodes since the start, by outcome.",
      state.takes.sorted { $0.key < $1.key }.map { (",outcome=\"\($0.key)\"", "\($0.value)") })
    add("rows_total", "counter", "Rows stored since the start.", "\(state.rows)")
    add("bytes_total", "counter", "Bytes stored in shards since the start.", "\(state.bytes)")
    add("take_seconds_total", "counter", "Seconds that takes needed since the start, summed over takes.", time(state.seconds))
    add("start_time_seconds", "gauge", "Unix time of the start.", time(state.started))
    add("last_take_timestamp_seconds", "gauge", "Unix time at which a take was last written; 0 for never.", time(state.lastTake))
    add(
      "last_success_timestamp_seconds", "gauge",
      "Unix time at which the dataset was last complete, index and manifest included; 0 for never.",
      time(state.lastSuccess))
    add("busy", "gauge", "1 while takes are converted.", state.isBusy ? "1" : "0")
    add("output_blocked", "gauge", "1 while the output cannot be written, as on a full disk.", state.isBlocked ? "1" : "0")
    add("waiting_takes", "gauge", "Takes of a watch that are still arriving or not complete.", "\(state.waiting)")
    add("incomplete_takes", "gauge", "Takes of a watch that rest and are not complete.", "\(state.incomplete)")
    if let free = OutputFailure.freeBytes(at: output) {
      add("output_free_bytes", "gauge", "Free bytes of the output's file system.", String(format: "%.0f", free))
    }
    return lines.joined(separator: "\n") + "\n"
  }

  /// The samples of a dataset that an earlier run has left in a file, by name.
  private static func times(in path: String, _ label: String) -> [String: Double] {
    guard let bytes = try? InputFile.start(of: path, count: 1 << 16) else { return [:] }
    var found: [String: Double] = [:]
    for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") where line.hasPrefix("takeset_") {
      let parts = line.dropFirst("takeset_".count).split(separator: "{\(label)} ", maxSplits: 1)
      if parts.count == 2, let value = Double(parts[1]), value.isFinite { found[String(parts[0])] = value }
    }
    return found
  }

  private static func escaped(_ text: String) -> String {
    text.replacingOccurrences(of: "\\", with: "\\\\").replacingOccurrences(of: "\"", with: "\\\"").replacingOccurrences(
      of: "\n", with: "\\n")
  }
}
