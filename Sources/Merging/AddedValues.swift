package import Evidence
import Foundation
import Model
import Steps

/// Values for the rows of episodes, computed outside: an `.npz` file of NumPy with an array for each episode, or a `.csv` file with a line for
/// each row. A file with the values of one episode need not name it.
///
///     let values = try AddedValues("width.npz", rows: ["take-1": 120], of: "width", only: nil)
///     values.tables["take-1"]?.values.count
package struct AddedValues: Sendable {
  /// The numbers of an episode, row after row; NaN where one is absent.
  package struct Table: Sendable {
    package var width: Int
    package var values: [Float]
  }

  /// By the id of their episode.
  package private(set) var tables: [String: Table] = [:]
  /// The names of a row's numbers, which a CSV file has in its first line.
  package private(set) var elements: [String] = []
  /// The name of the file, without its folder, on one line.
  package let name: String
  package let digest: Digest

  /// Rows of the episodes that there are.
  private let rows: [String: Int]
  private let stream: String
  /// The only episode that gets values.
  private let only: String?

  static let mostElements = 4096
  /// Bytes of a table.
  private static let limit = 1 << 30

  /// Throws `UsageError` where there is no such file, or where it is of other episodes; `UnusableValues` for one that has no such values.
  ///
  /// - Parameter rows: The rows of each episode of the dataset, by its id. Nothing longer is read.
  /// - Parameter only: The only episode that gets values, if one is named.
  package init(_ path: String, rows: [String: Int], of stream: String, only: String?) throws {
    (self.rows, self.stream, self.only) = (rows, stream, only)
    guard try Directory.kind(at: path, followingLinks: true) == .file else { throw UsageError("\(path): there is no such file") }
    name = URL(fileURLWithPath: path).lastPathComponent.onOneLine
    do {
      let file = try InputFile(URL(fileURLWithPath: path).resolvingSymlinksInPath().path)
      switch URL(fileURLWithPath: path).pathExtension.lowercased() {
      case "npz":
        digest = try file.finish()
        try readArrays(file)
      case "csv":
        var bytes: [UInt8] = []
        try file.readAll(limit: Self.limit, into: &bytes)
        digest = try file.finish()
        try readLines(bytes)
      default: throw UsageError("\(path): expected a .npz or a .csv file")
      }
    } catch let error as UnusableValues {
      throw UnusableValues("\(path): \(error.reason)")
    } catch let mistake as DelimitedText.Mistake {
      throw UnusableValues("\(path): \(mistake)")
    } catch let failure as TakeFailure {
      throw UnusableValues("\(path): \(failure.message)")
    } catch let error as FileError {
      throw UsageError("\(error)")
    }
    if let only, tables[only] == nil { throw UsageError("\(path) has no values for \(only)") }
  }

  /// The episode that a name in the file means; `nil` for another one than the only that gets values.
  ///
  /// - Parameter isUnnamed: Whether it is the only table of the file, and its name may be no id.
  private func episode(named id: String, isUnnamed: Bool) throws -> String? {
    if rows[id] != nil { return only == nil || only == id ? id : nil }
    guard isUnnamed else {
      throw UsageError("\(name): the dataset has no episode \"\(id.onOneLine)\"\(Spelling.hint(for: id, among: rows.keys.sorted()))")
    }
    if let only { return only }
    if rows.count == 1 { return rows.first?.key }
    throw UsageError(
      "\(name) does not say which of the \(rows.count) episodes its values are of; name each array by the id of its episode, add a column episode, or give --episode"
    )
  }

  // MARK: NumPy

  private mutating func readArrays(_ file: InputFile) throws {
    var limits = Archive.Limits()
    (limits.maxArchiveGibibytes, limits.maxArchiveRatio) = (1, 1e6)
    let archive = try Archive(file.path, format: .zip, limits: limits)
    guard archive.stamp == file.stamp else { throw UnusableValues("it was changed while it was read") }
    func id(_ member: Archive.Member) -> String { member.path.hasSuffix(".npy") ? String(member.path.dropLast(4)) : member.path }
    if archive.members.isEmpty { throw UnusableValues("it has no arrays") }
    for member in archive.members {
      // What NumPy calls an array without a name, and the stream's own name.
      let isUnnamed = archive.members.count == 1 && ["arr_0", stream].contains(id(member))
      guard let episode = try episode(named: id(member), isUnnamed: isUnnamed), let count = rows[episode] else { continue }
      let place = "the array \(id(member).onOneLine)"
      if tables[episode] != nil { throw UnusableValues("\(place) is there twice") }
      do {
        let header = try NumPyArray(header: archive.start(of: member, count: NumPyArray.headerLimit), of: place)
        guard header.rows == count else {
          throw UnusableValues("\(place) has \(counted(header.rows, "row")), and the episode \(episode) has \(count)")
        }
        try header.checkSize(member.bytes)
        var bytes: [UInt8] = []
        try archive.read(member, into: &bytes)
        tables[episode] = Table(width: header.width, values: try header.values(in: bytes))
      } catch let error as ArchiveError {
        throw UnusableValues("\(place) cannot be read: \(error)")
      }
    }
  }

  // MARK: CSV

  /// The columns of a table, by their numbers.
  private struct Columns {
    var count: Int
    var episode: Int?
    var row: Int?
    var numbers: [Int]
  }

  private mutating func readLines(_ bytes: [UInt8]) throws {
    var columns: Columns?
    /// Lines of each episode so far; by its rows, where lines name these, the line of each.
    var done: [String: Int] = [:]
    var lines: [String: [Int: Int]] = [:]
    try DelimitedText(bytes, fieldLimit: Self.mostElements + 2).forEachLine { line in
      let (texts, place) = (line.fields, "line \(line.number)")
      guard let columns else {
        let isHeader = texts.contains { Self.number($0) == nil }
        let own = try Self.columns(isHeader ? texts : texts.map { _ in "" }, at: place, isHeader)
        columns = own
        if isHeader { elements = own.numbers.map { texts[$0] } } else { try read(texts, own, place, line.number, &done, &lines) }
        return
      }
      guard texts.count == columns.count else { throw UnusableValues("\(place) has \(texts.count) fields; expected \(columns.count)") }
      try read(texts, columns, place, line.number, &done, &lines)
    }
    if done.isEmpty { throw UnusableValues("it has no lines with values") }
    for (episode, count) in done.sorted(by: { $0.key < $1.key }) where columns?.row == nil && count != rows[episode] {
      throw UnusableValues("it has \(counted(count, "row")) for the episode \(episode), which has \(rows[episode] ?? 0)")
    }
  }

  private static func columns(_ names: [String], at place: String, _ isHeader: Bool) throws -> Columns {
    var columns = Columns(count: names.count, numbers: [])
    (columns.episode, columns.row) = (names.firstIndex(of: "episode"), names.firstIndex(of: "row"))
    columns.numbers = names.indices.filter { $0 != columns.episode && $0 != columns.row }
    if isHeader, let index = names.firstIndex(where: { !isName($0) }) {
      throw UnusableValues("\(place): column \(index + 1) is named \"\(names[index].onOneLine)\"; expected a name without blanks")
    }
    if isHeader, Set(names).count < names.count { throw UnusableValues("\(place): two columns have the same name") }
    if columns.numbers.isEmpty { throw UnusableValues("\(place): there is no column with values") }
    return columns
  }

  private mutating func read(
    _ texts: [String], _ columns: Columns, _ place: String, _ number: Int, _ done: inout [String: Int], _ lines: inout [String: [Int: Int]]
  ) throws {
    guard let episode = try episode(named: columns.episode.map { texts[$0] } ?? "", isUnnamed: columns.episode == nil),
      let count = rows[episode]
    else { return }
    var row = done[episode, default: 0]
    if let column = columns.row {
      guard let named = Int(texts[column]), named >= 0 else {
        throw UnusableValues("\(place): the row is \"\(texts[column].onOneLine)\"; expected a whole number from 0")
      }
      row = named
    }
    guard row < count else { throw UnusableValues("\(place) is row \(row) of the episode \(episode), which has \(count)") }
    if columns.row != nil, let other = lines[episode, default: [:]].updateValue(number, forKey: row) {
      throw UnusableValues("\(place): row \(row) is in line \(other) already")
    }
    let width = columns.numbers.count
    var table = tables.removeValue(forKey: episode) ?? Table(width: width, values: [Float](repeating: .nan, count: count * width))
    for (index, column) in columns.numbers.enumerated() {
      guard let value = Self.number(texts[column]) else {
        throw UnusableValues("\(place): \"\(texts[column].onOneLine)\" is no number; NaN or nothing stands for an absent one")
      }
      table.values[row * width + index] = try Int(texts[column]).map { try Self.float($0, place) } ?? Self.float(value, place)
    }
    tables[episode] = table
    done[episode, default: 0] += 1
  }

  /// A decimal number, or NaN for nothing; `nil` for other text.
  private static func number(_ text: String) -> Double? {
    if text.isEmpty || ["nan", "na"].contains(text.lowercased()) { return .nan }
    return DecimalNumber.isDecimal(text) || ["inf", "-inf"].contains(text.lowercased()) ? Double(text) : nil
  }

  private static func isName(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.count <= 64 && !text.contains(" ") && text.onOneLine == text
  }

  /// The number as it is stored, in 32 bits. Throws for one that is infinite or too large.
  static func float(_ value: Double, _ place: @autoclosure () -> String) throws -> Float {
    let stored = Float(value)
    if !stored.isInfinite { return stored }
    throw UnusableValues(
      value.isInfinite
        ? "\(place()) has an infinite value; NaN stands for an absent one" : "\(place()) has \(value), too large for a 32-bit float")
  }

  /// A whole number as it is stored. Throws for one that would become another one, such as a time in nanoseconds.
  static func float(_ whole: some BinaryInteger, _ place: @autoclosure () -> String) throws -> Float {
    if let stored = Float(exactly: whole) { return stored }
    throw UnusableValues("\(place()) has \(whole), a whole number that a 32-bit float does not hold exactly")
  }
}

/// The reason why a file's values cannot be added.
package struct UnusableValues: Error, CustomStringConvertible {
  package var reason: String
  package init(_ reason: String) { self.reason = reason }
  package var description: String { reason }
}
