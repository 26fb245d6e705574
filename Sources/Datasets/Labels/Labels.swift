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
    for segment in json[LabelValue.segmentsName]?.array ?? [] {
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
      if name == LabelValue.segmentsName { merged.segments = other.segments }
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
  package var isEmpty: Bool { values.allSatisfy { $0.value == .null || $0.key == LabelValue.segmentsName } && segments.isEmpty }

  /// The segments that were asked for, whether or not rows lie in them.
  var wantedSegments: [JSONValue] { values[LabelValue.segmentsName]?.array ?? [] }

  /// Finds the rows of the segments, and puts these in the order in which they begin.
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
    }.sorted { ($0.start, $0.end, $0.text) < ($1.start, $1.end, $1.text) }
  }

  /// The text of the segment of each row, or else the task.
  package func text(ofRow row: Int) -> String? { segments.last { $0.rows.contains(row) }?.text ?? task }

  /// The record of the manifest.
  package var json: JSONValue {
    var members = values
    if values[LabelValue.segmentsName]?.array != nil {
      // Those that lie in no row wait for other rows where nobody else remembers them.
      let placed = Set(segments.map(\.wanted))
      let others = sources[LabelValue.segmentsName] == Self.edit ? wantedSegments.filter { !placed.contains($0) } : []
      members[LabelValue.segmentsName] = .array(segments.map(\.json) + others)
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
