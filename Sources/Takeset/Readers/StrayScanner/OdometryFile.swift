import Model

/// The rows of `odometry.csv`: for each frame its time, pose and, from newer versions of the app, its intrinsics.
struct OdometryFile {
  static let name = "odometry.csv"

  /// Poses are camera to world, of a camera in OpenCV's axes.
  let poses: PoseList
  /// For the full-size picture, by frame number.
  private(set) var cameras: [Int64: Intrinsics] = [:]

  private static let required = ["timestamp", "frame", "x", "y", "z", "qx", "qy", "qz", "qw"]
  private static let lens = ["fx", "fy", "cx", "cy"]

  init(_ inputs: TakeInputs, _ file: Int, limit: Int, notes: Notes) throws {
    var columns: Columns?
    var entries: [PoseList.Entry] = []
    var cameras: [Int64: Intrinsics] = [:]
    var cut: Int?
    try CSVFile(inputs, file, limit: limit).forEachLine { line in
      guard let known = columns else {
        columns = try Columns(header: line)
        return
      }
      do {
        let entry = try Self.entry(line, known.pose)
        // A number cut short is a number all the same; of a quaternion it shows, and of a line that has more to come.
        if !line.isEnded, entry.pose == nil || line.fields.count < known.count {
          throw Self.failure(line, Self.required[8], "the line ends early")
        }
        if !known.lens.isEmpty, cameras[entry.number] == nil {
          cameras[entry.number] = Intrinsics(
            try zip(known.lens, Self.lens).map { column, name in
              guard let value = line.number(column) else { throw Self.failure(line, name, "expected a number", column) }
              return value
            })
        }
        entries.append(entry)
      } catch  where !line.isEnded && !entries.isEmpty {
        cut = line.number
      }
    }
    if let cut {
      notes.add(.odometryTruncated, "the last line is cut short and left out", file: Self.name, field: ", line \(cut)")
    }
    if columns == nil { throw TakeFailure(.noFrames, "the file is empty", file: Self.name) }
    guard !entries.isEmpty else { throw TakeFailure(.noFrames, "there are no rows below the header", file: Self.name) }
    poses = try PoseList(entries, file: Self.name, number: "frame", notes: notes)
    self.cameras = cameras
  }

  /// Where in a line each number stands.
  private struct Columns {
    let pose: [Int]
    /// Empty where the lens is not written.
    let lens: [Int]
    /// Of the header.
    let count: Int

    init(header: CSVFile.Line) throws {
      let names = header.fields.map { String(decoding: $0, as: UTF8.self).lowercased() }
      pose = try required.map { column in
        guard let index = names.firstIndex(of: column) else { throw failure(header, column, "the header has no such column") }
        return index
      }
      let found = OdometryFile.lens.compactMap { names.firstIndex(of: $0) }
      lens = found.count == OdometryFile.lens.count ? found : []
      count = names.count
    }
  }

  private static func entry(_ line: CSVFile.Line, _ columns: [Int]) throws -> PoseList.Entry {
    guard let timestamp = line.seconds(columns[0]) else { throw failure(line, required[0], "expected seconds", columns[0]) }
    guard let text = line.text(columns[1]), text.utf8.allSatisfy({ (48...57).contains($0) }), let number = Int64(text), number < 1 << 53
    else {
      throw failure(line, required[1], "expected a whole number from 0", columns[1])
    }
    let numbers = try zip(columns, required).dropFirst(2).map { column, name in
      guard let value = line.number(column) else { throw failure(line, name, "expected a number", column) }
      return value
    }
    return PoseList.Entry(
      number: number, timestamp: timestamp, pose: Pose(measured: numbers), depthIndex: number)
  }

  private static func failure(_ line: CSVFile.Line, _ column: String, _ message: String, _ field: Int? = nil) -> TakeFailure {
    let found = field.map { line.text($0).map { ", found \"\($0.prefix(40))\"" } ?? ", the line ends before it" } ?? ""
    return TakeFailure(.csvInvalid, message + found, file: name, field: ", line \(line.number), column \(column)")
  }
}
