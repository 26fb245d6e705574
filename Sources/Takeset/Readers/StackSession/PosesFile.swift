import CSimdJSON
import Model

/// Reads `poses.json`.
extension PoseList {
  init(json inputs: TakeInputs, _ file: Int, limit: Int, notes: Notes) throws {
    var entries = try Self.quickly(inputs, file, limit: limit) ?? []
    if entries.isEmpty { entries = try Self.carefully(inputs, file, limit: limit, notes: notes) }
    let transposed = entries.count(where: \.isTransposed)
    if transposed > 0 {
      // A pose at the origin looks the same either way; it is written as the others are.
      let isWhole = entries.allSatisfy { $0.isTransposed || $0.pose.map { $0.position == .zero } ?? true }
      for index in entries.indices where isWhole && !entries[index].isTransposed && entries[index].pose?.position == .zero {
        entries[index].pose?.quaternion *= [-1, -1, -1, 1]
      }
      notes.add(.posesTransposed, "matrices are written column by column; they are read so", file: "poses.json", count: transposed)
    }
    try self.init(entries, file: "poses.json", number: "rgbIndex", notes: notes)
  }

  /// The entries of a file in its plain form; `nil` for any other, which `carefully` reads, or tells what is wrong with it.
  static func quickly(_ inputs: TakeInputs, _ file: Int, limit: Int) throws -> [Entry]? {
    // An entry takes some 350 bytes of text.
    let expected = try min(Int(inputs.bytes(of: file)), limit) / 330
    return try inputs.stream(file, limit: limit) { try quickly($0, expected: expected) }
  }

  /// Reads a window of text at a time, for memory's sake. The whole entries in it are made a list by brackets where there were commas. A
  /// comma that is not one between two entries leaves a piece that is no list, and so does a bracket too many or too few.
  static func quickly(_ refill: JSONReader.Refill, window: Int = 1 << 18, expected: Int = 0) throws -> [Entry]? {
    let parser = csimdjson_new()
    defer { csimdjson_free(parser) }
    return try withBuffer(of: window + Int(CSIMDJSON_PADDING)) { try quickly(refill, window: window, expected: expected, text: $0, parser) }
  }

  private static func quickly(
    _ refill: JSONReader.Refill, window: Int, expected: Int, text: UnsafeMutableRawBufferPointer, _ parser: OpaquePointer?
  ) throws -> [Entry]? {
    text.initializeMemory(as: UInt8.self, repeating: 0)
    var reading = QuickReading()
    reading.entries.reserveCapacity(expected)
    var (filled, isFirst) = (0, true)
    while true {
      let read = try refill(UnsafeMutableRawBufferPointer(rebasing: text[filled..<window]))
      filled += read
      if read > 0, filled < window { continue }
      let isLast = read == 0
      guard let comma = isLast ? filled : lastComma(UnsafeRawBufferPointer(rebasing: text[..<filled])) else { return nil }
      if !isLast { text[comma] = UInt8(ascii: "]") }
      let count = reading.read(UnsafeRawBufferPointer(rebasing: text[..<(isLast ? filled : comma + 1)]), parser)
      // After a comma there has to be something.
      guard count > 0 || count == 0 && isFirst else { return nil }
      if isLast { return reading.entries }
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

  private struct QuickReading {
    var entries: [Entry] = []
    var isPlain = true

    /// How many entries the list has; -1 where it is not plain.
    mutating func read(_ list: UnsafeRawBufferPointer, _ parser: OpaquePointer?) -> Int64 {
      let count = withUnsafeMutablePointer(to: &self) { reading in
        csimdjson_read_poses(parser, list.bindMemory(to: UInt8.self).baseAddress, list.count, reading) { context, pose in
          guard let reading = context?.assumingMemoryBound(to: QuickReading.self), let pose = pose?.pointee else { return }
          guard reading.pointee.isPlain, let entry = Entry(pose) else {
            reading.pointee.isPlain = false
            return
          }
          reading.pointee.entries.append(entry)
        }
      }
      return isPlain ? count : -1
    }
  }

  /// The entries of any file that has some; a file that was cut off gives its whole ones.
  static func carefully(_ inputs: TakeInputs, _ file: Int, limit: Int, notes: Notes) throws -> [Entry] {
    var entries: [Entry] = []
    var cut: JSONError?
    try inputs.readJSON(file, limit: limit) { reader in
      do {
        try carefully(reader, into: &entries)
      } catch let error as JSONError where error.isTruncation && !entries.isEmpty {
        cut = error
      }
    }
    if let cut {
      notes.add(.posesTruncated, "the file ends too early (\(cut.message)); the \(entries.count) whole entries are used",
          file: "poses.json", field: ", " + cut.place)
    }
    return entries
  }

  static func carefully(_ reader: JSONReader, into entries: inout [Entry]) throws {
    guard try reader.nextIsArray else {
      throw TakeFailure(.jsonType, "expected a list of poses, found \(try reader.describeNext())")
    }
    try reader.beginArray()
    var isFirst = true
    while try reader.nextElement(isFirst: &isFirst) { entries.append(try EntryReader(reader, index: entries.count).read()) }
    try reader.expectEnd()
  }
}

extension PoseList.Entry {
  /// - Parameter matrix: Sixteen numbers, row by row.
  fileprivate init(
    number: Int64, timestamp: Timestamp?, matrix: UnsafeBufferPointer<Double>, depthIndex: Int64?, depthPoint: Float, hasNullDepth: Bool
  ) {
    // A position in the last row, and none in the last column: written column by column.
    let isTransposed =
      matrix[15] == 1 && (matrix[12] != 0 || matrix[13] != 0 || matrix[14] != 0) && matrix[3] == 0 && matrix[7] == 0 && matrix[11] == 0
    let pose =
      isTransposed
      ? withUnsafeTemporaryAllocation(of: Double.self, capacity: 16) { turned in
        for index in 0..<16 { turned.initializeElement(at: index, to: matrix[index % 4 * 4 + index / 4]) }
        return try? Pose(rowMajor: UnsafeBufferPointer(turned))
      } : try? Pose(rowMajor: matrix)
    self.init(
      number: number, timestamp: timestamp ?? Timestamp(nanoseconds: 0), hasTime: timestamp != nil, pose: pose, depthIndex: depthIndex,
      depthPoint: depthPoint, isTransposed: isTransposed, hasNullDepth: hasNullDepth)
  }

  /// `nil` where a number is not whole.
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
      PoseList.Entry(
        number: number, timestamp: Timestamp(decimalSeconds: digits), matrix: matrix.bindMemory(to: Double.self), depthIndex: depthIndex,
        depthPoint: pose.has_depth != 0 ? Float(pose.depth) : .nan, hasNullDepth: pose.has_null_depth != 0)
    }
  }
}

