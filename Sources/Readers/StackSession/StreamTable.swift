import Model
import Steps

/// A table of numbers that a user put into a session, `streams/NAME.csv`: the state of a task, a force sensor, a gripper's width. It
/// becomes the stream NAME.
///
/// The first column is the time of a line in seconds: `timestamp` on the clock of the poses, or `unix_time` on the phone's Unix clock. The others are named by
/// the header. A field without a number (`nan`, or nothing) is absent.
struct StreamTable {
  static let folder = "streams"
  /// Tables of one session.
  static let mostTables = 64

  /// The bytes and lines that the tables of a session may have together.
  struct Room {
    var bytes: Int
    /// An hour at 1 kHz.
    var lines = 4_000_000
  }

  let name: StreamName
  let stream: SampleStream

  /// - Throws: `TakeFailure` for a name that a stream cannot have, or that one has already; for a header or line that cannot be read; for tables that
  ///   need more room than there is.
  init(_ inputs: TakeInputs, _ file: Int, room: inout Room, frameClock: Clock, taken: Set<StreamName>, _ notes: FindingCollector) throws {
    let path = inputs.entries[file].path
    let stem = path.dropFirst(Self.folder.count + 1).dropLast(4)
    guard Self.isName(stem) else {
      throw TakeFailure(
        .csvInvalid, "the file is named after its stream; expected lowercase letters, digits and underscores, first a letter, at most 64",
        file: path)
    }
    name = StreamName(String(stem))
    if taken.contains(name) || name.isReserved || Self.readers.contains(name) {
      throw TakeFailure(.nameTaken, "a take or a dataset has something else of this name; rename the file", file: path)
    }
    var header: Header?
    var numbers = NumberColumns(width: 0)
    let table: CSVFile
    do {
      table = try CSVFile(inputs, file, limit: room.bytes)
    } catch let failure as TakeFailure where failure.code == .inputTooLarge {
      throw TakeFailure(.inputTooLarge, "the tables of the session up to this one are larger than max-json-mebibytes", file: path)
    }
    room.bytes -= table.count
    try table.forEachLine { line in
      guard let header else {
        guard line.isEnded else { throw Self.failure(line, "the header has no line end, so it may be cut short", path) }
        let found = try Header(line, path)
        (header, numbers) = (found, NumberColumns(width: found.columns.count))
        return
      }
      // A recording that was killed has a last line that is cut short. Of a number in it, nothing is known.
      guard line.isEnded else {
        return notes.add(.tableCutShort, "the last line has no line end, so it may be cut short; it is skipped", file: path)
      }
      guard line.fields.count == header.columns.count + 1 else {
        throw Self.failure(line, "expected \(header.columns.count + 1) fields, found \(line.fields.count)", path)
      }
      guard let time = line.seconds(0) else {
        throw Self.failure(line, "expected seconds, found \"\((line.text(0) ?? "").prefix(40))\"", path)
      }
      guard room.lines > 0 else {
        throw TakeFailure(.limit, "the tables of the session up to this one have more than 4,000,000 lines", file: path)
      }
      room.lines -= 1
      for column in header.columns.indices {
        let isEmpty = line.fields[column + 1].isEmpty
        guard let number = isEmpty ? .nan : line.number(column + 1) else {
          throw Self.failure(
            line, "column \(header.columns[column]): expected a number, found \"\((line.text(column + 1) ?? "").prefix(40))\"", path)
        }
        numbers.add(number)
      }
      numbers.endLine(line.number, at: time)
    }
    guard let header else { throw TakeFailure(.csvInvalid, "the file is empty; expected a header", file: path) }
    stream = numbers.stream(
      unit: "as recorded", clock: header.isUnix ? .phoneUnix : frameClock, columns: header.columns,
      in: .text(.line, InputOrigin(inputs: inputs, entry: file)),
      file: path, notes)
  }

  private struct Header {
    let isUnix: Bool
    let columns: [String]

    init(_ line: CSVFile.Line, _ path: String) throws {
      let names = line.fields.map { String(decoding: $0, as: UTF8.self) }
      guard ["timestamp", "unix_time"].contains(names[0]) else {
        throw failure(
          line, "the first column is \"\(names[0].prefix(40))\"; expected timestamp (seconds on the clock of the poses) or unix_time", path)
      }
      columns = Array(names.dropFirst())
      guard (1...most).contains(columns.count), columns.allSatisfy({ isName($0[...]) }), Set(columns).count == columns.count else {
        throw failure(
          line, "expected 1 to \(most) columns after the time, with different names of lowercase letters, digits and underscores", path)
      }
      isUnix = names[0] == "unix_time"
    }
  }

  /// Columns of a table; `CSVFile` splits few more.
  private static let most = 60
  /// Names that readers give.
  private static let readers: Set<StreamName> = [.pose, .image, .depth, .confidence, .joints, .depthPoint, .imu]

  private static func isName(_ text: Substring) -> Bool { StreamName.isName(text) && text.utf8.count <= 64 }

  private static func failure(_ line: CSVFile.Line, _ message: String, _ path: String) -> TakeFailure {
    TakeFailure(.csvInvalid, message, file: path, field: ", line \(line.number)")
  }
}
