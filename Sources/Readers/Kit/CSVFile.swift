import Evidence
import Model
import Steps

/// A small table of numbers: lines of fields, surrounding blanks ignored, no quotes. Lines end in LF or CRLF; a byte order
/// mark and blank lines are skipped.
struct CSVFile {
  struct Line {
    /// Line number, from 1.
    var number: Int
    var fields: [ArraySlice<UInt8>]
    /// False for a last line without its line end, which may be cut short.
    var isEnded: Bool

    /// The text of a field; `nil` past the last.
    func text(_ index: Int) -> String? { fields.indices.contains(index) ? String(decoding: fields[index], as: UTF8.self) : nil }

    /// A number in English notation, finite or not; `nil` for anything else.
    func number(_ index: Int) -> Double? {
      // Swift would also read hexadecimal numbers.
      guard fields.indices.contains(index), !fields[index].isEmpty, !fields[index].contains(where: { $0 | 0x20 == UInt8(ascii: "x") })
      else { return nil }
      return Double(String(decoding: fields[index], as: UTF8.self))
    }

    func seconds(_ index: Int) -> Timestamp? {
      guard fields.indices.contains(index), fields[index].withUnsafeBufferPointer(JSONReader.isNumber) else { return nil }
      return Timestamp(decimalSeconds: fields[index])
    }
  }

  /// Number of fields that are split; further ones stay in the last, because no format has them.
  private static let fieldLimit = 64
  private let bytes: [UInt8]
  private let separator: UInt8

  /// Throws `TakeFailure` when the file is larger than `limit` bytes or cannot be read.
  ///
  /// - Parameter separator: The character between fields: a comma, or a space, of which there may be several.
  init(_ inputs: TakeInputs, _ entry: Int, limit: Int, separator: Character = ",") throws {
    self.separator = separator.asciiValue ?? UInt8(ascii: ",")
    var bytes: [UInt8] = []
    try inputs.read(entry, limit: limit, hasher: SHA256(), into: &bytes)
    if bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF]) {
      throw TakeFailure(.csvInvalid, "the text is UTF-16; expected UTF-8", file: inputs.entries[entry].path)
    }
    self.bytes = bytes
  }

  /// Size of the file in bytes.
  var count: Int { bytes.count }

  /// Passes each line to `body`, one at a time: a hostile file may have millions.
  func forEachLine(_ body: (Line) throws -> Void) rethrows {
    var rest = bytes.withoutByteOrderMark
    var number = 0
    while !rest.isEmpty {
      number += 1
      let end = rest.firstIndex(of: UInt8(ascii: "\n"))
      let line = rest[..<(end ?? rest.endIndex)]
      rest = end.map { rest[($0 + 1)...] } ?? []
      let fields = line.split(
        separator: separator, maxSplits: Self.fieldLimit, omittingEmptySubsequences: separator == UInt8(ascii: " ")
      ).map(Self.trimmed)
      guard fields.contains(where: { !$0.isEmpty }) else { continue }
      try body(Line(number: number, fields: fields, isEnded: end != nil))
    }
  }

  private static func trimmed(_ field: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    func isBlank(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\r") }
    var field = field.drop(while: isBlank)
    while let last = field.last, isBlank(last) { field.removeLast() }
    return field
  }
}

extension [UInt8] {
  /// UTF-8 without the mark with which some editors begin a text.
  var withoutByteOrderMark: ArraySlice<UInt8> { starts(with: [0xEF, 0xBB, 0xBF]) ? dropFirst(3) : self[...] }
}
