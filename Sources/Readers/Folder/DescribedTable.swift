import Evidence
import Model
import Steps

/// A table that somebody made: its separator is found out, comments are skipped, and headings are those of the first line, or of the last comment before
/// the numbers, with or without units in brackets.
struct DescribedTable {
  let path: String
  let entry: Int
  /// As they are written; empty where the table has none.
  private(set) var headings: [String] = []
  private(set) var columnCount = 0
  private let file: CSVFile
  /// Number of the line of the headings, where these are no comment.
  private var headingLine: Int?
  private let decimalComma: Bool

  private static let mostLines = 10_000_000

  /// The file is listed with the take's, and read from there. Throws `TakeFailure` where it is missing, larger than the limit, or has no line.
  init(_ inputs: TakeInputs, _ path: String, limit: Int) throws {
    guard let entry = inputs.index(of: path) else {
      throw TakeFailure(.csvInvalid, "the description names it, and there is no such file; links to folders are not followed", file: path)
    }
    (self.path, self.entry) = (path, entry)
    file = try CSVFile(inputs, entry, limit: limit, separator: nil)
    decimalComma = file.separator != UInt8(ascii: ",")
    var comment: [String] = []
    var start: [CSVFile.Line] = []
    struct Enough: Error {}
    do {
      try file.forEachLine { line in
        if line.isComment {
          guard start.isEmpty else { return }
          comment = line.texts
          comment[0] = String(comment[0].drop { $0 == "#" || $0 == " " })
          if comment[0].isEmpty { comment.removeFirst() }
        } else {
          start.append(line)
          if start.count == 2 { throw Enough() }
        }
      }
    } catch is Enough {}
    guard let first = start.first else { throw TakeFailure(.csvInvalid, "the table has no line", file: path) }
    columnCount = first.fields.count
    if isHeading(first, before: start.dropFirst().first) {
      (headingLine, headings) = (first.number, first.texts)
      if let next = start.dropFirst().first, !hasColumns(next) {
        throw TakeFailure(
          .csvInvalid, "there are \(columnCount) headings, and the next line has \(next.fields.count) fields", file: path,
          field: ", line \(next.number)")
      }
    } else if comment.count == columnCount {
      headings = comment
    }
    for column in first.fields.indices.dropLast() where headings.isEmpty && file.separator == UInt8(ascii: ",") {
      try refuseDividedTime(first, column)
    }
  }

  /// Whether a line has a field for each column; some programs write a separator after the last.
  private func hasColumns(_ line: CSVFile.Line) -> Bool {
    let extra = line.fields.count - columnCount
    return extra == 0 || extra == 1 && line.fields[line.fields.count - 1].isEmpty
  }

  /// A time with a comma before its fraction, as ISO 8601 and Python's logs have it, between commas: nobody knows whether the digits are of the time.
  private func refuseDividedTime(_ line: CSVFile.Line, _ column: Int) throws {
    let next = line.fields[column + 1]
    guard time(line, column, .iso8601) != nil, !line.fields[column].contains(UInt8(ascii: ".")), next.count == 3 || next.count == 6,
      next.allSatisfy({ (48...57).contains($0) })
    else { return }
    throw TakeFailure(
      .csvInvalid,
      "\(line.text(column) ?? ""),\(line.text(column + 1) ?? "") may be a time with its fraction, or a time and a number; write a point, or give the table headings",
      file: path, field: ", line \(line.number)")
  }

  /// Whether a line has more words than numbers, where the next one has numbers; or the numbers of the columns, as pandas writes them for a table without
  /// headings.
  private func isHeading(_ line: CSVFile.Line, before next: CSVFile.Line?) -> Bool {
    func isValue(_ line: CSVFile.Line, _ column: Int) -> Bool {
      number(line, column) != nil || time(line, column, .iso8601) != nil
    }
    let fields = line.texts
    let said = fields.indices.filter { !Self.absent.contains(fields[$0].lowercased()) }
    let texts = said.filter { !isValue(line, $0) }
    let counted = fields.filter { !$0.isEmpty }
    if counted.count > 1, fields.count - counted.count < 2, counted == counted.indices.map({ "\($0)" }) { return true }
    guard let next else { return texts.count == said.count }
    return texts.count * 2 > said.count && texts.contains { isValue(next, $0) }
  }

  /// Fields that say that there is no number.
  static let absent: Set<String> = ["", "nan", "na", "null", "none", "-"]

  /// `timestamp` and `ns` for `timestamp [ns]`.
  private static func divided(_ heading: String) -> (name: String, unit: String) {
    guard let last = heading.last, let open = [")": "(", "]": "["][String(last)], let start = heading.lastIndex(of: Character(open)),
      start > heading.startIndex
    else { return (heading, "") }
    var name = heading[..<start]
    while name.last == " " { name.removeLast() }
    return name.isEmpty ? (heading, "") : (String(name), String(heading[start...].dropFirst().dropLast()))
  }

