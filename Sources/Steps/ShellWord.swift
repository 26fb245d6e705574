/// Text as one word of a POSIX shell: in quotes, if it has blanks or other special characters.
package func shellWord(_ text: String) -> String {
  let isPlain = !text.isEmpty && text.allSatisfy { $0.isLetter || "0123456789_-./,:+@%".contains($0) }
  return isPlain ? text : "'" + text.replacing("'", with: "'\\''") + "'"
}
