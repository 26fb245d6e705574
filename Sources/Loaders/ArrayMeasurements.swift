import Datasets
import Foundation
import HDF5
import Model

/// The figures of one array of an episode that the rules of loaders are about: an observation, or the actions.
struct ArrayMeasurements: Sendable {
  /// `pose`, `camera_image`, `actions`.
  var name: String
  /// The kind of its numbers; `nil` for an array that another program added.
  var kind: String?
  /// NumPy's name of the element type, `nil` for one that Takeset does not write.
  var type: String?
  var rows: Int
  /// Shape of one row; for images that are stored as files, that of the image.
  var shape: [Int]
  var unit: String
  /// `jpeg` or `png` for images that are stored as files.
  var encoding: String?
  /// Moments of each column, over its valid and finite values.
  var columns: [Moments] = []
  /// Names of the columns: `joints 2`, `index_pip`.
  var columnNames: [String] = []
  /// Number of rows with a value that is NaN or infinite.
  var notFinite = 0
  /// Number of rows that are masked, without the last one of actions: at the end of a recording it says that nothing moves, and nothing
  /// else is known.
  var masked = 0
  /// Those of them for which there is no sample near enough in time, as where another phone of a joined take is not recording.
  var unpaired = 0
  /// The member of a joined take that it is of.
  var member: String?
  /// Number of images that equal the one before, and the length of the longest run of equal ones.
  var repeats = 0
  var longestRepeat = 0
  /// Share of a depth map's valid values above 1 m as a loader would take them, in the array's own unit.
  var shareAboveOne: Double?
  var greatest: Double?

  var isImage: Bool { kind == StreamKind.image.word }
  var isDepth: Bool { kind == StreamKind.depth.word }
  var isPose: Bool { kind == "pose" }
  var isAngles: Bool { kind == StreamKind.angles.word }
  var isVector: Bool { kind == StreamKind.vector.word }

  /// Whether it has images that can be decoded, whatever their number.
  var hasPixels: Bool { isImage && shape.count == 3 && shape[2] == 3 && rows > 0 && shape.allSatisfy { (1...16384).contains($0) } }

  /// Widest row whose numbers are looked at one by one.
  private static let widestRow = 1 << 12
  private static let blockBytes = 1 << 20

  /// - Parameters:
  ///   - kind: The kind of its numbers; by default what its attribute says.
  ///   - mask: Whether each row is valid, where that is known.
  ///   - samples: The number of each row's sample, -1 for none.
  init(_ name: String, _ dataset: HDF5Array, kind: String? = nil, mask: [UInt8]?, digests: HDF5Array?, samples: HDF5Array? = nil) throws {
    self.name = name
    self.kind = try kind ?? dataset.textAttribute("kind")
    type = dataset.type?.numpyName
    rows = dataset.dims.first ?? 0
    guard rows <= StoredEpisode.mostRows else {
      throw HDF5Error(call: "H5Dread", target: name, message: "\(name) claims \(rows) rows; at most \(StoredEpisode.mostRows) are read")
    }
    unit = try dataset.textAttribute("unit") ?? ""
    shape = Array(dataset.dims.dropFirst())
    if dataset.type == .bytes {
      encoding = try dataset.textAttribute("encoding") ?? "jpeg"
      let sides = try ["height", "width"].compactMap { try dataset.integerAttribute($0).map { Int(clamping: $0) } }
      shape = sides + [3]
    }
    member = try dataset.textAttribute("member")
    masked = (name == "actions" ? mask?.dropLast() : mask?[...])?.count { $0 == 0 } ?? 0
    if masked > 0, let samples, samples.dims.count == 1 {
      try Self.forEachRow(of: samples) { row, numbers in
        if numbers[0] < 0, mask.map({ row < $0.count && $0[row] == 0 }) ?? false { unpaired += 1 }
      }
    }
    if let digests { try measureRepeats(digests, mask) }
    let isRaster = kind.flatMap { StreamKind(word: $0, frame: nil) }?.isRaster ?? (dataset.dims.count > 3)
    guard !isRaster, let width = Self.width(dataset), width <= Self.widestRow, dataset.type.map(Self.isNumber) ?? false else { return }
    columnNames = try Self.names(of: dataset, width)
    columns = Array(repeating: Moments(), count: width)
    try Self.forEachRow(of: dataset) { row, numbers in
      if !numbers.allSatisfy(\.isFinite) { notFinite += 1 }
      // A masked row holds zeros that nobody measured.
      if let mask, row < mask.count, mask[row] == 0 { return }
      for (column, number) in numbers.enumerated() where number.isFinite { columns[column].add(number) }
    }
  }

