/// Reads `poses.json`.
extension PoseList {
  init(json inputs: TakeInputs, _ file: Int, limit: Int, findings: inout [Finding]) throws {
    var entries: [Entry] = []
    var cut: JSONError?
    try inputs.readJSON(file, limit: limit) { reader in
      do {
        guard try reader.nextIsArray else {
          throw TakeFailure("json-type", "expected a list of poses, found \(try reader.describeNext())")
        }
        try reader.beginArray()
        var isFirst = true
        while try reader.nextElement(isFirst: &isFirst) {
          if let entry = try EntryReader(reader, index: entries.count).read() { entries.append(entry) }
        }
        try reader.expectEnd()
      } catch let error as JSONError where error.isTruncation && !entries.isEmpty {
        cut = error
      }
    }
    if let cut {
      findings.append(
        Finding(
          .warning, "poses-truncated", "the file ends too early (\(cut.message)); the \(entries.count) whole entries are used",
          file: "poses.json", field: ", " + cut.place))
    }
    let transposed = entries.count(where: \.isTransposed)
    if transposed > 0 {
      // A pose at the origin looks the same either way; it is written as the others are.
      for index in entries.indices where !entries[index].isTransposed && entries[index].pose?.position == .zero {
        entries[index].pose?.quaternion *= [-1, -1, -1, 1]
      }
      findings.append(
        Finding(
          .warning, "poses-transposed", "matrices are written column by column; they are read so", file: "poses.json", count: transposed))
    }
    try self.init(entries, file: "poses.json", number: "rgbIndex", findings: &findings)
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

  func read() throws -> PoseList.Entry? {
    guard try reader.nextIsObject else { throw mismatch("", "an object") }
    try reader.beginObject()
    var number: Int64?
    var timestamp: Timestamp?
    var hasTime: Bool?
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
        hasTime = timestamp != nil
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
    guard let hasTime else { throw failure("timestamp", "the key is missing") }
    guard var matrix else { throw failure("transform", "the key is missing") }
    // A position in the last row, and none in the last column: written column by column.
    let isTransposed = matrix[15] == 1 && matrix[12...14].contains { $0 != 0 } && [3, 7, 11].allSatisfy { matrix[$0] == 0 }
    if isTransposed { matrix = (0..<16).map { matrix[$0 % 4 * 4 + $0 / 4] } }
    return PoseList.Entry(
      number: number, timestamp: timestamp ?? Timestamp(nanoseconds: 0), hasTime: hasTime, pose: try? Pose(rowMajor: matrix),
      depthIndex: depthIndex, depthPoint: depthPoint, isTransposed: isTransposed, hasNullDepth: hasNullDepth)
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
    TakeFailure("json-type", message, field: "[\(index)]" + (key.isEmpty ? "" : ".\(key)"))
  }
}
