package import Evidence
import Model
import Steps

/// How a pipeline joins takes of several phones to one: the member `join` of a pipeline file.
///
///     join: {by: session, members: {left: "*-left", right: "*-right"}, reference: left, incomplete: reject}
package struct Join: Sendable, Equatable {
  /// What takes of one moment have in common.
  package enum Rule: String, OptionChoice {
    /// The recording's name but for the side, or the folder, as the app that records with several phones has it.
    case session
    /// Their names but for the part that says which phone it is.
    case name
    /// Their Unix times, of which those of one moment have the most in common.
    case time
  }

  /// What becomes of a group that lacks a member.
  package enum Incomplete: String, OptionChoice {
    /// It is rejected.
    case reject
    /// It is written without the member's streams.
    case keep
    /// Its takes are written by themselves.
    case alone
  }

  var by = Rule.session
  /// The pattern of the ids of each member's takes, by its name.
  var members: [String: NamePattern] = [:]
  /// The member whose frames are the rows.
  var reference = ""
  var incomplete = Incomplete.reject
  /// Seconds that are added to a member's times.
  var offset: [String: Double] = [:]

  private static let greatestOffset = 3600.0

  /// Throws `PipelineFileError` for the first mistake.
  init(_ value: JSONValue) throws {
    guard let given = value.object else {
      throw PipelineFileError("join", "expected an object with by and members, found \(value.kind)")
    }
    let keys = ["by", "members", "reference", "incomplete", "offset"]
    if let other = given.keys.sorted().first(where: { !keys.contains($0) }) {
      throw PipelineFileError(
        "join.\(other)", "unknown key; join has \(keys.joined(separator: ", "))\(Spelling.hint(for: other, among: keys))")
    }
    func choice<Choice: OptionChoice>(_ key: String, _ usual: Choice) throws -> Choice {
      guard let text = given[key] else { return usual }
      guard let choice = Choice(json: text) else {
        throw PipelineFileError("join.\(key)", "expected \(Choice.words), found \(text.string.map { "\"\($0)\"" } ?? text.kind)")
      }
      return choice
    }
    func object(_ key: String) throws -> [(key: String, value: JSONValue)] {
      guard let value = given[key] else { return [] }
      guard let members = value.object else {
        throw PipelineFileError("join.\(key)", "expected an object with the names of members, found \(value.kind)")
      }
      return members.sorted { $0.key < $1.key }
    }
    by = try choice("by", by)
    incomplete = try choice("incomplete", incomplete)
    for (name, pattern) in try object("members") {
      let path = "join.members.\(name)"
      guard Self.isName(name) else {
        throw PipelineFileError(path, "expected a name of lowercase letters and digits that starts with a letter, as streams begin with it")
      }
      guard let text = pattern.string, !text.isEmpty else {
        throw PipelineFileError(path, "expected a pattern of take ids, such as \"*-\(name)\", found \(pattern.kind)")
      }
      members[name] = NamePattern(text)
    }
    guard !members.isEmpty else {
      throw PipelineFileError(
        "join.members", "expected the name of each member and the pattern of its takes, such as {left: \"*-left\", right: \"*-right\"}")
    }
    reference = given["reference"].map { $0.string ?? $0.canonicalText } ?? members.keys.min() ?? ""
    if members[reference] == nil { throw unknown(reference, "join.reference") }
    for (name, seconds) in try object("offset") {
      if members[name] == nil { throw unknown(name, "join.offset.\(name)") }
      guard let number = seconds.double, number.magnitude <= Self.greatestOffset else {
        throw PipelineFileError("join.offset.\(name)", "expected seconds from -\(Int(Self.greatestOffset)) to \(Int(Self.greatestOffset))")
      }
      offset[name] = number
    }
  }

  /// The member whose pattern the id of a take matches; `nil` where none does, or several do.
  package func member(of id: String) -> String? {
    let matches = members.filter { $0.value.parts(of: id) != nil }.keys
    return matches.count == 1 ? matches.first : nil
  }

  /// The error for a name that no member has.
  func unknown(_ name: String, _ path: String) -> PipelineFileError {
    let names = members.keys.sorted()
    return PipelineFileError(
      path, "there is no member \(name); the members are \(names.joined(separator: ", "))\(Spelling.hint(for: name, among: names))")
  }

  /// Whether a name of a member matches `^[a-z][a-z0-9]*$`: streams are `<member>_<stream>`.
  private static func isName(_ name: String) -> Bool { StreamName.isName(name) && !name.contains("_") && name.utf8.count <= 32 }

  /// As the manifest records it, with what was left out.
  var json: JSONValue {
    [
      "by": by.json, "members": .object(members.mapValues { .string($0.text) }), "reference": .string(reference),
      "incomplete": incomplete.json, "offset": .object(offset.mapValues { .number($0) }),
    ]
  }

  /// The JSON Schema of `join`.
  package static var schema: JSONValue {
    let name: JSONValue = ["pattern": "^[a-z][a-z0-9]*$"]
    return [
      "type": "object", "required": ["members"], "additionalProperties": false,
      "description": "Takes of several phones at the same time, as one",
      "properties": [
        "by": .object(["default": "session"].merging(Rule.schema) { $1 }),
        "members": [
          "type": "object", "minProperties": 1, "propertyNames": name, "additionalProperties": ["type": "string", "minLength": 1],
        ],
        "reference": ["type": "string", "pattern": "^[a-z][a-z0-9]*$"],
        "incomplete": .object(["default": "reject"].merging(Incomplete.schema) { $1 }),
        "offset": [
          "type": "object", "propertyNames": name,
          "additionalProperties": ["type": "number", "minimum": .number(-greatestOffset), "maximum": .number(greatestOffset)],
        ],
      ],
    ]
  }
}

/// A pattern of names in which `*` stands for any text.
struct NamePattern: Sendable, Equatable {
  let text: String
  init(_ text: String) { self.text = text }

  /// What each `*` stands for in a name; `nil` for a name that does not match. Of several ways, the one in which the first stand for least.
  func parts(of name: String) -> [String]? {
    let literals = text.split(separator: "*", omittingEmptySubsequences: false)
    guard let first = literals.first, name.hasPrefix(first) else { return nil }
    var rest = name.dropFirst(first.count)
    if literals.count == 1 { return rest.isEmpty ? [] : nil }
    var parts: [String] = []
    for literal in literals.dropFirst().dropLast() {
      guard let place = literal.isEmpty ? rest.startIndex..<rest.startIndex : rest.firstRange(of: literal) else { return nil }
      parts.append(String(rest[..<place.lowerBound]))
      rest = rest[place.upperBound...]
    }
    let last = literals[literals.count - 1]
    guard rest.hasSuffix(last) else { return nil }
    return parts + [String(rest.dropLast(last.count))]
  }
}