  /// A heading without its unit, where no other column has the same.
  func name(of column: Int) -> String {
    let names = headings.map { Self.divided($0).name }
    return names.count { $0 == names[column] } == 1 ? names[column] : headings[column]
  }

  /// What a heading has in brackets; empty where it has none.
  func unit(of column: Int) -> String { headings.indices.contains(column) ? Self.divided(headings[column]).unit : "" }

  /// Whether a column is the index that some programs write before their own.
  func isIndex(_ column: Int) -> Bool {
    headings.indices.contains(column) && ["", "index", "unnamed: 0"].contains(headings[column].lowercased())
  }

  /// A column, for messages: its heading, or its number.
  func title(_ column: Int) -> String {
    headings.indices.contains(column) ? "\"\(headings[column].onOneLine.prefix(60))\"" : "\(column + 1)"
  }

  /// Whether a heading is a usual one of times.
  static func isTimeLike(_ heading: String) -> Bool {
    let name = divided(heading).name.lowercased()
    return ["time", "stamp", "elapsed", "date"].contains { name.contains($0) } || name.hasPrefix("t_")
      || ["t", "sec", "secs", "second", "seconds", "ms", "us", "ns", "zeit"].contains(name)
  }

  /// The column of the times: the one that the description names, or the first.
  ///
  /// - Throws: `TakeFailure`, also where another column's heading is that of times, and where a heading has another unit.
  func timeColumn(_ described: FolderDescription.Table, _ member: String) throws -> Int {
    let place = try column(described.time ?? .number(1), member)
    if described.time == nil, let first = headings.first, !Self.isTimeLike(first), let other = headings.first(where: Self.isTimeLike) {
      throw TakeFailure(
        .csvInvalid,
        "the times are those of the first column, \(title(0)), unless the description names another one: \(other.onOneLine.prefix(60)) looks like them; add time: to the table",
        file: path)
    }
    if described.unit != .iso8601 { try check(place, is: described.unit.rawValue, among: ["s", "ms", "us", "ns"], "time-unit") }
    return place
  }

  /// Throws `TakeFailure` where a heading has a unit that is known and another one than the description says.
  func check(_ column: Int, is unit: String, among known: Set<String>, _ member: String) throws {
    func plain(_ unit: String) -> String {
      ["degrees": "deg", "degree": "deg", "radians": "rad", "radian": "rad"][unit.lowercased()] ?? unit
    }
    let own = plain(self.unit(of: column))
    guard known.contains(own), own != plain(unit) else { return }
    throw TakeFailure(
      .csvInvalid,
      "the heading \(title(column)) has the unit \(own), and the description says \(unit); write \(member): \(own), or correct the heading",
      file: path)
  }

  /// A column by its heading, with or without its unit, and in any case where that is one column; or by its number.
  ///
  /// - Parameter member: The member of the description that names it.
  /// - Throws: `TakeFailure`.
  func column(_ column: TableColumn, _ member: String) throws -> Int {
    switch column {
    case .number(let number):
      guard number <= columnCount else {
        throw TakeFailure(.csvInvalid, "\(member) is column \(number), and the table has \(columnCount)", file: path)
      }
      return number - 1
    case .heading(let wanted):
      let tries: [(String) -> Bool] = [
        { $0 == wanted }, { Self.divided($0).name == wanted }, { $0.lowercased() == wanted.lowercased() },
        { Self.divided($0).name.lowercased() == wanted.lowercased() },
      ]
      let found = tries.lazy.map { test in headings.indices.filter { test(headings[$0]) } }.first { !$0.isEmpty } ?? []
      if found.count == 1 { return found[0] }
      let words =
        headings.isEmpty
        ? "the table has no headings; columns have numbers, from 1" : "it has \(headings.joined(separator: ", ").onOneLine.prefix(300))"
      throw TakeFailure(
        .csvInvalid,
        "\(member) names the column \(wanted.onOneLine.prefix(100)), \(found.isEmpty ? "which the table does not have" : "of which there are \(found.count)"); \(words)"
          + Spelling.hint(for: wanted, among: headings), file: path)
    }
  }

