package import Evidence
package import Model

extension Measures {
  /// All measures by name, `null` for those that cannot be.
  package var json: JSONValue {
    .object(Dictionary(uniqueKeysWithValues: Name.allCases.map { ($0.rawValue, self[$0].map { .number($0) } ?? .null) }))
  }

  /// Reads what `json` writes; other names are skipped.
  init(_ reader: JSONReader) throws {
    self.init()
    try reader.members { key in
      guard let name = Name(rawValue: key) else { return false }
      let value = try reader.optional { try reader.decimal() }
      if let value, abs(value) > Self.greatest { throw ImplausibleMeasure(name: name, value: value) }
      self[name] = value
      return true
    }
  }
}

private struct ImplausibleMeasure: Error, CustomStringConvertible {
  var name: Measures.Name
  var value: Double
  var description: String { "the measure \(name.rawValue) cannot be \(value)" }
}
