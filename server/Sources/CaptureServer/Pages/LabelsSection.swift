import Evidence
import Foundation
import GRDB
import Hummingbird

/// The labels of a capture on its page: words for those who read, a form for those who may change them.
struct LabelsSection {
  struct Segment {
    var start, end, text: String
    var succeeded, failed: Bool
  }
  struct Fact {
    var name: String
    var value: String
  }

  var task: String
  var succeeded, failed: Bool
  var tags: String
  var segments: [Segment]
  /// Labels of other names, which the form leaves as they are.
  var others: [Fact]
  var hasOthers: Bool
  /// Tasks that captures of the project have, for the form.
  var tasks: [String] = []
  var canChange: Bool
  /// Whether the capture has one take, which segments are of.
  var hasTimes: Bool
  /// Whether the dataset lacks the last change.
  var isWaiting: Bool
  /// The number of the labels that the form changes.
  var revision: Int
  /// Whether somebody else has changed them since the form was shown.
  var isChanged = false
  /// Why the form cannot be taken as it was sent.
  var mistake: String?

  /// `nil` where there is nothing to read or to change.
  init?(_ capture: Capture, own: CaptureLabels, takes: Int, isLabelled: Bool, canChange: Bool) {
    let labels = CaptureLabels(stored: capture.labels).over(own)
    guard canChange ? capture.status != .rejected && capture.status != .quarantined : !labels.values.isEmpty else { return nil }
    let values = labels.values
    task = values["task"]?.string ?? ""
    (succeeded, failed) = (values["success"]?.bool == true, values["success"]?.bool == false)
    tags = (values["tags"]?.array ?? []).compactMap(\.string).joined(separator: "; ")
    segments = labels.segments.map {
      Segment(
        start: Self.text($0.start), end: Self.text($0.end), text: $0.text, succeeded: $0.success == true, failed: $0.success == false)
    }
    others = values.filter { !LabelValue.known.contains($0.key) }.sorted { $0.key < $1.key }.map {
      Fact(name: $0.key, value: $0.value.string ?? $0.value.bool.map { "\($0)" } ?? $0.value.double.map(Self.text) ?? "")
    }
    (hasOthers, self.canChange, hasTimes, isWaiting) = (!others.isEmpty, canChange, takes < 2, !isLabelled)
    revision = Int(capture.labelsRevision)
  }

  /// The form as somebody has filled it in, with what is wrong.
  mutating func show(_ form: LabelsForm, _ failure: Failure) {
    isChanged = failure.status == .preconditionFailed
    mistake = isChanged ? nil : failure.message
    (task, tags) = (form.fields.task, form.fields.tags)
    (succeeded, failed) = (form.fields.success == "true", form.fields.success == "false")
    segments = form.rows.map {
      Segment(start: $0.start, end: $0.end, text: $0.text, succeeded: $0.outcome == "true", failed: $0.outcome == "false")
    }
    isWaiting = false
  }

  private static func text(_ number: Double) -> String {
    number == number.rounded() && abs(number) < 1e15 ? "\(Int64(number))" : "\(number)"
  }

  /// The tasks that are given most often to the newest captures of a project.
  static func tasks(of project: String, _ database: Database) throws -> [String] {
    try String.fetchAll(
      database,
      sql: """
        SELECT json_extract(labels, '$.task') AS task
        FROM (SELECT labels FROM capture WHERE project = ? AND labels IS NOT NULL ORDER BY receivedAt DESC LIMIT 1000)
        WHERE json_valid(labels) AND json_type(labels, '$.task') = 'text'
        GROUP BY task ORDER BY COUNT(*) DESC, task LIMIT 50
        """, arguments: [project])
  }
}

/// What the form of a capture's labels was sent with.
struct LabelsForm {
  struct Fields: Decodable {
    var task: String
    var success: String
    var tags: String
    /// The number of the labels that the form showed.
    var revision: Int64?
    /// Of the rows of segments, one after the other; absent where a capture has several takes.
    var start: [String]?
    var end: [String]?
    var text: [String]?
    var outcome: [String]?
  }

  struct Row { var start, end, text, outcome: String }

  let fields: Fields
  /// The segments that are not empty.
  private(set) var rows: [Row] = []

  /// Throws `Failure` 400 for what no form of ours sends.
  init(_ body: String) throws {
    guard let fields = try? URLEncodedFormDecoder().decode(Fields.self, from: body) else {
      throw Failure.invalid("the form is not understood")
    }
    self.fields = fields
    let (starts, ends, texts, outcomes) = (fields.start ?? [], fields.end ?? [], fields.text ?? [], fields.outcome ?? [])
    guard Set([starts.count, ends.count, texts.count, outcomes.count]).count == 1 else {
      throw Failure.invalid("the form is not understood")
    }
    for index in starts.indices {
      let row = Row(
        start: Self.trimmed(starts[index]), end: Self.trimmed(ends[index]), text: Self.trimmed(texts[index]), outcome: outcomes[index])
      if !(row.start + row.end + row.text).isEmpty { rows.append(row) }
    }
  }

  private static func trimmed(_ text: String) -> String { text.trimmingCharacters(in: .whitespacesAndNewlines) }

  /// The labels by their names, `null` for those without a value. Throws `Failure` 400.
  private func values() throws -> [String: JSONValue] {
    let task = Self.trimmed(fields.task)
    let tags = fields.tags.split(separator: ";").map { Self.trimmed(String($0)) }.filter { $0 != "" }
    var values: [String: JSONValue] = [
      "task": task.isEmpty ? .null : .string(task), "success": try Self.truth(fields.success),
      "tags": tags.isEmpty ? .null : .array(tags.map { .string($0) }),
    ]
    // A capture of several takes has none in its form.
    guard fields.start != nil else { return values }
    var segments = try rows.enumerated().map { index, row in
      guard let start = Double(row.start), let end = Double(row.end), !row.text.isEmpty else {
        let found = [row.start, row.end, row.text].map { $0.isEmpty ? "nothing" : $0 }
        throw Failure.invalid(
          "segment \(index + 1): expected start and end in seconds, such as 1.5, and a text; found \(found[0]), \(found[1]) and \(found[2])"
        )
      }
      return LabelValue.Segment(start: start, end: end, text: row.text, success: try Self.truth(row.outcome).bool)
    }
    segments.sort { ($0.start, $0.end) < ($1.start, $1.end) }
    values[LabelValue.segmentsName] = segments.isEmpty ? .null : .array(segments.map(\.json))
    return values
  }

  private static func truth(_ text: String) throws -> JSONValue {
    switch text {
    case "": .null
    case "true": true
    case "false": false
    default: throw Failure.invalid("success: expected true, false or nothing, found \(text)")
    }
  }

  /// Sets what the form has, but not what the capture says of itself anyway. Throws `Failure` 400 for a label that cannot be.
  func apply(to labels: inout CaptureLabels, own: CaptureLabels) throws {
    for (name, value) in try values().sorted(by: { $0.key < $1.key }) {
      if value == own.values[name] ?? .null { labels.remove(name) } else { try labels.set(name, value) }
    }
  }
}
