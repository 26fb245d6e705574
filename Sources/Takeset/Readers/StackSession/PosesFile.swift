/// The entries of `poses.json` by frame number.
struct PosesFile {
  struct Entry {
    /// `rgbIndex`: names `rgb/NNNNNN.jpg`.
    var number: Int64
    var timestamp: Timestamp
    /// `nil` where the matrix is not a pose.
    var pose: Pose?
    /// Names `depth/NNNNNN.bin`.
    var depthIndex: Int64?
    /// Metres at the picture's centre, NaN where there is none.
    var depthPoint: Float
    /// The matrix was written column by column.
    var isTransposed = false
    /// The key `depth` is there and null, as SLAM writes it.
    var hasNullDepth = false
    /// False where the time does not fit between those of the neighbours; such an entry makes no row.
    var isInOrder = true
  }

  var entries: [Entry] = []

  init(_ inputs: TakeInputs, _ file: Int, limit: Int, findings: inout [Finding]) throws {
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
      findings.append(
        Finding(
          .warning, "poses-transposed", "matrices are written column by column; they are read so", file: "poses.json", count: transposed))
    }
    sortByNumber(&findings)
    try markDisorder(&findings)
  }

  private mutating func sortByNumber(_ findings: inout [Finding]) {
    let inversions = zip(entries, entries.dropFirst()).count { $0.number > $1.number }
    if inversions > 0 {
      entries = entries.enumerated().sorted { ($0.element.number, $0.offset) < ($1.element.number, $1.offset) }.map(\.element)
      findings.append(
        Finding(.info, "poses-unsorted", "entries were not in the order of rgbIndex", file: "poses.json", count: inversions))
    }
    var kept: [Entry] = []
    var conflicts = 0
    for entry in entries {
      if let last = kept.last, last.number == entry.number {
        // Said twice is said once.
        if entry.timestamp != last.timestamp || entry.pose != last.pose || entry.depthIndex != last.depthIndex { conflicts += 1 }
      } else {
        kept.append(entry)
      }
    }
    entries = kept
    if conflicts > 0 {
      findings.append(
        Finding(
          .warning, "poses-duplicate", "several entries have the same rgbIndex; the first is used", file: "poses.json", count: conflicts))
    }
  }

  /// Keeps the longest sequence of entries whose times ascend, so that one wild timestamp costs one frame.
  private mutating func markDisorder(_ findings: inout [Finding]) throws {
    // Patience sorting (Schensted 1961): `tails[n]` is the entry with the least time that ends an ascending run of n + 1.
    var tails: [Int] = []
    var before: [Int?] = Array(repeating: nil, count: entries.count)
    for index in entries.indices {
      var (low, high) = (0, tails.count)
      while low < high {
        let middle = (low + high) / 2
        if entries[tails[middle]].timestamp < entries[index].timestamp { low = middle + 1 } else { high = middle }
      }
      before[index] = low > 0 ? tails[low - 1] : nil
      if low < tails.count { tails[low] = index } else { tails.append(index) }
    }
    for index in entries.indices { entries[index].isInOrder = false }
    var next = tails.last
    while let index = next {
      entries[index].isInOrder = true
      next = before[index]
    }
    let count = entries.count - tails.count
    if count * 5 > entries.count {
      throw TakeFailure(
        "too-few-times", "\(count) of \(entries.count) timestamps do not ascend with rgbIndex; at most a fifth may not",
        file: "poses.json")
    }
    if count > 0 {
      findings.append(
        Finding(
          .warning, "time-not-ascending", "timestamps that do not fit between their neighbours; such frames are left out",
          file: "poses.json", count: count))
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

  func read() throws -> PosesFile.Entry? {
    guard try reader.nextIsObject else { throw mismatch("", "an object") }
    try reader.beginObject()
    var number: Int64?
    var timestamp: Timestamp?
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
        if timestamp == nil { throw failure(key, "expected seconds, found a number that is no time") }
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
    guard let timestamp else { throw failure("timestamp", "the key is missing") }
    guard var matrix else { throw failure("transform", "the key is missing") }
    // A position in the last row, and none in the last column: written column by column.
    let isTransposed = matrix[15] == 1 && matrix[12...14].contains { $0 != 0 } && [3, 7, 11].allSatisfy { matrix[$0] == 0 }
    if isTransposed { matrix = (0..<16).map { matrix[$0 % 4 * 4 + $0 / 4] } }
    return PosesFile.Entry(
      number: number, timestamp: timestamp, pose: try? Pose(rowMajor: matrix), depthIndex: depthIndex,
      depthPoint: depthPoint, isTransposed: isTransposed, hasNullDepth: hasNullDepth)
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

/// Which entries become rows: those with a picture of their number and a usable pose, in ascending time.
struct FrameJoin {
  /// Indices into the entries.
  private(set) var rows: [Int] = []
  private(set) var dropped: [Episode.Dropped] = []
  /// Every frame number that has a pose or a picture.
  let sourceFrames: Int
  /// Pictures over poses, where only the end of the pictures is missing: an upload that was cut off.
  private(set) var coverage: Double?

  init(poses: PosesFile, folder: SessionFolder, findings: inout [Finding]) throws {
    var (unusable, disorder, withoutPicture) = (0, 0, 0)
    var withPicture = 0
    for (index, entry) in poses.entries.enumerated() {
      let hasPicture = folder.images[entry.number] != nil
      if hasPicture { withPicture += 1 }
      if entry.pose == nil {
        unusable += 1
      } else if !entry.isInOrder {
        disorder += 1
      } else if !hasPicture {
        withoutPicture += 1
      } else {
        rows.append(index)
      }
    }
    let count = poses.entries.count
    let unposed = folder.images.count - withPicture
    sourceFrames = count + unposed
    let firstMissing = poses.entries.firstIndex { folder.images[$0.number] == nil }
    if let firstMissing, firstMissing == withPicture, unposed == 0 {
      coverage = Double(withPicture) / Double(count)
      findings.append(
        Finding(
          .warning, "partial-upload", "the pictures end after the first \(withPicture) of \(count) poses", file: "rgb", count: count - withPicture))
    }
    note("pose-unusable", unusable, "transforms that are not a rotation and a position", &findings)
    note("time-not-ascending", disorder, nil, &findings)
    note("image-missing", withoutPicture, "poses whose picture is not in rgb/", &findings)
    note("pose-missing", unposed, "pictures whose number has no pose", &findings)
    if withPicture * 2 < count {
      throw TakeFailure(
        "too-few-images", "\(withPicture) of the \(count) pictures that poses.json names are there; at least half are needed",
        file: "rgb")
    }
    if unusable * 5 > count {
      throw TakeFailure(
        "too-few-poses", "\(unusable) of \(count) transforms are not poses; at most a fifth may be", file: "poses.json")
    }
    if rows.isEmpty { throw TakeFailure("no-frames", "no picture in rgb/ has a pose with its number") }
  }

  private mutating func note(_ code: String, _ count: Int, _ message: String?, _ findings: inout [Finding]) {
    guard count > 0 else { return }
    dropped.append(Episode.Dropped(reason: code, count: count))
    if let message { findings.append(Finding(.warning, code, message + "; such frames are left out", count: count)) }
  }
}
