/// Text as one word of a POSIX shell: in quotes, if it has blanks or other special characters.
package func shellWord(_ text: String) -> String {
  let isPlain = !text.isEmpty && text.allSatisfy { $0.isLetter || "0123456789_-./,:+@%".contains($0) }
  return isPlain ? text : "'" + text.replacing("'", with: "'\\''") + "'"
}

/// The number of things, with their noun: `1 row`, `12 rows`.
package func several(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }
