import Foundation
import Synchronization

/// The report on uploads on standard error: a line for each event, and one of rate and time left, which is rewritten on a terminal.
package final class UploadProgress: Sendable {
  private struct State {
    var underWay: Set<Int64> = []
    /// Bytes of each upload under way that has begun to send.
    var sent: [Int64: Int64] = [:]
    /// Bytes sent since the start, in all.
    var total: Int64 = 0
    /// Times, in seconds, with the total then: the last ten seconds.
    var samples: [(time: Double, total: Int64)] = []
    var hasStatus = false
    var lastStatus = 0.0
  }

  private let state = Mutex(State())
  private let isTerminal: Bool
  private let isQuiet: Bool

  package init(isQuiet: Bool = false) {
    self.isQuiet = isQuiet
    isTerminal = isatty(STDERR_FILENO) == 1
  }

  /// Prints a line, unless only problems are wanted.
  package func note(_ line: String) { if !isQuiet { print(line) } }

  /// Prints a line.
  package func problem(_ line: String) { print(line) }

  private func print(_ line: String) {
    state.withLock { state in
      write((state.hasStatus ? "\r\u{1B}[K" : "") + line + "\n")
      state.hasStatus = false
    }
  }

  /// An upload is under way.
  func begin(_ id: Int64) { state.withLock { _ = $0.underWay.insert(id) } }

  /// An upload is at so many bytes. What a server had before it resumed is not counted as sent.
  func at(_ id: Int64, _ offset: Int64) {
    state.withLock { state in
      if let before = state.sent[id] { state.total += max(offset - before, 0) }
      state.sent[id] = offset
    }
  }

  func end(_ id: Int64) {
    state.withLock { state in
      state.sent[id] = nil
      state.underWay.remove(id)
    }
  }

  /// Removes the line of the present state from a terminal.
  func clear() {
    state.withLock { state in
      if state.hasStatus { write("\r\u{1B}[K") }
      state.hasStatus = false
    }
  }

  /// Shows rate and time left; on a terminal always, otherwise every ten seconds.
  ///
  /// - Parameter remaining: Bytes of everything that is not uploaded.
  func show(remaining: Int64) {
    guard !isQuiet else { return }
    let now = ProcessInfo.processInfo.systemUptime
    state.withLock { state in
      state.samples.append((now, state.total))
      state.samples.removeAll { now - $0.time > 10 }
      if state.lastStatus == 0 { state.lastStatus = now }
      guard !state.underWay.isEmpty, isTerminal || now - state.lastStatus >= 10 else { return }
      state.lastStatus = now
      var parts = ["\(state.underWay.count) under way", "\(Self.size(remaining)) left"]
      if state.sent.isEmpty {
        parts.append("reading")
      } else if let first = state.samples.first, now - first.time > 0.5 {
        let rate = Double(state.total - first.total) / (now - first.time)
        parts.append("\(Self.size(Int64(rate)))/s")
        if rate >= 1 { parts.append("about \(Self.duration(Double(remaining) / rate))") }
      }
      let line = parts.joined(separator: ", ")
      write(isTerminal ? "\r\u{1B}[K" + line : line + "\n")
      state.hasStatus = isTerminal
    }
  }

  private func write(_ text: String) { try? FileHandle.standardError.write(contentsOf: Data(text.utf8)) }

  static func size(_ bytes: Int64) -> String {
    var (value, unit) = (Double(bytes), 0)
    let units = ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000, unit < units.count - 1 { (value, unit) = (value / 1000, unit + 1) }
    return unit == 0 ? "\(bytes) B" : String(format: "%.1f \(units[unit])", value)
  }

  static func duration(_ seconds: Double) -> String {
    let seconds = Int(min(max(seconds.rounded(.up), 0), 1e9))
    switch seconds {
    case ..<60: return "\(seconds) s"
    case ..<3600: return "\(seconds / 60) min \(seconds % 60) s"
    default: return "\(seconds / 3600) h \(seconds % 3600 / 60) min"
    }
  }
}