/// Reads one entry, naming the field in what it throws.
private struct EntryReader {
  let reader: JSONReader
  let index: Int

  init(_ reader: JSONReader, index: Int) {
    self.reader = reader
    self.index = index
  }

  func read() throws -> PoseList.Entry {
    guard try reader.nextIsObject else { throw mismatch("", "an object") }
    try reader.beginObject()
    var number: Int64?
    var timestamp: Timestamp?
    var hasTime = false
    var matrix: [Double]?
    var depthIndex: Int64?
    var depthPoint = Float.nan
    var hasNullDepth = false
    var isFirst = true
    while let key = try reader.nextKey(isFirst: &isFirst) {
      switch key {
      case "timestamp":
        guard try reader.nextIsNumber else { throw mismatch(key, "a number") }
        timestamp = try reader.seconds()
        hasTime = true
      case "rgbIndex": number = try wholeNumber(key)
      case "depthIndex": depthIndex = try reader.skipNull() ? nil : try wholeNumber(key)
      case "depth":
        if try reader.skipNull() {
          hasNullDepth = true
        } else {
          guard try reader.nextIsNumber else { throw mismatch(key, "a number") }
          depthPoint = Float(try reader.number())
        }
      case "transform": matrix = try transform(key)
      default: try reader.skip()
      }
    }
    guard let number else { throw failure("rgbIndex", "the key is missing") }
    guard hasTime else { throw failure("timestamp", "the key is missing") }
    guard let matrix else { throw failure("transform", "the key is missing") }
    return matrix.withUnsafeBufferPointer {
      PoseList.Entry(
        number: number, timestamp: timestamp, matrix: $0, depthIndex: depthIndex, depthPoint: depthPoint, hasNullDepth: hasNullDepth)
    }
  }

  /// Four rows of four numbers, or sixteen numbers, row by row.
  private func transform(_ key: String) throws -> [Double] {
    guard try reader.nextIsArray else { throw mismatch(key, "four rows of four numbers") }
    var numbers: [Double] = []
    numbers.reserveCapacity(16)
    var (isFirst, rows) = (true, 0)
    try reader.beginArray()
    while try reader.nextElement(isFirst: &isFirst) {
      if try reader.nextIsArray {
        var (isFirstNumber, count) = (true, 0)
        try reader.beginArray()
        while try reader.nextElement(isFirst: &isFirstNumber) {
          guard try reader.nextIsNumber else { throw mismatch("\(key)[\(rows)][\(count)]", "a number") }
          count += 1
          guard count <= 4 else { throw failure("\(key)[\(rows)]", "expected four numbers, found more") }
          numbers.append(try reader.number())
        }
        guard count == 4 else { throw failure("\(key)[\(rows)]", "expected four numbers, found \(count)") }
      } else {
        guard try reader.nextIsNumber else { throw mismatch("\(key)[\(rows)]", "a number or a row of four") }
        numbers.append(try reader.number())
      }
      rows += 1
      guard numbers.count <= 16 else { throw failure(key, "expected sixteen numbers, found more") }
    }
    guard numbers.count == 16 else { throw failure(key, "expected sixteen numbers, found \(numbers.count)") }
    return numbers
  }

  private func wholeNumber(_ key: String) throws -> Int64 {
    guard try reader.nextIsNumber else { throw mismatch(key, "a whole number") }
    let value = try reader.number()
    guard value >= 0, let whole = Int64(exactly: value), whole < 1 << 53 else {
      throw failure(key, "expected a whole number from 0, found \(value)")
    }
    return whole
  }

  private func mismatch(_ key: String, _ expected: String) -> TakeFailure {
    failure(key, "expected \(expected), found \((try? reader.describeNext()) ?? "something else")")
  }

  private func failure(_ key: String, _ message: String) -> TakeFailure {
    TakeFailure(.jsonType, message, field: "[\(index)]" + (key.isEmpty ? "" : ".\(key)"))
  }
}
