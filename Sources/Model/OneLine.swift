import Foundation

extension String {
  /// The text with the characters as `\u000A` that could begin a line of a log, move the cursor of a terminal, or show the text in another
  /// order: names of files are others' words.
  public var onOneLine: String {
    guard unicodeScalars.contains(where: \.isUnprintable) else { return self }
    return unicodeScalars.map { $0.isUnprintable ? $0.escaped : String($0) }.joined()
  }
}

extension Unicode.Scalar {
  /// Control characters, separators of lines, and marks that change the direction of text.
  package var isUnprintable: Bool {
    switch value {
    case 0..<0x20, 0x7F..<0xA0, 0x061C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
  }

  /// The escape of the character in JSON: `\u001B`.
  package var escaped: String { String(format: "\\u%04X", value) }
}
