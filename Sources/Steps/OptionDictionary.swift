package import Evidence

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
