import Model
import Steps

/// The rows of `odometry.csv`: for each frame its time, pose and, from newer versions of the app, its intrinsics.
struct OdometryFile {
  static let name = "odometry.csv"

  /// Poses, camera to world, of a camera with OpenCV axes.
  let poses: PoseList
  /// Intrinsics for the full-size image, by frame number.
  private(set) var cameras: [Int64: Intrinsics] = [:]

  private static let required = ["timestamp", "frame", "x", "y", "z", "qx", "qy", "qz", "qw"]
  private static let intrinsics = ["fx", "fy", "cx", "cy"]

  init(_ inputs: TakeInputs, _ file: Int, limit: Int, notes: FindingCollector) throws {
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
        // A number cut short is still a number; the cut shows in a quaternion, or in a line with missing fields.
        if !line.isEnded, entry.pose == nil || line.fields.count < known.count {
          throw Self.failure(line, Self.required[8], "the line ends early")
        }
        if !known.intrinsics.isEmpty, cameras[entry.number] == nil {
          cameras[entry.number] = Intrinsics(
            try zip(known.intrinsics, Self.intrinsics).map { column, name in
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
      notes.add(.odometryTruncated, "the last line is cut short and skipped", file: Self.name, field: ", line \(cut)")
    }
    if columns == nil { throw TakeFailure(.noFrames, "the file is empty", file: Self.name) }
    guard !entries.isEmpty else { throw TakeFailure(.noFrames, "there are no rows below the header", file: Self.name) }
    poses = try PoseList(entries, file: Self.name, number: "frame", notes: notes)
    self.cameras = cameras
  }

  /// Positions of the numbers in a line.
  private struct Columns {
    let pose: [Int]
    /// Empty where the intrinsics are not written.
    let intrinsics: [Int]
    /// Number of columns in the header.
    let count: Int

    init(header: CSVFile.Line) throws {
      let names = header.fields.map { String(decoding: $0, as: UTF8.self).lowercased() }
      pose = try required.map { column in
        guard let index = names.firstIndex(of: column) else { throw failure(header, column, "the header has no such column") }
        return index
      }
      let found = OdometryFile.intrinsics.compactMap { names.firstIndex(of: $0) }
      intrinsics = found.count == OdometryFile.intrinsics.count ? found : []
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
      number: number, timestamp: timestamp, pose: Pose(measured: numbers), depthIndex: number, place: line.number)
  }

  private static func failure(_ line: CSVFile.Line, _ column: String, _ message: String, _ field: Int? = nil) -> TakeFailure {
    let found = field.map { line.text($0).map { ", found \"\($0.prefix(40))\"" } ?? ", the line ends before it" } ?? ""
    return TakeFailure(.csvInvalid, message + found, file: name, field: ", line \(line.number), column \(column)")
  }
}
