import Evidence
import Model
import Steps

/// A small table of numbers: lines of fields, surrounding blanks ignored, no quotes but around a whole field where the separator is guessed. Lines end in LF
/// or CRLF; a byte order mark and blank lines are skipped.
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

  /// Number of fields that are split; further ones stay in the last, because no format has them. Tables of people have more.
  private static let fieldLimit = 64
  static let mostFields = 1024
  private let bytes: [UInt8]
  let separator: UInt8
  private let isGuessed: Bool

  /// Throws `TakeFailure` when the file is larger than `limit` bytes or cannot be read.
  ///
  /// - Parameter separator: The character between fields: a comma, or a space, of which there may be several; `nil` for the one that the first lines have.
  init(_ inputs: TakeInputs, _ entry: Int, limit: Int, separator: Character? = ",") throws {
    var bytes: [UInt8] = []
    try inputs.read(entry, limit: limit, hasher: SHA256(), into: &bytes)
    if bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF]) {
      throw TakeFailure(.csvInvalid, "the text is UTF-16; expected UTF-8", file: inputs.entries[entry].path)
    }
    self.bytes = bytes
    isGuessed = separator == nil
    self.separator = separator?.asciiValue ?? Self.separator(in: bytes.withoutByteOrderMark)
  }

  /// Whether a line begins as comments do.
  static func isComment(_ line: ArraySlice<UInt8>) -> Bool {
    line.first == UInt8(ascii: "#") || line.first == UInt8(ascii: "%") || line.starts(with: "//".utf8)
  }

  /// The separator of most of the first lines. Between blanks, a comma separates; after semicolons, it may be a decimal one.
  private static func separator(in bytes: ArraySlice<UInt8>) -> UInt8 {
    var (rest, lines): (ArraySlice<UInt8>, [ArraySlice<UInt8>]) = (bytes, [])
    while lines.count < 40, !rest.isEmpty {
      let line = rest.prefix { $0 != UInt8(ascii: "\n") }
      rest = rest.dropFirst(line.count + 1)
      if !isComment(trimmed(line)), !trimmed(line).isEmpty { lines.append(line.prefix(1 << 16)) }
    }
    let known = [UInt8(ascii: "\t"), UInt8(ascii: ";"), UInt8(ascii: ",")]
    return known.first { separator in lines.count { $0.contains(separator) } * 2 > lines.count } ?? UInt8(ascii: " ")
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
      let isBlank = separator == UInt8(ascii: " ")
      var fields =
        isBlank && isGuessed
        ? line.split(maxSplits: Self.mostFields) { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") || $0 == UInt8(ascii: "\r") }
        : line.split(separator: separator, maxSplits: isGuessed ? Self.mostFields : Self.fieldLimit, omittingEmptySubsequences: isBlank)
          .map(Self.trimmed)
      if isGuessed {
        if line.contains(UInt8(ascii: "\"")) { fields = isBlank ? fields.map(Self.unquoted) : quoted(line).map(Self.unquoted) }
        if isBlank, fields.count > 1, Self.isDate(fields[0]), fields[1].dropFirst(2).first == UInt8(ascii: ":") {
          fields.replaceSubrange(0..<2, with: [line[fields[0].startIndex..<fields[1].endIndex]])
        }
      }
      guard fields.contains(where: { !$0.isEmpty }) else { continue }
      try body(Line(number: number, fields: fields, isEnded: end != nil))
    }
  }

  /// The fields of a line in which quotes enclose separators.
  private func quoted(_ line: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
    var (fields, start, isInside): ([ArraySlice<UInt8>], Int, Bool) = ([], line.startIndex, false)
    for place in line.indices {
      if line[place] == UInt8(ascii: "\"") { isInside.toggle() }
      guard line[place] == separator, !isInside, fields.count < Self.mostFields else { continue }
      fields.append(Self.trimmed(line[start..<place]))
      start = place + 1
    }
    return fields + [Self.trimmed(line[start...])]
  }

  /// `2026-05-04`, which a time follows after a blank.
  private static func isDate(_ field: ArraySlice<UInt8>) -> Bool {
    field.count == 10 && [4, 7].allSatisfy { field[field.startIndex + $0] == UInt8(ascii: "-") }
  }

  private static func unquoted(_ field: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    let quote = UInt8(ascii: "\"")
    return field.count > 1 && field.first == quote && field.last == quote ? trimmed(field.dropFirst().dropLast()) : field
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
