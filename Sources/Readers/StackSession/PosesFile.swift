import Evidence
import Model
import Steps

/// The entries of `poses.json`.
struct PosesFile {
  static let name = "poses.json"

  /// The poses by frame number.
  var list: PoseList
  /// Depth at the image's center in meters, by place in the file; NaN where absent.
  private let depthPoints: [Float]
  /// Whether the key `depth` is present and null, as SLAM writes it; by place in the file.
  private let hasNullDepth: [Bool]

  var entries: [PoseList.Entry] { list.entries }
  func depthPoint(_ entry: PoseList.Entry) -> Float { depthPoints[entry.place] }
  func hasNullDepth(_ entry: PoseList.Entry) -> Bool { hasNullDepth[entry.place] }

  /// One object of the file.
  struct Record {
    var entry: PoseList.Entry
    var depthPoint: Float
    var hasNullDepth: Bool
    /// Whether the matrix was written column by column.
    var isTransposed: Bool
  }

  init(_ inputs: TakeInputs, _ file: Int, limit: Int, notes: FindingCollector) throws {
    var records = try Self.records(inputs, file, limit: limit, notes: notes)
    let transposed = records.count(where: \.isTransposed)
    if transposed > 0 {
      // A pose at the origin looks the same either way; it is handled like the others.
      let allTransposed = records.allSatisfy { $0.isTransposed || $0.entry.pose.map { $0.position == .zero } ?? true }
      for index in records.indices where allTransposed && !records[index].isTransposed && records[index].entry.pose?.position == .zero {
        records[index].entry.pose?.quaternion *= [-1, -1, -1, 1]
      }
      notes.add(.posesTransposed, "matrices are written column by column; they are transposed", file: Self.name, count: transposed)
    }
    depthPoints = records.map(\.depthPoint)
    hasNullDepth = records.map(\.hasNullDepth)
    let entries = records.indices.map { place in
      var entry = records[place].entry
      entry.place = place
      return entry
    }
    list = try PoseList(entries, file: Self.name, number: "rgbIndex", notes: notes)
  }

  /// The entries of a file; one that is cut off yields its intact ones.
  private static func records(_ inputs: TakeInputs, _ file: Int, limit: Int, notes: FindingCollector) throws -> [Record] {
    var records: [Record] = []
    var cut: JSONError?
    try inputs.readJSON(file, limit: limit) { reader in
      do {
        try JSONRecord.forEach(in: reader, "poses") { records.append(try Record($0)) }
      } catch let error as JSONError where error.isTruncation && !records.isEmpty {
        cut = error
      }
    }
    if let cut {
      notes.add(
        .posesTruncated, "the file ends too early (\(cut.message)); the \(records.count) complete entries are used", file: name,
        field: ", " + cut.place)
    }
    return records
  }
}

extension PosesFile.Record {
  /// - Parameter matrix: Sixteen numbers, row by row.
  fileprivate init(
    number: Int64, timestamp: Timestamp?, matrix: UnsafeBufferPointer<Double>, depthIndex: Int64?, depthPoint: Float, hasNullDepth: Bool
  ) {
    // A position in the last row, and none in the last column: written column by column.
    let isTransposed =
      matrix[15] == 1 && (matrix[12] != 0 || matrix[13] != 0 || matrix[14] != 0) && matrix[3] == 0 && matrix[7] == 0 && matrix[11] == 0
    let pose =
      isTransposed
      ? withUnsafeTemporaryAllocation(of: Double.self, capacity: 16) { transposed in
        for index in 0..<16 { transposed.initializeElement(at: index, to: matrix[index % 4 * 4 + index / 4]) }
        return try? Pose(rowMajor: UnsafeBufferPointer(transposed))
      } : try? Pose(rowMajor: matrix)
    self.init(
      entry: PoseList.Entry(
        number: number, timestamp: timestamp ?? Timestamp(nanoseconds: 0), hasTime: timestamp != nil, pose: pose, depthIndex: depthIndex),
      depthPoint: depthPoint, hasNullDepth: hasNullDepth, isTransposed: isTransposed)
  }

  /// Reads one object; errors name the field.
  fileprivate init(_ record: JSONRecord) throws {
    let reader = record.reader
    var number: Int64?
    var timestamp: Timestamp?
    var hasTime = false
    var matrix: [Double]?
    var depthIndex: Int64?
    var depthPoint = Float.nan
    var hasNullDepth = false
    try record.forEachKey { key in
      switch key {
      case "timestamp": (timestamp, hasTime) = (try record.seconds(key), true)
      case "rgbIndex": number = try record.wholeNumber(key)
      case "depthIndex": depthIndex = try reader.skipNull() ? nil : try record.wholeNumber(key)
      case "depth":
        hasNullDepth = try reader.skipNull()
        if !hasNullDepth { depthPoint = Float(try record.number(key)) }
      case "transform": matrix = try Self.transform(record, key)
      default: try reader.skip()
      }
    }
    let known = try record.required(number, "rgbIndex")
    if !hasTime { throw record.failure("timestamp", "the key is missing") }
    self = try record.required(matrix, "transform").withUnsafeBufferPointer {
      PosesFile.Record(
        number: known, timestamp: timestamp, matrix: $0, depthIndex: depthIndex, depthPoint: depthPoint, hasNullDepth: hasNullDepth)
    }
  }

  /// Four rows of four numbers, or sixteen numbers, row by row.
  private static func transform(_ record: JSONRecord, _ key: String) throws -> [Double] {
    let reader = record.reader
    guard try reader.nextIsArray else { throw record.mismatch(key, "four rows of four numbers") }
    var numbers: [Double] = []
    numbers.reserveCapacity(16)
    var (isFirst, rows) = (true, 0)
    try reader.beginArray()
    while try reader.nextElement(isFirst: &isFirst) {
      if try reader.nextIsArray {
        var (isFirstNumber, count) = (true, 0)
        try reader.beginArray()
        while try reader.nextElement(isFirst: &isFirstNumber) {
          guard try reader.nextIsNumber else { throw record.mismatch("\(key)[\(rows)][\(count)]", "a number") }
          count += 1
          guard count <= 4 else { throw record.failure("\(key)[\(rows)]", "expected four numbers, found more") }
          numbers.append(try reader.number())
        }
        guard count == 4 else { throw record.failure("\(key)[\(rows)]", "expected four numbers, found \(count)") }
      } else {
        guard try reader.nextIsNumber else { throw record.mismatch("\(key)[\(rows)]", "a number or a row of four") }
        numbers.append(try reader.number())
      }
      rows += 1
      guard numbers.count <= 16 else { throw record.failure(key, "expected sixteen numbers, found more") }
    }
    guard numbers.count == 16 else { throw record.failure(key, "expected sixteen numbers, found \(numbers.count)") }
    return numbers
  }
}
