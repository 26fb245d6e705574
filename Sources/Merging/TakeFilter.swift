package import Datasets
import Evidence
import Foundation
import Model
import Runs
import Steps

/// A condition on the takes of a dataset: `outcome = written and frames >= 100 and not findings has pose-jump`.
///
/// A comparison is a field, an operator and a value; `and`, `or`, `not` and parentheses combine them. Text compares exactly, with `~` by a
/// shell pattern; a list has a value. Values with blanks stand in quotes. Labels are fields, too, those of other names as `labels.robot_id`:
/// `task ~ "cube" and success`; and measures: `measures.sharpness_p10 > 40`.
package struct TakeFilter: Sendable {
  /// A value of a take that a filter can name.
  enum Value {
    case text(String?)
    case number(Double?)
    case list([String])
    case truth(Bool?)
    /// A label of a name of the dataset's own.
    case label(JSONValue?)
    /// Texts of which one has to match, and any part of it for a pattern without `*`.
    case words([String])

    fileprivate var operators: [String] {
      switch self {
      case .text: ["=", "!=", "~"]
      case .number: ["=", "!=", "<", "<=", ">", ">="]
      case .list: ["has"]
      case .truth: ["=", "!="]
      case .label: ["=", "!=", "~", "<", "<=", ">", ">="]
      case .words: ["=", "!=", "~"]
      }
    }
  }

  /// A take of a dataset, as a filter sees it.
  struct Subject {
    var record: TakeRecord
    /// The part of the split; `nil` for takes that are not written.
    var split: String?
    /// Reads the shard: time from the first row to the last in seconds.
    var seconds: () throws -> Double?
    var labels = Labels()
  }

  /// All fields, with an example of their type.
  static let fields: [(name: String, value: @Sendable (Subject) throws -> Value)] = [
    ("id", { .text($0.record.id.text) }),
    ("take", { .text($0.record.id.take) }),
    ("part", { .number($0.record.id.part.map { Double($0) }) }),
    ("reader", { .text($0.record.reader) }),
    ("variant", { .text($0.record.variant) }),
    ("outcome", { .text($0.record.outcome.rawValue) }),
    ("split", { .text($0.split) }),
    ("frames", { .number(Double($0.record.framesOut)) }),
    ("seconds", { .number(try $0.seconds()) }),
    ("findings", { .list($0.record.findings.map(\.code.rawValue)) }),
    ("warnings", { subject in .number(Double(subject.record.findings.count { $0.severity == .warning })) }),
    ("streams", { .list($0.record.streamNames) }),
    ("task", { .words([$0.labels.task].compactMap(\.self)) }),
    ("success", { .truth($0.labels.success) }),
    ("tags", { .list($0.labels.tags) }),
    ("segments", { .words($0.labels.segments.map(\.text)) }),
  ]
  /// The beginning of fields that are labels of other names.
  private static let labelPrefix = "labels."
  private static let measurePrefix = "measures."

  private static func value(of name: String, _ take: Subject) throws -> Value? {
    if name.hasPrefix(labelPrefix) { return .label(take.labels.values[String(name.dropFirst(labelPrefix.count))]) }
    if name.hasPrefix(measurePrefix) {
      return Measures.Name(rawValue: String(name.dropFirst(measurePrefix.count))).map { .number(take.record.measures?[$0]) }
    }
    return try fields.first { $0.name == name }?.value(take)
  }

  private indirect enum Condition: Sendable {
    case comparison(field: String, operation: String, value: String)
    case not(Condition)
    case all([Condition])
    case any([Condition])
  }

  private let condition: Condition

  /// Throws `UsageError` with the place of the first mistake.
  package init(_ text: String) throws {
    var parser = Parser(text)
    condition = try parser.whole()
  }

  /// A sentence on the first `streams has` whose stream no take has.
  func misspelledStream(among streams: Set<String>) -> String? {
    let names = streams.sorted()
    func find(_ condition: Condition) -> String? {
      switch condition {
      case .not(let inner): return find(inner)
      case .all(let conditions), .any(let conditions): return conditions.lazy.compactMap(find).first
      case .comparison("streams", _, let name) where !names.contains(name):
        let meant = Spelling.hint(for: name, among: names)
        return "no take has a stream \(name); streams: \(names.joined(separator: ", "))\(meant)"
      case .comparison: return nil
      }
    }
    return find(condition)
  }

  /// Ids of the episodes of a dataset that meet the condition. Throws `ExportRefusal` where there are none.
  package func episodes(of dataset: Dataset) throws -> [String] {
    let parts = dataset.parts
    let found = try dataset.written.filter { try matches($0, of: dataset, in: parts[$0.id.text]) }
    if found.isEmpty { throw try noMatch(in: [dataset]) }
    return found.map(\.id.text)
  }

  /// The refusal of a condition that no episode meets.
  func noMatch(in datasets: [Dataset]) throws -> ExportRefusal {
    let streams = try datasets.flatMap { dataset in try dataset.takes.flatMap { try dataset.record(of: $0).streamNames } }
    return ExportRefusal("no episode matches" + (misspelledStream(among: Set(streams)).map { ": \($0)" } ?? "; nothing was written"))
  }

  func matches(_ take: TakeEntry, of dataset: Dataset, in part: SplitPart?) throws -> Bool {
    try matches(
      Subject(
        record: dataset.record(of: take), split: part?.rawValue,
        seconds: {
          guard take.output != nil else { return nil }
          let times = try dataset.episode(take).frames.timestamps
          guard let first = times.first, let last = times.last else { return nil }
          return Double(last.since(first)) / 1e9
        }, labels: dataset.record.labels[take.id.text] ?? Labels()))
  }

  func matches(_ take: Subject) throws -> Bool { try Self.holds(condition, take) }

  private static func holds(_ condition: Condition, _ take: Subject) throws -> Bool {
    switch condition {
    case .not(let inner): return try !holds(inner, take)
    case .all(let conditions): return try conditions.allSatisfy { try holds($0, take) }
    case .any(let conditions): return try conditions.contains { try holds($0, take) }
    case .comparison(let name, let operation, let text):
      switch try value(of: name, take) {
      case nil: return false
      case .truth(let own): return (own == (text == "true")) == (operation == "=")
      case .words(let own):
        return switch operation {
        case "~": own.contains { text.isFound(in: $0) }
        case "=": own.contains(text)
        default: !own.contains(text)
        }
      case .label(let own):
        let shown = own?.string ?? own?.canonicalText
        switch operation {
        case "~": return shown.map { text.isFound(in: $0) } ?? false
        case "=", "!=":
          let isSame = own?.double.flatMap { number in Double(text).map { number == $0 } } ?? (shown == text)
          return isSame == (operation == "=")
        default: return compare(own?.double, operation, text)
        }
      case .text(let own):
        if operation == "~" { return own.map { fnmatch(text, $0, 0) == 0 } ?? false }
        return (own == text) == (operation == "=")
      case .list(let own): return own.contains(text)
      case .number(let own): return compare(own, operation, text)
      }
    }
  }

  private static func compare(_ own: Double?, _ operation: String, _ text: String) -> Bool {
    guard let own, let other = Double(text) else { return operation == "!=" }
    return switch operation {
    case "<": own < other
    case "<=": own <= other
    case ">": own > other
    case ">=": own >= other
    case "=": own == other
    default: own != other
    }
  }

  // MARK: Parsing

  private struct Word {
    var text: String
    var column: Int
    var isQuoted = false
  }

  private struct Parser {
    private var words: ArraySlice<Word>
    private let end: Int
    private var unclosed: Int?
    /// Open parentheses and `not`s; the parser calls itself for each.
    private var depth = 0
    private static let deepest = 100

    init(_ text: String) {
      var found: [Word] = []
      let letters = Array(text)
      var index = 0
      while index < letters.count {
        let (letter, start) = (letters[index], index)
        if letter.isWhitespace {
          index += 1
        } else if letter == "'" || letter == "\"" {
          guard let close = letters[(index + 1)...].firstIndex(of: letter) else {
            unclosed = start + 1
            break
          }
          found.append(Word(text: String(letters[(index + 1)..<close]), column: start + 1, isQuoted: true))
          index = close + 1
        } else if "()~".contains(letter) {
          found.append(Word(text: String(letter), column: start + 1))
          index += 1
        } else if "=!<>".contains(letter) {
          while index < letters.count, "=!<>".contains(letters[index]) { index += 1 }
          let symbol = String(letters[start..<index])
          found.append(Word(text: symbol == "==" ? "=" : symbol, column: start + 1))
        } else {
          while index < letters.count, !letters[index].isWhitespace, !"()~=!<>'\"".contains(letters[index]) { index += 1 }
          found.append(Word(text: String(letters[start..<index]), column: start + 1))
        }
      }
      (words, end) = (found[...], letters.count + 1)
    }

    mutating func whole() throws -> Condition {
      if let unclosed { throw UsageError("--where, column \(unclosed): the quote has no end") }
      let condition = try either()
      if let word = words.first { throw mistake("expected and, or, or the end, found \(word.text)") }
      return condition
    }

    private func mistake(_ message: String) -> UsageError { UsageError("--where, column \(words.first?.column ?? end): \(message)") }

    private mutating func take(_ text: String) -> Bool {
      guard let word = words.first, !word.isQuoted, word.text == text else { return false }
      words = words.dropFirst()
      return true
    }

    private mutating func either() throws -> Condition {
      var conditions = [try both()]
      while take("or") { conditions.append(try both()) }
      return conditions.count == 1 ? conditions[0] : .any(conditions)
    }

    private mutating func both() throws -> Condition {
      var conditions = [try single()]
      while take("and") { conditions.append(try single()) }
      return conditions.count == 1 ? conditions[0] : .all(conditions)
    }

    private mutating func single() throws -> Condition {
      depth += 1
      defer { depth -= 1 }
      guard depth <= Self.deepest else { throw mistake("the condition is nested deeper than \(Self.deepest) parentheses") }
      if take("not") { return try .not(single()) }
      if take("(") {
        let condition = try either()
        guard take(")") else { throw mistake("expected )") }
        return condition
      }
      return try comparison()
    }

    /// The values of fields that have only some: comparing with another one would silently take all takes or none.
    private static let known = [
      "outcome": ["written", "rejected", "failed"], "split": SplitPart.allCases.map(\.rawValue), "success": ["true", "false"],
      "reader": Registry.readers.map { $0.name },
      "findings": FindingCode.allCases.map(\.rawValue),
    ]

    private mutating func comparison() throws -> Condition {
      let names = TakeFilter.fields.map { $0.name }
      guard let field = words.first else { throw mistake("expected a field, such as frames") }
      let measures = Measures.Name.allCases.map(\.rawValue)
      if !field.isQuoted, let name = field.text.dropping(TakeFilter.measurePrefix), !measures.contains(name) {
        throw mistake(
          "there is no measure \(name); measures: \(measures.joined(separator: ", "))\(Spelling.hint(for: name, among: measures))")
      }
      guard !field.isQuoted,
        field.text.hasPrefix(TakeFilter.measurePrefix) || names.contains(field.text)
          || LabelValue.isOwn(field.text.dropping(TakeFilter.labelPrefix))
      else {
        let streams = [StreamName.image, .depth, .confidence, .pose, .joints, .depthPoint, .imu].map(\.rawValue) + ["intrinsics"]
        let isStream = streams.contains(field.text) || streams.contains("camera_" + field.text)
        let stream = streams.first { $0 == field.text } ?? "camera_" + field.text
        let meant =
          isStream
          ? "; did you mean streams has \(stream)?"
          : Spelling.hint(for: field.text, among: names)
        throw mistake("there is no field \(field.text); fields: \(names.joined(separator: ", "))\(meant)")
      }
      words = words.dropFirst()
      let example = Subject(record: TakeRecord(id: EpisodeID(take: ""), reader: nil, outcome: .written, findings: [])) { nil }
      let kind = try TakeFilter.value(of: field.text, example)
      // Truth alone is a condition: `success`.
      if case .truth = kind, words.first.map({ !$0.isQuoted && "=!~<>".contains($0.text.prefix(1)) }) != true {
        return .comparison(field: field.text, operation: "=", value: "true")
      }
      let operators = kind?.operators ?? []
      guard let operation = words.first, !operation.isQuoted, operators.contains(operation.text) else {
        throw mistake("expected \(operators.joined(separator: " or ")) after \(field.text), found \(words.first?.text ?? "nothing")")
      }
      words = words.dropFirst()
      guard let value = words.first, value.isQuoted || !"()".contains(value.text) else {
        throw mistake("expected a value after \(operation.text)")
      }
      if operators.contains("<="), !operators.contains("~") || operation.text.hasPrefix("<") || operation.text.hasPrefix(">"),
        !DecimalNumber.isDecimal(value.text)
      {
        throw mistake("expected a number, found \(value.text)")
      }
      if operation.text != "~", let known = Self.known[field.text], !known.contains(value.text) {
        let meant = Spelling.hint(for: value.text, among: known)
        let all = known.count < 10 ? " (\(known.joined(separator: ", ")))" : ""
        throw mistake("there is no \(field.text == "findings" ? "finding" : field.text) \(value.text)\(all)\(meant)")
      }
      words = words.dropFirst()
      return .comparison(field: field.text, operation: operation.text, value: value.text)
    }
  }
}

extension TakeRecord {
  /// The take's streams, and the intrinsics that it has as rows.
  fileprivate var streamNames: [String] {
    let written = (output?.arrays ?? []).compactMap { $0.path.split(separator: "/").last.map(String.init) }
    return streams.map(\.name.rawValue) + written.filter { $0.hasSuffix("intrinsics") }
  }
}

extension String {
  /// Whether this pattern with `*`, or this part of a text, is in a text.
  fileprivate func isFound(in text: String) -> Bool {
    fnmatch(contains("*") ? shellPattern : "*\(shellPattern)*", text, 0) == 0
  }

  /// The rest after a beginning; `nil` where it begins otherwise.
  fileprivate func dropping(_ beginning: String) -> String? { hasPrefix(beginning) ? String(dropFirst(beginning.count)) : nil }
}
