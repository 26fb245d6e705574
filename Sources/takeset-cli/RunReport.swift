import Datasets
import Evidence
import Model
import Synchronization

/// The takes of a run that need attention: one line each where they are few, grouped by reason where they are many.
/// Only counts and the first takes of each reason are kept beyond a limit, unless all are asked for.
final class RunReport: Sendable {
  enum Kind: Int, Sendable { case failed, rejected, warning }

  private struct Line {
    var kind: Kind
    var id: String
    var words: String
    /// The take, and how many of its episodes the line is about.
    var take: String
    var episodes = 1
  }

  private struct Key: Hashable {
    var kind: Kind
    var code: String
  }

  private struct Group {
    var count = 0
    var first: [String] = []
  }

  private struct State {
    var count = 0
    var lines: [Line] = []
    var groups: [Key: Group] = [:]
  }

  private let state = Mutex(State())
  private let keepsAll: Bool
  private static let limit = 20
  private static let named = 3

  init(keepsAll: Bool) { self.keepsAll = keepsAll }

  /// Adds an episode. Episodes of one take of which the same is to be said share a line.
  func add(_ id: String, of take: String, _ outcome: TakeRecord.Outcome, _ reason: String?, _ findings: [Finding]) {
    let (kind, words): (Kind, String)
    let codes: [String]
    switch outcome {
    case .failed: (kind, words, codes) = (.failed, reason ?? "", [Self.code(reason, findings)])
    case .rejected: (kind, words, codes) = (.rejected, reason ?? "", [FindingCode(ofRejection: reason)?.rawValue ?? "unknown"])
    case .written:
      (kind, words) = (.warning, findings.warningWords)
      if words.isEmpty { return }
      codes = Set(findings.filter { $0.severity != .info }.map(\.code.rawValue)).sorted()
    }
    state.withLock { state in
      if let same = state.lines.lastIndex(where: { $0.take == take && $0.kind == kind && $0.words == words }) {
        state.lines[same].episodes += 1
      } else {
        state.count += 1
        if keepsAll || state.lines.count < Self.limit { state.lines.append(Line(kind: kind, id: id, words: words, take: take)) }
      }
      for code in codes {
        var group = state.groups[Key(kind: kind, code: code)] ?? Group()
        group.count += 1
        if group.first.count < Self.named { group.first.append(id) }
        state.groups[Key(kind: kind, code: code)] = group
      }
    }
  }

  /// The finding that failed a take.
  static func code(_ reason: String?, _ findings: [Finding]) -> String {
    findings.last { $0.severity == .error }?.code.rawValue ?? reason ?? "unknown"
  }

  /// The most frequent code of those that are worst; `nil` where none is one that is explained, as of a step of the user's.
  var firstCode: FindingCode? { state.withLock { sorted($0).lazy.compactMap { FindingCode(rawValue: $0.key.code) }.first } }

  /// The lines for people.
  func table(_ style: Style) -> [String] {
    state.withLock { state in
      if keepsAll || state.count <= Self.limit { return list(state.lines, style) }
      let groups = sorted(state)
      let width = min(40, groups.map(\.key.code.count).max() ?? 0)
      let digits = groups.map { counted($0.value.count, "take").count }.max() ?? 0
      return groups.map { key, group in
        let more = group.count - group.first.count
        return "  \(word(key.kind, style))  \(key.code.padded(to: width))  \(counted(group.count, "take").padded(to: digits))  "
          + group.first.joined(separator: ", ") + (more > 0 ? " and \(counted(more, "other"))" : "")
      } + ["  (--verbose lists every take)"]
    }
  }

  /// The reasons for programs: code, count and the first takes of each.
  var reasons: JSONValue {
    state.withLock { state in
      .array(
        sorted(state).map { key, group in
          [
            "outcome": .string(key.kind == .warning ? "warning" : key.kind == .failed ? "failed" : "rejected"), "code": .string(key.code),
            "count": JSONValue(group.count), "takes": .array(group.first.map { .string($0) }),
          ]
        })
    }
  }

  private func sorted(_ state: State) -> [(key: Key, value: Group)] {
    state.groups.sorted { ($0.key.kind.rawValue, -$0.value.count, $0.key.code) < ($1.key.kind.rawValue, -$1.value.count, $1.key.code) }
  }

  private func list(_ lines: [Line], _ style: Style) -> [String] {
    func name(_ line: Line) -> String { line.episodes == 1 ? line.id : "\(line.take) (\(line.episodes) episodes)" }
    let width = min(40, lines.map { name($0).count }.max() ?? 0)
    return lines.sorted { ($0.kind.rawValue, $0.id) < ($1.kind.rawValue, $1.id) }.map {
      "  \(word($0.kind, style))  \(name($0).padded(to: width))  \($0.words)"
    }
  }

  private func word(_ kind: Kind, _ style: Style) -> String {
    switch kind {
    case .failed: style.error("failed  ")
    case .rejected: style.warning("rejected")
    case .warning: style.warning("warning ")
    }
  }
}
