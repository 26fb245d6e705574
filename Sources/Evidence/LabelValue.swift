import Foundation
import Model

/// The rules for the values of labels, in datasets and on the server.
///
///     try LabelValue.checked("success", true)        // true
///     try LabelValue.checked("success", "perhaps")   // throws: success: expected true or false, found perhaps
public enum LabelValue {
  /// A part of a take, in seconds since its first frame; the end is excluded.
  public struct Segment: Sendable, Equatable {
    public var start, end: Double
    public var text: String
    public var success: Bool?

    public init(start: Double, end: Double, text: String, success: Bool? = nil) {
      (self.start, self.end, self.text, self.success) = (start, end, text, success)
    }

    public var json: JSONValue {
      var members: [String: JSONValue] = ["start": .number(start), "end": .number(end), "text": .string(text)]
      members["success"] = success.map { .bool($0) }
      return .object(members)
    }
  }

  /// A value that cannot be, as a sentence.
  public struct Mistake: Error, CustomStringConvertible { public var description: String }

  public static let known: Set<String> = ["task", "success", "tags", segmentsName]
  public static let segmentsName = "segments"
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
  public static func checked(_ name: String, _ value: JSONValue) throws -> JSONValue {
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
    case (segmentsName, .array(let segments)):
      return .array(
        try segments.map { try segment($0).json })
    case ("task", _): throw Mistake(description: "task: expected a text, found \(value.type)")
    case ("success", _):
      throw Mistake(
        description: "success: expected true or false, found \(value.string.map { $0.onOneLine.prefix(64).description } ?? value.type)")
    case ("tags", _): throw Mistake(description: "tags: expected a list of texts, found \(value.type)")
    case (segmentsName, _): throw Mistake(description: "segments: expected a list of {start, end, text}, found \(value.type)")
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

  public static func segment(_ json: JSONValue) throws -> Segment {
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
