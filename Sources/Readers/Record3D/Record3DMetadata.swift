import Evidence
import Model
import Steps

/// The `metadata` of a Record3D take: sizes, intrinsics, and for each frame its pose and time. A frame's number is its place in the list of
/// poses, and the name of its image.
struct Record3DMetadata {
  static let limit = 64 << 20
  private static let frameLimit = 1 << 20
  private static let rates = 0.01...1000.0

  /// Size of the images that the intrinsics are for.
  private(set) var imageSize: ImageSize?
  private(set) var depthSize: ImageSize?
  private(set) var intrinsics: GivenIntrinsics?
  /// fx, fy, cx and cy of each frame, by number; `nil` for anything but a list of numbers.
  private(set) var frameIntrinsics: [[Double]?] = []
  private(set) var poses: [Pose?] = []
  /// Seconds as written, by number; `nil` where they are not a time.
  private(set) var times: [Timestamp?] = []
  private(set) var rate: Double?
  /// 1 for the LiDAR, 0 for the TrueDepth camera.
  private(set) var cameraType: Int64?
  private(set) var initialPose: [Double]?
  private let file: String

  init(_ inputs: TakeInputs, _ entry: Int, notes: FindingCollector) throws {
    file = inputs.entries[entry].path
    var members: [String: JSONValue] = [:]
    var lists: (poses: [[Double]?], times: [Timestamp?], intrinsics: [[Double]?]) = ([], [], [])
    members = try inputs.readJSON(entry, limit: Self.limit) { reader in
      guard try reader.nextIsObject else { throw TakeFailure(.jsonType, "expected an object, found \(try reader.describeNext())") }
      let members = try reader.object { key in
        switch key {
        case "poses": lists.poses = try Self.rows(reader, key)
        case "perFrameIntrinsicCoeffs": lists.intrinsics = try Self.rows(reader, key)
        case "frameTimestamps": lists.times = try Self.times(reader, key)
        default: return nil
        }
        return .null
      }
      try reader.expectEnd()
      return members
    }
    poses = lists.poses.map { row in
      guard let row, row.count == 7 else { return nil }
      return Pose(measured: Array(row[4...]) + row[..<4])
    }
    times = lists.times
    let fields = JSONFields(members: members, file: file)
    imageSize = try fields.size("w", "h")
    depthSize = try fields.size("dw", "dh")
    // Only where the list of times is of no use.
    if times.count != poses.count { rate = try fields.number("fps", in: Self.rates) }
    cameraType = members["cameraType"]?.integer
    initialPose = members["initPose"]?.array?.compactMap(\.double)
    frameIntrinsics = lists.intrinsics
    readIntrinsics(members["K"], notes)
  }

  /// The matrix K, column by column.
  private mutating func readIntrinsics(_ matrix: JSONValue?, _ notes: FindingCollector) {
    guard let matrix, matrix != .null else { return }
    let k = matrix.array?.compactMap(\.double) ?? []
    // Where the principal point is in the last column instead of the last row, another program wrote it.
    let isTransposed = k.count == 9 && k[6] == 0 && k[7] == 0 && k[2] > 0 && k[5] > 0
    let numbers = k.count != 9 ? nil : isTransposed ? [k[0], k[4], k[2], k[5]] : [k[0], k[4], k[6], k[7]]
    intrinsics = GivenIntrinsics(numbers, of: imageSize)
    if let problem = intrinsics?.problem {
      intrinsics = nil
      notes.add(.intrinsicsUnusable, "\(problem), in a matrix of 9 numbers", file: file, field: ".K")
    }
    if isTransposed {
      notes.add(.intrinsicsTransposed, "K is written row by row; expected column by column; it is transposed", file: file, field: ".K")
    }
  }

  /// Lists of numbers; `nil` for one with anything else.
  private static func rows(_ reader: JSONReader, _ key: String) throws -> [[Double]?] {
    guard try reader.nextIsArray else {
      throw TakeFailure(.jsonType, "expected a list, found \(try reader.describeNext())", field: ".\(key)")
    }
    try reader.beginArray()
    var (rows, isFirst): ([[Double]?], Bool) = ([], true)
    while try reader.nextElement(isFirst: &isFirst) {
      guard rows.count < frameLimit else { throw TakeFailure(.limit, "there are more than \(frameLimit) frames", field: ".\(key)") }
      guard try reader.nextIsArray else {
        try reader.skip()
        rows.append(nil)
        continue
      }
      try reader.beginArray()
      var (row, isPlain, isFirstNumber): ([Double], Bool, Bool) = ([], true, true)
      while try reader.nextElement(isFirst: &isFirstNumber) {
        // No list of the format has more numbers.
        if try reader.nextIsNumber, row.count < 16 {
          row.append(try reader.number())
        } else {
          try reader.skip()
          isPlain = false
        }
      }
      rows.append(isPlain ? row : nil)
    }
    return rows
  }

  private static func times(_ reader: JSONReader, _ key: String) throws -> [Timestamp?] {
    guard try reader.nextIsArray else {
      throw TakeFailure(.jsonType, "expected a list, found \(try reader.describeNext())", field: ".\(key)")
    }
    try reader.beginArray()
    var (times, isFirst): ([Timestamp?], Bool) = ([], true)
    while try reader.nextElement(isFirst: &isFirst) {
      guard times.count < frameLimit else { throw TakeFailure(.limit, "there are more than \(frameLimit) frames", field: ".\(key)") }
      if try reader.nextIsNumber {
        times.append(try reader.seconds())
      } else {
        try reader.skip()
        times.append(nil)
      }
    }
    return times
  }
}
