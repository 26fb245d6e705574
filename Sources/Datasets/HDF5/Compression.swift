package import Evidence
import Model
import Steps

/// A deflate level, or the fastest that still makes ordinary deflate streams.
package enum Compression: Equatable, Sendable {
  case level(Int)
  case fast

  /// The level for HDF5's deflate filter and for libdeflate; `nil` omits the filters.
  package var deflate: Int? {
    switch self {
    case .level(0): nil
    case .level(let level): level
    case .fast: 1
    }
  }
}

extension Compression: OptionValue {
  package var json: JSONValue {
    switch self {
    case .level(let level): .integer(Int64(level))
    case .fast: "fast"
    }
  }

  package init?(json: JSONValue) {
    switch json {
    case .integer(let level) where (0...9).contains(level): self = .level(Int(level))
    case "fast": self = .fast
    default: return nil
    }
  }

  package static var schema: [String: JSONValue] { ["oneOf": [["type": "integer", "minimum": 0, "maximum": 9], ["const": "fast"]]] }
  package static var words: String { "0 to 9, or fast" }
  package static var choices: [String] { ["fast"] }
}
