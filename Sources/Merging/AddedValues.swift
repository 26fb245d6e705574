package import Evidence
import Foundation
import Model
import Readers
import Steps

/// Values for the rows of episodes, computed outside: an `.npz` file of NumPy with an array for each episode, or a `.csv` file with a line for
/// each row. A file may also have one table for a single episode.
///
///     let values = try AddedValues("width.npz", stream: "width")
///     values.tables["take-1"]?.rows
package struct AddedValues: Sendable {
  /// Rows of numbers.
  package struct Table: Sendable {
    package var rows: Int
    package var width: Int
    /// Row after row; NaN where a number is absent.
    package var values: [Float]
    /// The place in the file, for messages: `the array take-1`.
    package var place: String
    /// Whether lines name their rows, so that rows after the last one may follow, which have no numbers.
    package var namesRows = false
  }

  /// By the id of their episode.
  package private(set) var tables: [String: Table] = [:]
  /// The only table of a file that names no episode.
  package private(set) var single: Table?
  /// The names of a row's numbers, which a CSV file has in its first line.
  package private(set) var elements: [String] = []
  /// The name of the file, without its folder.
  package let name: String
  package let digest: Digest

  static let mostElements = 4096
  /// Bytes of a file, and of an array.
  private static let limit = 1 << 30

  /// Throws `UsageError` where there is no such file, `UnusableValues` for one that has no such values.
  package init(_ path: String) throws {
    guard try Directory.kind(at: path, followingLinks: true) == .file else { throw UsageError("\(path): there is no such file") }
    name = URL(fileURLWithPath: path).lastPathComponent
    do {
      let resolved = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
      var bytes: [UInt8] = []
      let file = try InputFile(resolved)
      try file.readAll(limit: Self.limit, into: &bytes)
      digest = Digest.of(bytes)
      switch URL(fileURLWithPath: path).pathExtension.lowercased() {
      case "npz": try readArrays(resolved)
      case "csv": try readLines(bytes)
      default: throw UsageError("\(path): expected a .npz or a .csv file")
      }
    } catch let error as UnusableValues {
      throw UnusableValues("\(path): \(error.reason)")
    } catch let failure as TakeFailure {
      throw UnusableValues("\(path): \(failure.message)")
    } catch let error as FileError {
      throw UsageError("\(error)")
    }
  }

  // MARK: NumPy

  private mutating func readArrays(_ path: String) throws {
    var limits = Archive.Limits()
    (limits.maxArchiveGibibytes, limits.maxArchiveRatio) = (1, 1e6)
    let archive = try Archive(path, format: .zip, limits: limits)
    for member in archive.members {
      let id = member.path.hasSuffix(".npy") ? String(member.path.dropLast(4)) : member.path
      let bytes: [UInt8]
      do {
        bytes = try archive.start(of: member, count: Int(clamping: member.bytes))
      } catch let error as ArchiveError {
        throw UnusableValues("the array \(id.onOneLine) cannot be read: \(error)")
      }
      do {
        var table = try NumPyArray(bytes).table()
        table.place = "the array \(id.onOneLine)"
        tables[id] = table
      } catch let error as UnusableValues {
        throw UnusableValues("the array \(id.onOneLine) \(error.reason)")
      }
    }
    guard let first = tables.first else { throw UnusableValues("it has no arrays") }
    if tables.count == 1 { single = first.value }
  }

  // MARK: CSV

  private mutating func readLines(_ bytes: [UInt8]) throws {
    var columns: [String] = []
    var (episodeColumn, rowColumn): (Int?, Int?)
    var numbers: [Int] = []
    var lines: [String: [(row: Int?, line: Int, values: [Float])]] = [:]
    try CSVFile(bytes, fieldLimit: Self.mostElements + 2).forEachLine { line in
      let texts = line.fields.indices.map { line.text($0) ?? "" }
      if columns.isEmpty {
        let isHeader = texts.contains { Self.number($0) == nil }
        columns = isHeader ? texts : texts.map { _ in "" }
        if isHeader {
          (episodeColumn, rowColumn) = (texts.firstIndex(of: "episode"), texts.firstIndex(of: "row"))
          if let index = texts.firstIndex(where: { !Self.isName($0) }) {
            throw UnusableValues(
              "line \(line.number): column \(index + 1) is named \"\(texts[index].onOneLine)\"; expected a name without blanks")
          }
          guard Set(texts).count == texts.count else { throw UnusableValues("line \(line.number): two columns have the same name") }
        }
        numbers = columns.indices.filter { $0 != episodeColumn && $0 != rowColumn }
        guard !numbers.isEmpty else { throw UnusableValues("line \(line.number): there is no column with values") }
        if isHeader {
          elements = numbers.map { columns[$0] }
          return
        }
      }
      guard texts.count == columns.count else {
        throw UnusableValues("line \(line.number) has \(texts.count) fields; expected \(columns.count)")
      }
      let values = try numbers.map { index in
        guard let value = Self.number(texts[index]) else {
          throw UnusableValues("line \(line.number): \"\(texts[index].onOneLine)\" is no number; NaN or nothing stands for an absent one")
        }
        return try Self.float(value, in: "line \(line.number)")
      }
      let row = try rowColumn.map { index in
        guard let row = Int(texts[index]), row >= 0 else {
          throw UnusableValues("line \(line.number): the row is \"\(texts[index].onOneLine)\"; expected a whole number from 0")
        }
        return row
      }
      lines[episodeColumn.map { texts[$0] } ?? "", default: []].append((row, line.number, values))
    }
    if lines.isEmpty { throw UnusableValues("it has no lines with values") }
    for (id, lines) in lines {
      let place = id.isEmpty ? "the table" : "the part of \(id.onOneLine)"
      let table = try Self.table(lines, width: numbers.count, place: place)
      if episodeColumn == nil { single = table } else { tables[id] = table }
    }
  }

  /// The lines in order, or, where they name their rows, by these; rows without a line have no numbers.
  private static func table(_ lines: [(row: Int?, line: Int, values: [Float])], width: Int, place: String) throws -> Table {
    guard lines.first?.row != nil else {
      return Table(rows: lines.count, width: width, values: lines.flatMap(\.values), place: place)
    }
    let rows = (lines.compactMap(\.row).max() ?? 0) + 1
    guard rows <= maxRows else { throw UnusableValues("\(place) has a row \(rows - 1); expected at most \(maxRows) rows") }
    var values = [Float](repeating: .nan, count: rows * width)
    var known: [Int: Int] = [:]
    for line in lines {
      guard let row = line.row else { continue }
      if let other = known.updateValue(line.line, forKey: row) {
        throw UnusableValues("line \(line.line): row \(row) is in line \(other) already")
      }
      values.replaceSubrange((row * width)..<((row + 1) * width), with: line.values)
    }
    return Table(rows: rows, width: width, values: values, place: place, namesRows: true)
  }

  private static let maxRows = 1 << 24

  /// A decimal number, or NaN for nothing; `nil` for other text.
  private static func number(_ text: String) -> Double? {
    if text.isEmpty || ["nan", "na"].contains(text.lowercased()) { return .nan }
    return DecimalNumber.isDecimal(text) || ["inf", "-inf"].contains(text.lowercased()) ? Double(text) : nil
  }

  private static func isName(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.count <= 64 && !text.contains(" ") && text.onOneLine == text
  }

  /// The number as it is stored. Throws for one that is infinite, or too large for 32 bits.
  static func float(_ value: Double, in place: @autoclosure () -> String) throws -> Float {
    let stored = Float(value)
    if !stored.isInfinite { return stored }
    throw UnusableValues(
      value.isInfinite
        ? "has an infinite value in \(place()); NaN stands for an absent one" : "has \(value) in \(place()), too large for a 32-bit number")
  }
}

/// The reason why a file's values cannot be added.
package struct UnusableValues: Error, CustomStringConvertible {
  package var reason: String
  package init(_ reason: String) { self.reason = reason }
  package var description: String { reason }
}
