import Foundation

extension String {
  /// The text with its control characters, line breaks among them, as `\u000A`: the name of a file then neither begins a line of a log nor
  /// moves the cursor of a terminal.
  package var onOneLine: String {
    guard unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else { return self }
    return unicodeScalars.map { $0.properties.generalCategory == .control ? $0.escaped : String($0) }.joined()
  }
}

extension Unicode.Scalar {
  /// As JSON writes it: `\u001B`.
  package var escaped: String { String(format: "\\u%04X", value) }
}
