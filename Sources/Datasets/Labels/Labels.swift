package import Evidence
import Foundation
import Model

/// What a policy has to know of an episode beyond its rows: a task, success, tags, segments, and further scalars. Each value has a source; of
/// several sources the later one wins, name by name.
///
///     var labels = Labels()
///     labels.set(["task": "fold the towel", "success": true], from: "labels.json")
///     labels.task                                      // "fold the towel"
package struct Labels: Sendable, Equatable {
  /// A part of a take with a text of its own.
  package struct Segment: Sendable, Equatable {
    /// Seconds since the first frame of the take; the end is excluded.
    package var start, end: Double
    package var text: String
    package var success: Bool?
    /// The rows of the episode whose times lie in it.
    package var rows: Range<Int>

    package var json: JSONValue {
      var members = wanted.object ?? [:]
      members["rows"] = [JSONValue(rows.lowerBound), JSONValue(rows.upperBound)]
      return .object(members)
    }

    /// The same without rows, as it was asked for.
    var wanted: JSONValue { LabelValue.Segment(start: start, end: end, text: text, success: success).json }
  }

  /// The source of what `takeset label` has set, which later runs keep.
  package static let edit = "takeset label"
  package static let segmentsName = "segments"

  /// Values by name, as `LabelValue` checks them. `null` takes away what an earlier source said.
  package private(set) var values: [String: JSONValue] = [:]
  /// The source of each value.
  package private(set) var sources: [String: String] = [:]
  /// The segments that have rows; of an episode whose rows are known.
  package var segments: [Segment] = []

  package init() {}

  /// The values that a manifest records for an episode. What is not as it should be is left out.
  package init(recorded json: JSONValue) {
    for (name, value) in json.object ?? [:] where name != "sources" {
      guard let source = json["sources"]?[name]?.string, let value = try? LabelValue.checked(name, value) else { continue }
      set([name: value], from: source)
    }
    for segment in json[Self.segmentsName]?.array ?? [] {
      guard let checked = try? LabelValue.segment(segment), let rows = segment["rows"]?.array?.compactMap(\.integer), rows.count == 2,
        0 <= rows[0], rows[0] < rows[1], rows[1] < Int32.max
      else { continue }
      segments.append(Segment(checked, rows: Int(rows[0])..<Int(rows[1])))
    }
  }

  package mutating func set(_ values: [String: JSONValue], from source: String) {
    for (name, value) in values { (self.values[name], sources[name]) = (value, source) }
  }

  /// The values of one source.
  package func values(from isWanted: (String) -> Bool) -> [(source: String, name: String, value: JSONValue)] {
    values.compactMap { name, value in sources[name].flatMap { isWanted($0) ? ($0, name, value) : nil } }.sorted { $0.name < $1.name }
  }

  /// What `takeset label` has set.
  var edits: [(source: String, name: String, value: JSONValue)] { values { $0 == Self.edit } }

  /// These labels with those of the same episode elsewhere: name by name, those that `takeset label` has set, and then these.
  package func merged(with other: Labels) -> Labels {
    var merged = self
    for (name, value) in other.values {
      let isEdit = other.sources[name] == Self.edit && sources[name] != Self.edit
      guard values[name] == nil || isEdit else { continue }
      merged.set([name: value], from: other.sources[name] ?? "")
      if name == Self.segmentsName { merged.segments = other.segments }
    }
    return merged
  }

  package var task: String? { values["task"]?.string }
  package var success: Bool? { values["success"]?.bool }
  package var tags: [String] { values["tags"]?.array?.compactMap(\.string) ?? [] }
  /// Names and values of the further labels, in order.
  package var others: [(name: String, value: JSONValue)] {
    values.filter { !LabelValue.known.contains($0.key) && $0.value != .null }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }

  /// Whether nothing is said of the episode.
  package var isEmpty: Bool { values.allSatisfy { $0.value == .null || $0.key == Self.segmentsName } && segments.isEmpty }

  /// The segments that were asked for, whether or not rows lie in them.
  var wantedSegments: [JSONValue] { values[Self.segmentsName]?.array ?? [] }

  /// Finds the rows of the segments.
  ///
  /// - Parameter times: Of the rows, in nanoseconds since the first frame of the take, ascending.
  mutating func place(in times: [Int64]) {
    func row(at seconds: Double) -> Int {
      var range = 0..<times.count
      while !range.isEmpty {
        let middle = range.lowerBound + range.count / 2
        // Both are exact where a person writes milliseconds: nanoseconds of a take fit in 53 bits.
        if Double(times[middle]) < (seconds * 1e9).rounded() {
          range = (middle + 1)..<range.upperBound
        } else {
          range = range.lowerBound..<middle
        }
      }
      return range.lowerBound
    }
    segments = wantedSegments.compactMap { json in
      guard let segment = try? LabelValue.segment(json) else { return nil }
      let (first, end) = (row(at: segment.start), row(at: segment.end))
      return first < end ? Segment(segment, rows: first..<end) : nil
    }.sorted { ($0.rows.lowerBound, $0.rows.upperBound) < ($1.rows.lowerBound, $1.rows.upperBound) }
  }

  /// The text of the segment of each row, or else the task.
  package func text(ofRow row: Int) -> String? { segments.last { $0.rows.contains(row) }?.text ?? task }

  /// The record of the manifest.
  package var json: JSONValue {
    var members = values
    if values[Self.segmentsName]?.array != nil {
      // Those that lie in no row wait for other rows where nobody else remembers them.
      let placed = Set(segments.map(\.wanted))
      let others = sources[Self.segmentsName] == Self.edit ? wantedSegments.filter { !placed.contains($0) } : []
      members[Self.segmentsName] = .array(segments.map(\.json) + others)
    }
    members["sources"] = .object(sources.mapValues { .string($0) })
    return .object(members)
  }
}

