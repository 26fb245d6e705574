import Model
import Synchronization
import Takeset

/// The takes of a run that need attention, worst first.
final class RunReport: Sendable {
  struct Line: Sendable {
    enum Kind: Int, Sendable { case failed, rejected, warning }
    var kind: Kind
    var id: String
    var words: String
  }

  private let lines = Mutex<[Line]>([])
  private static let limit = 20

  func add(_ id: String, _ outcome: TakeRecord.Outcome, _ reason: String?, _ findings: [Finding]) {
    let line: Line
    switch outcome {
    case .failed: line = Line(kind: .failed, id: id, words: reason ?? "")
    case .rejected: line = Line(kind: .rejected, id: id, words: reason ?? "")
    case .written:
      let warnings = findings.warningWords
      if warnings.isEmpty { return }
      line = Line(kind: .warning, id: id, words: warnings)
    }
    lines.withLock { $0.append(line) }
  }

  /// One line per take; takes beyond the limit are only counted.
  func table(_ style: Style, all: Bool) -> [String] {
    let sorted = lines.withLock(\.self).sorted { ($0.kind.rawValue, $0.id) < ($1.kind.rawValue, $1.id) }
    guard !sorted.isEmpty else { return [] }
    let shown = all ? sorted[...] : sorted.prefix(Self.limit)
    let width = min(40, shown.map(\.id.count).max() ?? 0)
    var output = shown.map { line in
      let kind =
        switch line.kind {
        case .failed: style.error("failed  ")
        case .rejected: style.warning("rejected")
        case .warning: style.warning("warning ")
        }
      return "  \(kind)  \(line.id.padded(to: width))  \(line.words)"
    }
    if shown.count < sorted.count { output.append("  … and \(counted(sorted.count - shown.count, "more take")) (--verbose lists all)") }
    return output
  }
}
