import ArgumentParser
import Datasets
import Evidence
import Foundation
import Model

enum LogFormat: String, ExpressibleByArgument, CaseIterable { case text, json }

/// Messages of a run on stderr: sentences for people, or one JSON object a line for programs.
///
/// A JSON line always has `time` (RFC 3339, UTC, milliseconds), `level` (`info`, `warning` or `error`), `event` and `message`;
/// docs/watching.md lists the other fields of each event.
struct RunLog: Sendable {
  enum Level: String, Sendable { case info, warning, error }

  private let format: LogFormat
  /// Whether text is wrapped as the remarks of the progress in JSON are, so that no line is text.
  private let isWrapped: Bool
  private let isQuiet: Bool
  let isVerbose: Bool

  init(_ format: LogFormat, _ progress: ProgressStyle, _ console: OutputOptions) {
    (self.format, isWrapped, isQuiet, isVerbose) = (format, progress == .json, console.quiet, console.verbose)
  }

  /// Whether a command line, which may have mistakes, asks for a log in JSON.
  static func isJSON(_ arguments: [String]) -> Bool {
    let options = arguments.prefix { $0 != "--" }
    return options.contains("--log-format=json") || zip(options, options.dropFirst()).contains { $0 == ("--log-format", "json") }
  }

  /// The reason for which a program ends whose log is in JSON.
  static func fail(_ message: String) { writeLine(.error, "error", message) }

  /// - Parameter text: The sentence for people, where it differs from the message.
  func write(_ level: Level, _ event: String, _ message: String, text: String? = nil, _ fields: [String: JSONValue] = [:]) {
    if isQuiet, level == .info { return }
    switch format {
    case .text where isWrapped: standardError(JSONValue.object(["event": "log", "message": .string(message)]).canonicalText)
    case .text: standardError(text ?? "takeset: \(message)")
    case .json: writeJSON(level, event, message, fields)
    }
  }

  /// Writes a line only if the log is in JSON, because something else tells people.
  func writeJSON(_ level: Level, _ event: String, _ message: String, _ fields: [String: JSONValue] = [:]) {
    if format == .json, !(isQuiet && level == .info) { Self.writeLine(level, event, message, fields) }
  }

  private static func writeLine(_ level: Level, _ event: String, _ message: String, _ fields: [String: JSONValue] = [:]) {
    let own: [String: JSONValue] = [
      "time": .string(time(Date())), "level": .string(level.rawValue), "event": .string(event), "message": .string(message),
    ]
    standardError(JSONValue.object(fields.merging(own) { $1 }).canonicalText)
  }

  /// A take that has ended.
  func take(_ id: String, _ outcome: TakeRecord.Outcome, _ reason: String?, _ findings: [Finding], rows: Int, seconds: Double) {
    let hasWarnings = findings.contains { $0.severity != .info }
    let words = reason ?? (rows == 1 ? "1 frame" : "\(rows) frames")
    var fields: [String: JSONValue] = [
      "take": .string(id), "outcome": .string(outcome.rawValue), "reason": JSONValue(reason), "rows": JSONValue(rows),
      "seconds": .number((seconds * 1000).rounded() / 1000),
      "codes": .array(Set(findings.filter { $0.severity != .info }.map(\.code.rawValue)).sorted().map { .string($0) }),
    ]
    if outcome == .failed { fields["code"] = .string(RunReport.code(reason, findings)) }
    writeJSON(
      outcome == .failed ? .error : outcome == .rejected || hasWarnings ? .warning : .info, "take", "\(id): \(outcome.rawValue): \(words)",
      fields)
  }

  private static func time(_ date: Date) -> String {
    let milliseconds = Int64((date.timeIntervalSince1970 * 1000).rounded(.down))
    let whole = UnixTime.rfc3339(seconds: milliseconds / 1000)
    return whole.dropLast() + "." + String(1000 + milliseconds % 1000).dropFirst() + "Z"
  }
}
