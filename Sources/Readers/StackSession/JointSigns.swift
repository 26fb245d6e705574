package import Evidence
import Model
import Steps

/// Signs by which the angles of the four joints are multiplied: `++--`.
package struct JointSigns: OptionValue {
  private(set) var signs: [Float] = [1, 1, 1, 1]
  package init() {}

  /// Whether no joint is negated.
  var isDefault: Bool { signs.allSatisfy { $0 > 0 } }

  package var json: JSONValue { .string(String(signs.map { $0 < 0 ? "-" : "+" })) }

  package init?(json: JSONValue) {
    guard let text = json.string, text.count == 4, text.allSatisfy({ "+-".contains($0) }) else { return nil }
    signs = text.map { $0 == "-" ? -1 : 1 }
  }

  package static var schema: [String: JSONValue] { ["type": "string", "pattern": "^[+-]{4}$"] }
  package static var words: String { "four signs such as ++--" }
}
