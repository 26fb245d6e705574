package import Evidence

/// An option of a step, declared once: its default, meaning with unit, and range. Help, range errors, the schema of pipeline files
/// and the tables of `docs/pipeline.md` are generated from the declaration.
///
///     @StepOption("width of the result in pixels", 1...4096) var width = 256
///     @StepOption("frames per second to keep (Hz)", above: 0, through: 1e6) var rate: Double?
///
/// The property `whenLargerThan` is the option `when-larger-than`.
@propertyWrapper
package struct StepOption<Value: OptionValue>: Sendable {
  package var wrappedValue: Value
  /// Meaning with unit; empty in a decoded step, because declarations come from the step's defaults.
  let meaning: String
  let range: OptionRange?

  package init(wrappedValue: Value, _ meaning: String) {
    (self.wrappedValue, self.meaning, range) = (wrappedValue, meaning, nil)
  }

  package init(wrappedValue: Value, _ meaning: String, _ range: ClosedRange<Value.Bound>) where Value: OptionNumber {
    (self.wrappedValue, self.meaning) = (wrappedValue, meaning)
    self.range = OptionRange(minimum: Double(range.lowerBound.json), maximum: Double(range.upperBound.json))
  }

  package init(wrappedValue: Value, _ meaning: String, _ range: PartialRangeFrom<Value.Bound>) where Value: OptionNumber {
    (self.wrappedValue, self.meaning) = (wrappedValue, meaning)
    self.range = OptionRange(minimum: Double(range.lowerBound.json))
  }

  /// `above`: The limit that values must exceed.
  package init(wrappedValue: Value, _ meaning: String, above: Double, through maximum: Double) where Value: OptionNumber {
    (self.wrappedValue, self.meaning) = (wrappedValue, meaning)
    range = OptionRange(exclusiveMinimum: above, maximum: maximum)
  }
}

extension StepOption: Equatable where Value: Equatable {
  /// Compares the values alone, as a decoded option has no meaning and no range.
  package static func == (a: StepOption, b: StepOption) -> Bool { a.wrappedValue == b.wrappedValue }
}

extension StepOption: Codable {
  package init(from decoder: any Decoder) throws {
    let json = try JSONValue(from: decoder)
    guard let value = Value(json: json) else {
      throw DecodingError.dataCorrupted(
        .init(codingPath: decoder.codingPath, debugDescription: "expected \(Value.words), found \(json.kind)"))
    }
    self.init(wrappedValue: value, "")
  }
  /// Encodes the bare value.
  package func encode(to encoder: any Encoder) throws { try wrappedValue.json.encode(to: encoder) }
}

/// Options that several steps share, as one property of each: `var archive = ArchiveLimits()`. Their names in a pipeline file are those of
/// the group's own options.
package protocol StepOptionGroup: Codable, Sendable {}

/// The limits of a numeric option.
package struct OptionRange: Sendable, Equatable {
  var minimum: Double?
  var exclusiveMinimum: Double?
  var maximum: Double?

  func contains(_ number: Double) -> Bool {
    number >= minimum ?? -.infinity && number > exclusiveMinimum ?? -.infinity && number <= maximum ?? .infinity
  }

  /// `from 1 to 4096`, `above 0, up to 600`, `of 0 or more`.
  var words: String {
    func text(_ number: Double) -> String { JSONValue.number(number).canonicalText }
    return switch (minimum, exclusiveMinimum, maximum) {
    case (let minimum?, _, let maximum?): "from \(text(minimum)) to \(text(maximum))"
    case (_, let above?, let maximum?): "above \(text(above)), up to \(text(maximum))"
    case (let minimum?, _, nil): "of \(text(minimum)) or more"
    default: ""
    }
  }

  var schema: [String: JSONValue] {
    var members: [String: JSONValue] = [:]
    for (key, bound) in [("minimum", minimum), ("exclusiveMinimum", exclusiveMinimum), ("maximum", maximum)] {
      if let bound { members[key] = bound == bound.rounded() ? .integer(Int64(bound)) : .number(bound) }
    }
    return members
  }
}

/// A type of option values.
package protocol OptionValue: Sendable {
  /// The value as the manifest records it.
  var json: JSONValue { get }
  /// The value in JSON; `nil` for another type or a value that is not allowed.
  init?(json: JSONValue)
  /// The JSON Schema of the values.
  static var schema: [String: JSONValue] { get }
  /// `a whole number`, `"fit" or "stretch"`.
  static var words: String { get }
  /// The same for several values: `whole numbers`.
  static var pluralWords: String { get }
  /// The allowed values, if they can be listed; the nearest to a misspelled one is suggested.
  static var choices: [String] { get }
}

