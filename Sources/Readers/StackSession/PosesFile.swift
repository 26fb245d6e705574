import CSimdJSON
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
    var records = try Self.parseFast(inputs, file, limit: limit) ?? []
    if records.isEmpty { records = try Self.parseStrictly(inputs, file, limit: limit, notes: notes) }
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

  /// Entries of a file in its plain form; `nil` for any other file, which `parseStrictly` reads or rejects with the reason.
  static func parseFast(_ inputs: TakeInputs, _ file: Int, limit: Int) throws -> [Record]? {
    // An entry takes some 350 bytes of text.
    let expected = try min(Int(inputs.bytes(of: file)), limit) / 330
    return try inputs.stream(file, limit: limit) { try parseFast($0, expected: expected) }
  }

  /// Reads a window of text at a time, to bound memory. The complete entries in it become a list: brackets replace the commas around
  /// them. A comma that does not separate two entries leaves a fragment that is not a list, and so does an unbalanced bracket.
  static func parseFast(_ refill: JSONReader.Refill, window: Int = 1 << 18, expected: Int = 0) throws -> [Record]? {
    let parser = csimdjson_new()
    defer { csimdjson_free(parser) }
    return try withBuffer(of: window + Int(CSIMDJSON_PADDING)) {
      try parseFast(refill, window: window, expected: expected, text: $0, parser)
    }
  }

  private static func parseFast(
    _ refill: JSONReader.Refill, window: Int, expected: Int, text: UnsafeMutableRawBufferPointer, _ parser: OpaquePointer?
  ) throws -> [Record]? {
    text.initializeMemory(as: UInt8.self, repeating: 0)
    var reading = FastParse()
    reading.records.reserveCapacity(expected)
    var (filled, isFirst) = (0, true)
    while true {
      let read = try refill(UnsafeMutableRawBufferPointer(rebasing: text[filled..<window]))
      filled += read
      if read > 0, filled < window { continue }
      let isLast = read == 0
      guard let comma = isLast ? filled : lastComma(UnsafeRawBufferPointer(rebasing: text[..<filled])) else { return nil }
      if !isLast { text[comma] = UInt8(ascii: "]") }
      let count = reading.read(UnsafeRawBufferPointer(rebasing: text[..<(isLast ? filled : comma + 1)]), parser)
      // An entry must follow a comma.
      guard count > 0 || count == 0 && isFirst else { return nil }
      if isLast { return reading.records }
      text[comma] = UInt8(ascii: "[")
      text.copyMemory(from: UnsafeRawBufferPointer(rebasing: text[comma..<filled]))
      (filled, isFirst) = (filled - comma, false)
    }
  }

  /// The last comma after a closed entry.
  private static func lastComma(_ text: UnsafeRawBufferPointer) -> Int? {
    var comma: Int?
    for index in text.indices.reversed() {
      switch text[index] {
      case UInt8(ascii: ","): comma = index
      case UInt8(ascii: "}"): if let comma { return comma }
      case UInt8(ascii: " "), UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "\t"): break
      default: comma = nil
      }
    }
    return nil
  }

  private struct FastParse {
    var records: [Record] = []
    var isPlain = true

    /// Number of entries in the list; -1 where it is not plain.
    mutating func read(_ list: UnsafeRawBufferPointer, _ parser: OpaquePointer?) -> Int64 {
      let count = withUnsafeMutablePointer(to: &self) { reading in
        csimdjson_read_poses(parser, list.bindMemory(to: UInt8.self).baseAddress, list.count, reading) { context, pose in
          guard let reading = context?.assumingMemoryBound(to: FastParse.self), let pose = pose?.pointee else { return }
          guard reading.pointee.isPlain, let record = Record(pose) else {
            reading.pointee.isPlain = false
            return
          }
          reading.pointee.records.append(record)
        }
      }
      return isPlain ? count : -1
    }
  }

  /// The entries of any file that has some; a file that is cut off yields its intact ones.
  static func parseStrictly(_ inputs: TakeInputs, _ file: Int, limit: Int, notes: FindingCollector) throws -> [Record] {
    var records: [Record] = []
    var cut: JSONError?
    try inputs.readJSON(file, limit: limit) { reader in
      do {
        try parseStrictly(reader, into: &records)
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

  static func parseStrictly(_ reader: JSONReader, into records: inout [Record]) throws {
    try JSONRecord.forEach(in: reader, "poses") { records.append(try Record($0)) }
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

  /// `nil` where a number is not an integer.
  fileprivate init?(_ pose: csimdjson_pose) {
    func whole(_ value: Double) -> Int64? {
      guard value >= 0, let whole = Int64(exactly: value), whole < 1 << 53 else { return nil }
      return whole
    }
    guard let number = whole(pose.number) else { return nil }
    var depthIndex: Int64?
    if pose.has_depth_index != 0 {
      guard let whole = whole(pose.depth_index) else { return nil }
      depthIndex = whole
    }
    let digits = UnsafeRawBufferPointer(start: pose.timestamp, count: pose.timestamp_count)
    self = withUnsafeBytes(of: pose.transform) { matrix in
      PosesFile.Record(
        number: number, timestamp: Timestamp(decimalSeconds: digits), matrix: matrix.bindMemory(to: Double.self), depthIndex: depthIndex,
        depthPoint: pose.has_depth != 0 ? Float(pose.depth) : .nan, hasNullDepth: pose.has_null_depth != 0)
    }
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