extension Labels.Segment {
  init(_ checked: LabelValue.Segment, rows: Range<Int>) {
    self.init(start: checked.start, end: checked.end, text: checked.text, success: checked.success, rows: rows)
  }
}

/// The rules for the values of labels.
package enum LabelValue {
  struct Segment {
    var start, end: Double
    var text: String
    var success: Bool?

    var json: JSONValue {
      var members: [String: JSONValue] = ["start": .number(start), "end": .number(end), "text": .string(text)]
      members["success"] = success.map { .bool($0) }
      return .object(members)
    }
  }

  /// A value that cannot be, as a sentence.
  package struct Mistake: Error, CustomStringConvertible { package var description: String }

  static let known: Set<String> = ["task", "success", "tags", Labels.segmentsName]
  /// Names of columns and of members, which no other label has.
  static let reserved: Set<String> = ["take", "episode", "start", "end", "text", "rows", "sources", "measures"]
  /// Bytes of a text.
  static let longest = 4096
  /// Whole numbers beyond it may be others by the time a program reads them.
  static let largest = 9_007_199_254_740_992.0

  static func isName(_ name: String) -> Bool {
    name.utf8.count <= 64 && name.utf8.first.map { (97...122).contains($0) } == true
      && name.utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) || $0 == 95 }
  }

  /// Whether it is the name of a label that a dataset has made up.
  package static func isOwn(_ name: String?) -> Bool { name.map { isName($0) && !known.contains($0) && !reserved.contains($0) } ?? false }

  /// The value of a label; `null` takes it away. Throws `Mistake`.
  package static func checked(_ name: String, _ value: JSONValue) throws -> JSONValue {
    if !known.contains(name) {
      if reserved.contains(name) || !isName(name) {
        throw Mistake(
          description:
            "\(name.onOneLine.prefix(64)) is no name of a label; expected task, success, tags, segments or a name such as robot_id")
      }
    }
    switch (name, value) {
    case (_, .null): return .null
    case ("task", .string(let text)): return .string(try self.text(text, of: name))
    case ("success", .bool): return value
    case ("tags", .array(let tags)):
      return .array(
        try tags.map {
          guard let tag = $0.string else { throw Mistake(description: "tags: expected a list of texts, found \($0.type) in it") }
          return .string(try text(tag, of: name))
        })
    case (Labels.segmentsName, .array(let segments)):
      return .array(
        try segments.map { try segment($0).json })
    case ("task", _): throw Mistake(description: "task: expected a text, found \(value.type)")
    case ("success", _):
      throw Mistake(
        description: "success: expected true or false, found \(value.string.map { $0.onOneLine.prefix(64).description } ?? value.type)")
    case ("tags", _): throw Mistake(description: "tags: expected a list of texts, found \(value.type)")
    case (Labels.segmentsName, _): throw Mistake(description: "segments: expected a list of {start, end, text}, found \(value.type)")
    case (_, .string(let text)): return .string(try self.text(text, of: name))
    case (_, .bool): return value
    case (_, .integer(let number)) where abs(Double(number)) <= largest: return value
    case (_, .integer): throw Mistake(description: "\(name): the number is too large to be exact; write it as a text")
    case (_, .number(let number)) where number.isFinite && (abs(number) <= largest || number.rounded() != number): return value
    case (_, .number): throw Mistake(description: "\(name): the number is too large to be exact; write it as a text")
    default: throw Mistake(description: "\(name): expected a text, a number, or true or false, found \(value.type)")
    }
  }

  private static func text(_ text: String, of name: String) throws -> String {
    guard !text.isEmpty, text.utf8.count <= longest, !text.utf8.contains(0) else {
      throw Mistake(description: "\(name): expected a text of 1 to \(longest) bytes\(text.isEmpty ? ", found none" : "")")
    }
    return text
  }

  static func segment(_ json: JSONValue) throws -> Segment {
    guard let members = json.object else { throw Mistake(description: "segments: expected {start, end, text}, found \(json.type)") }
    guard let start = members["start"]?.double, let end = members["end"]?.double, let text = members["text"]?.string else {
      throw Mistake(description: "segments: expected start and end in seconds and a text")
    }
    guard start < end, abs(start) < 1e6, abs(end) < 1e6 else {
      throw Mistake(description: "segments: a segment starts at \(start) s and ends at \(end) s")
    }
    let success = members["success"] ?? .null
    guard success == .null || success.bool != nil else {
      throw Mistake(description: "segments: success: expected true or false, found \(success.type)")
    }
    if let stray = members.keys.sorted().first(where: { !["start", "end", "text", "success", "rows"].contains($0) }) {
      throw Mistake(description: "segments: a segment has no \(stray.onOneLine.prefix(64)); expected start, end, text, success")
    }
    return Segment(start: start, end: end, text: try self.text(text, of: "text"), success: success.bool)
  }

  /// The value of a field of a table: a number, true or false, or the text itself.
  package static func ofField(_ text: String, _ name: String) -> JSONValue {
    switch name {
    case "task", "text": return .string(text)
    case "tags": return .array(text.split(separator: ";").map { .string($0.trimmingCharacters(in: .whitespaces)) }.filter { $0 != "" })
    default:
      if ["true", "false"].contains(text.lowercased()) { return .bool(text.lowercased() == "true") }
      if name == "success" { return text.lowercased() == "none" ? .null : .string(text) }
      guard text.utf8.count <= 32, let value = try? JSONReader(Array(text.utf8)).document(), let number = value.double, number.isFinite,
        abs(number) < largest
      else { return .string(text) }
      return value
    }
  }
}