extension OptionValue {
  package static var choices: [String] { [] }
  package static var pluralWords: String { words }
}

/// A number, optional or not, whose range can be limited.
package protocol OptionNumber: OptionValue {
  associatedtype Bound: OptionValue & Comparable
}

extension Double {
  fileprivate init(_ json: JSONValue) { self = json.double ?? .nan }
}

extension Int: OptionNumber {
  package typealias Bound = Int
  package var json: JSONValue { .integer(Int64(self)) }
  package init?(json: JSONValue) {
    guard let value = json.integer.flatMap({ Int(exactly: $0) }) else { return nil }
    self = value
  }
  package static var schema: [String: JSONValue] { ["type": "integer"] }
  package static var words: String { "a whole number" }
  package static var pluralWords: String { "whole numbers" }
}

extension Double: OptionNumber {
  package typealias Bound = Double
  /// The number in JSON; whole numbers are recorded as integers.
  package var json: JSONValue { Int64(exactly: self).map { .integer($0) } ?? .number(self) }
  package init?(json: JSONValue) {
    guard let value = json.double, value.isFinite else { return nil }
    self = value
  }
  package static var schema: [String: JSONValue] { ["type": "number"] }
  package static var words: String { "a number" }
  package static var pluralWords: String { "numbers" }
}

extension Bool: OptionValue {
  package var json: JSONValue { .bool(self) }
  package init?(json: JSONValue) {
    guard case .bool(let value) = json else { return nil }
    self = value
  }
  package static var schema: [String: JSONValue] { ["type": "boolean"] }
  package static var words: String { "true or false" }
}

extension String: OptionValue {
  package var json: JSONValue { .string(self) }
  package init?(json: JSONValue) {
    guard let value = json.string else { return nil }
    self = value
  }
  package static var schema: [String: JSONValue] { ["type": "string"] }
  package static var words: String { "text" }
  package static var pluralWords: String { "texts" }
}

extension Optional: OptionValue where Wrapped: OptionValue {
  package var json: JSONValue { map(\.json) ?? .null }
  package init?(json: JSONValue) {
    if json == .null {
      self = .none
    } else if let value = Wrapped(json: json) {
      self = .some(value)
    } else {
      return nil
    }
  }
  package static var schema: [String: JSONValue] {
    var schema = Wrapped.schema
    // A list of values, or of schemas, gets null as another one.
    if let type = schema["type"], schema["enum"] == nil {
      schema["type"] = [type, "null"]
    } else {
      return ["anyOf": [.object(schema), ["type": "null"]]]
    }
    return schema
  }
  package static var words: String { Wrapped.words }
  package static var choices: [String] { Wrapped.choices }
}

extension Optional: OptionNumber where Wrapped: OptionNumber {
  package typealias Bound = Wrapped.Bound
}

extension Array: OptionValue where Element: OptionValue {
  package var json: JSONValue { .array(map(\.json)) }
  package init?(json: JSONValue) {
    guard case .array(let members) = json else { return nil }
    let values = members.compactMap { Element(json: $0) }
    guard values.count == members.count else { return nil }
    self = values
  }
  package static var schema: [String: JSONValue] { ["type": "array", "items": .object(Element.schema)] }
  package static var words: String { "a list of \(Element.pluralWords)" }
  package static var choices: [String] { Element.choices }
}

/// An option with a fixed set of named values.
package protocol OptionChoice: OptionValue, CaseIterable, RawRepresentable where RawValue == String {}

extension OptionChoice {
  package var json: JSONValue { .string(rawValue) }
  package init?(json: JSONValue) {
    guard let value = json.string.flatMap({ Self(rawValue: $0) }) else { return nil }
    self = value
  }
  package static var choices: [String] { allCases.map(\.rawValue) }
  package static var schema: [String: JSONValue] { ["enum": .array(choices.map { .string($0) })] }
  package static var words: String {
    guard let last = choices.last, choices.count > 1 else { return choices.first ?? "" }
    return "\(choices.dropLast().joined(separator: ", ")) or \(last)"
  }
}

/// An object of names and values of one type, such as `{joints: 0.02}`. A range of the option does not apply to its values.
extension Dictionary: OptionValue where Key == String, Value: OptionValue {
  package var json: JSONValue { .object(mapValues(\.json)) }

  package init?(json: JSONValue) {
    guard case .object(let members) = json else { return nil }
    let values = members.compactMapValues { Value(json: $0) }
    guard values.count == members.count else { return nil }
    self = values
  }

  package static var schema: [String: JSONValue] { ["type": "object", "additionalProperties": .object(Value.schema)] }
  package static var words: String { "an object with \(Value.words) for each name" }
}
