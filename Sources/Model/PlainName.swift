/// A name that can only be that of a file in the directory where it is used: what a record calls a take becomes part of a path.
///
/// 1 to 240 bytes, no `/`, no control characters, no dot at the start. With an ending it is shorter than file systems allow.
package struct PlainName: Hashable, Sendable {
  package let text: String

  package init?(_ text: String, atMost bytes: Int = 240) {
    guard (1...bytes).contains(text.utf8.count), !text.hasPrefix("."), !text.contains("/"),
      text.unicodeScalars.allSatisfy({ $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) })
    else { return nil }
    self.text = text
  }
}
