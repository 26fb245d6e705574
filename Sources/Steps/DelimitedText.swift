import Foundation

/// A table as people and spreadsheets write it: fields between commas, in double quotes where they hold commas, quotes or line ends (RFC 4180).
/// A byte order mark is skipped, and so are lines without any text or quote.
///
///     try DelimitedText(bytes, fieldLimit: 64).forEachLine { rows.append($0.fields) }
package struct DelimitedText {
  package struct Line {
    /// The number of its first line in the file, from 1.
    package var number: Int
    /// Without blanks around them.
    package var fields: [String]
  }

  private let bytes: [UInt8]
  private let fieldLimit: Int

  /// Throws `Mistake` for a text that is not UTF-8.
  package init(_ bytes: [UInt8], fieldLimit: Int) throws {
    guard String(validating: bytes, as: UTF8.self) != nil else { throw Mistake(description: "the text is not UTF-8") }
    (self.bytes, self.fieldLimit) = (bytes, fieldLimit)
  }

  /// Passes each line to `body`. Throws what it throws, and `Mistake` for a quote without an end, or a line with more fields than the limit.
  package func forEachLine(_ body: (Line) throws -> Void) throws {
    var (number, line) = (1, Line(number: 1, fields: []))
    var (field, isQuoted, wasQuoted): ([UInt8], Bool, Bool) = ([], false, false)
    var hasQuotes = false
    func endField() throws {
      var own = String(decoding: field, as: UTF8.self)
      if wasQuoted { hasQuotes = true } else { own = own.trimmingCharacters(in: .whitespaces) }
      line.fields.append(own)
      guard line.fields.count <= fieldLimit else { throw Mistake(description: "line \(line.number) has more than \(fieldLimit) fields") }
      (field, wasQuoted) = ([], false)
    }
    func endLine() throws {
      try endField()
      if hasQuotes || line.fields.contains(where: { !$0.isEmpty }) { try body(line) }
      hasQuotes = false
      line = Line(number: number, fields: [])
    }
    var rest = bytes[...]
    if rest.starts(with: [0xEF, 0xBB, 0xBF]) { rest = rest.dropFirst(3) }
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "\"") where isQuoted:
        if rest.first == byte { field.append(rest.removeFirst()) } else { isQuoted = false }
      case UInt8(ascii: "\"") where field.allSatisfy { $0 == UInt8(ascii: " ") } && !wasQuoted:
        (field, isQuoted, wasQuoted) = ([], true, true)
      case UInt8(ascii: ",") where !isQuoted: try endField()
      case UInt8(ascii: "\n"):
        number += 1
        if isQuoted { field.append(byte) } else { try endLine() }
      case UInt8(ascii: "\r") where !isQuoted && (rest.first ?? UInt8(ascii: "\n")) == UInt8(ascii: "\n"): break
      default: field.append(byte)
      }
    }
    if isQuoted { throw Mistake(description: "line \(line.number): a quote has no end") }
    try endLine()
  }

  package struct Mistake: Error, CustomStringConvertible {
    package var description: String
    package init(description: String) { self.description = description }
  }
}