  private static func isNumber(_ type: Datatype) -> Bool {
    switch type {
    case .uint8, .int8, .uint16, .int32, .int64, .float32, .float64: true
    default: false
    }
  }

  /// Names from the attribute `parts` of actions, or `order` of vectors; else the numbers from 0.
  private static func names(of dataset: HDF5Array, _ width: Int) throws -> [String] {
    let parts = try dataset.textAttribute("parts")?.split(separator: " ").compactMap { StreamSpec.Part($0) } ?? []
    let names = parts.flatMap { part in
      part.columns > 4096 ? [] : (0..<part.columns).map { part.columns == 1 ? part.name : "\(part.name) \($0)" }
    }
    if names.count == width { return names }
    let order = try dataset.textAttribute("order")?.split(separator: " ").map(String.init) ?? []
    if order.count == width { return order }
    if try dataset.textAttribute("kind") == "pose", width == 7 { return ["x", "y", "z", "qx", "qy", "qz", "qw"] }
    return (0..<width).map { "column \($0)" }
  }

  /// Returns the number of values in a row; `nil` for none, or for too many to read a row at a time.
  private static func width(_ dataset: HDF5Array) -> Int? {
    let width = dataset.dims.dropFirst().reduce(1.0) { $0 * Double($1) }
    return (1...Double(blockBytes)).contains(width) ? Int(width) : nil
  }

  /// Passes the numbers of each row, some rows at a time.
  static func forEachRow(of dataset: HDF5Array, _ body: (_ row: Int, _ numbers: [Double]) throws -> Void) throws {
    guard let type = dataset.type, let rows = dataset.dims.first else { return }
    guard let width = width(dataset) else { return }
    let step = max(1, blockBytes / (width * type.size))
    for start in stride(from: 0, to: rows, by: step) {
      let block = numbers(try dataset.read(rows: start..<min(start + step, rows)), type)
      for row in 0..<(block.count / width) { try body(start + row, Array(block[(row * width)..<((row + 1) * width)])) }
    }
  }

  private static func numbers(_ bytes: [UInt8], _ type: Datatype) -> [Double] {
    func all<Number>(_: Number.Type, _ convert: (Number) -> Double) -> [Double] {
      bytes.withUnsafeBytes { $0.bindMemory(to: Number.self).map(convert) }
    }
    return switch type {
    case .uint8: bytes.map { Double($0) }
    case .int8: all(Int8.self) { Double($0) }
    case .uint16: all(UInt16.self) { Double($0) }
    case .int32: all(Int32.self) { Double($0) }
    case .int64: all(Int64.self) { Double($0) }
    case .float32: all(Float.self) { Double($0) }
    case .float64: all(Double.self) { $0 }
    default: []
    }
  }

  /// Compares the digest of each row with that of the row before.
  private mutating func measureRepeats(_ digests: HDF5Array, _ mask: [UInt8]?) throws {
    guard digests.type == .uint8, digests.dims.count == 2, digests.dims[1] == 32 else { return }
    let bytes = try digests.readAll()
    var run = 1
    for row in 1..<max(1, digests.dims[0]) {
      let isSame = bytes[(32 * (row - 1))..<(32 * row)] == bytes[(32 * row)..<(32 * row + 32)]
      let isValid = mask.map { row < $0.count && $0[row] == 1 && $0[row - 1] == 1 } ?? true
      run = isSame && isValid ? run + 1 : 1
      if run > 1 { repeats += 1 }
      longestRepeat = max(longestRepeat, run)
    }
  }
}
