package import Evidence

/// Any value, for options whose meaning somebody else knows.
extension JSONValue: OptionValue {
  package var json: JSONValue { self }
  package init?(json: JSONValue) { self = json }
  package static var schema: [String: JSONValue] { [:] }
  package static var words: String { "any value" }
}