  /// Passes each line below the headings to `body`, and to `other` those that have another number of fields. Throws what they throw, and `TakeFailure` for
  /// more lines than are read.
  ///
  /// - Parameter notes: Where a last line without its end is noted and left out: a recording that was killed has one that is cut short, and of a number in
  ///   it nothing is known. `nil` where such a line is kept.
  func forEachRow(_ notes: FindingCollector?, _ body: (CSVFile.Line) throws -> Void, other: (CSVFile.Line) throws -> Void) throws {
    var count = 0
    try file.forEachLine { line in
      if line.isComment || line.number == headingLine { return }
      if let notes, !line.isEnded {
        return notes.add(.tableCutShort, "the last line has no line end, so it may be cut short; it is skipped", file: path)
      }
      count += 1
      guard count <= Self.mostLines else { throw TakeFailure(.limit, "the table has more than \(Self.mostLines) lines", file: path) }
      if hasColumns(line) { try body(line) } else { try other(line) }
    }
  }

  /// The time of each line in a column; `nil` for what is none.
  func times(_ described: FolderDescription.Table, _ member: String, _ notes: FindingCollector) throws -> [Timestamp?] {
    let column = try timeColumn(described, member)
    var times: [Timestamp?] = []
    var unreadable = UnreadableLines()
    try forEachRow(nil) { line in
      let found = time(line, column, described.unit)
      times.append(found)
      if found == nil { unreadable.add(line) }
    } other: {
      times.append(nil)
      unreadable.add($0)
    }
    guard times.contains(where: { $0 != nil }) else {
      throw TakeFailure(
        .timesMissing,
        "no line has a time in \(described.unit.rawValue) in its column \(column + 1), at most 146 years from 0; \(unreadable.words)",
        file: path)
    }
    unreadable.note("lines without a time in \(described.unit.rawValue)", path, notes)
    return times
  }

  func number(_ line: CSVFile.Line, _ column: Int) -> Double? {
    guard decimalComma, line.fields.indices.contains(column), line.fields[column].contains(UInt8(ascii: ",")) else {
      return line.number(column)
    }
    return Double(String(decoding: line.fields[column].map { $0 == UInt8(ascii: ",") ? UInt8(ascii: ".") : $0 }, as: UTF8.self))
  }

  /// A time, exact to the nanosecond; `nil` for what is none.
  func time(_ line: CSVFile.Line, _ column: Int, _ unit: TimeUnit) -> Timestamp? {
    guard line.fields.indices.contains(column) else { return nil }
    var digits = Array(line.fields[column])
    if decimalComma { digits = digits.map { $0 == UInt8(ascii: ",") ? UInt8(ascii: ".") : $0 } }
    return Timestamp(digits, in: unit)
  }
}

/// Lines that are not what a table should have.
struct UnreadableLines {
  private(set) var count = 0
  private(set) var first: (number: Int, text: String)?

  mutating func add(_ line: CSVFile.Line) {
    count += 1
    if first == nil { first = (line.number, String(line.texts.joined(separator: " ").onOneLine.prefix(80))) }
  }

  /// The first, for messages.
  var words: String { first.map { "the first is line \($0.number): \"\($0.text)\"" } ?? "" }

  func note(_ message: String, _ file: String, _ notes: FindingCollector, as code: FindingCode = .linesUnreadable) {
    if count > 0 { notes.add(code, "\(message); \(words)", file: file, count: count) }
  }
}

extension CSVFile.Line {
  var isComment: Bool { CSVFile.isComment(fields[0]) }
  var texts: [String] { fields.indices.compactMap { text($0) } }
}

extension Timestamp {
  /// A decimal number of a unit, or a date and time, exact to the nanosecond; `nil` for any other text.
  init?(_ text: [UInt8], in unit: TimeUnit) {
    if unit == .iso8601 {
      var words = String(decoding: text, as: UTF8.self)
      // Python writes a blank between date and time, and no zone.
      if words.utf8.count > 10, let blank = words.firstIndex(of: " ") { words.replaceSubrange(blank...blank, with: "T") }
      let isZoned = words.hasSuffix("Z") || words.hasSuffix("z") || words.dropFirst(11).contains { "+-".contains($0) }
      guard let time = UnixTime.nanoseconds(rfc3339: isZoned ? words : words + "Z") else { return nil }
      self.init(nanoseconds: time)
      return
    }
    guard DecimalNumber.isDecimal(String(decoding: text, as: UTF8.self)) else { return nil }
    if unit.exponent == 0 {
      self.init(decimalSeconds: text)
    } else if let mark = text.firstIndex(where: { $0 | 0x20 == UInt8(ascii: "e") }) {
      guard let own = Int(String(decoding: text[(mark + 1)...], as: UTF8.self)), (-99...99).contains(own) else { return nil }
      self.init(decimalSeconds: text[..<mark] + Array("e\(own + unit.exponent)".utf8))
    } else {
      self.init(decimalSeconds: text + Array("e\(unit.exponent)".utf8))
    }
  }
}
