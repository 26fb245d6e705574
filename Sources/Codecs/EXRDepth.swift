import CDeflate
import Model

/// A depth map in an OpenEXR file: one part of scan lines with one channel of 16 or 32-bit floats, not compressed or by deflate.
///
/// The format is that of "OpenEXR File Layout" (https://openexr.com/en/latest/OpenEXRFileLayout.html): integers are little-endian, a header of
/// attributes is followed by offsets of blocks of lines. Other kinds of files, which no app writes for depth, are refused by name.
package struct EXRDepth: Sendable {
  /// A file that cannot be decoded, with the reason as the end of a sentence about it.
  package struct Failure: Error, Equatable, CustomStringConvertible {
    package let description: String
    init(_ description: String) { self.description = description }
  }

  private enum Compression: UInt8 {
    case none = 0
    /// Deflate, a line at a time.
    case zips = 2
    /// Deflate, 16 lines at a time.
    case zip = 3

    var lines: Int { self == .zip ? 16 : 1 }
  }

  package let width, height: Int
  private let firstLine: Int
  private let isHalf: Bool
  private let compression: Compression
  /// Position of the offsets of blocks.
  private let offsets: Int

  /// Reads the header.
  ///
  /// - Parameter limit: Longest side that is allowed, in pixels.
  /// - Throws: `Failure` for a damaged header and for other kinds of files.
  package init(_ file: UnsafeRawBufferPointer, limit: Int) throws(Failure) {
    var header = Cursor(file)
    guard file.count >= 8, header.integer() == 20_000_630 else { throw Failure("it does not begin as an OpenEXR file") }
    let version = header.integer() ?? 0
    guard version & 0xFF == 2 else { throw Failure("it is version \(version & 0xFF) of OpenEXR; expected 2") }
    for (bit, kind) in [(0x200, "is tiled"), (0x800, "has deep pixels"), (0x1000, "has several parts")] where version & bit != 0 {
      throw Failure("it \(kind); only single images of scan lines are read")
    }
    var window: [Int]?
    var isHalf: Bool?
    var compression: Compression?
    while true {
      guard let name = header.text() else { throw Failure("it ends in its header") }
      if name.isEmpty { break }
      guard let type = header.text(), let count = header.integer(), count >= 0, var value = header.part(count) else {
        throw Failure("it ends in its header, in \(name)")
      }
      switch (name, type) {
      case ("channels", "chlist"): isHalf = try Self.isHalf(&value)
      case ("compression", "compression"):
        let number = value.byte() ?? 255
        guard let known = Compression(rawValue: number) else {
          let names = [1: "RLE", 4: "PIZ", 5: "PXR24", 6: "B44", 7: "B44A", 8: "DWAA", 9: "DWAB"]
          throw Failure("it is compressed by \(names[Int(number)] ?? "method \(number)"); only ZIP, ZIPS and none are read")
        }
        compression = known
      case ("dataWindow", "box2i"): window = (0..<4).compactMap { _ in value.integer() }
      default: break
      }
    }
    guard let isHalf, let compression, let window, window.count == 4 else {
      throw Failure("its header lacks one of channels, compression and dataWindow")
    }
    let (width, height) = (window[2] - window[0] + 1, window[3] - window[1] + 1)
    guard (1...limit).contains(width), (1...limit).contains(height) else {
      throw Failure("it is \(width)x\(height); at most \(limit)x\(limit) is read")
    }
    (self.width, self.height, firstLine, self.isHalf, self.compression) = (width, height, window[1], isHalf, compression)
    offsets = header.position
  }

  /// Whether the only channel has 16 bits.
  private static func isHalf(_ list: inout Cursor) throws(Failure) -> Bool {
    var types: [(name: String, type: Int)] = []
    while let name = list.text(), !name.isEmpty {
      guard let type = list.integer(), list.integer() != nil, let across = list.integer(), let down = list.integer() else {
        throw Failure("its list of channels ends early")
      }
      guard across == 1, down == 1 else { throw Failure("channel \(name) has fewer values than pixels") }
      types.append((name, type))
    }
    guard types.count == 1 else { throw Failure("it has \(types.count) channels; expected one, of depth") }
    guard [1, 2].contains(types[0].type) else { throw Failure("channel \(types[0].name) is not of floats") }
    return types[0].type == 1
  }

  /// Replaces `values` with the values of all lines, from the top.
  ///
  /// - Parameter file: The bytes that the header was read from.
  /// - Throws: `Failure` if blocks are damaged or missing.
  package func decode(_ file: UnsafeRawBufferPointer, into values: inout [Float]) throws(Failure) {
    let blocks = (height + compression.lines - 1) / compression.lines
    let lineBytes = width * (isHalf ? 2 : 4)
    guard file.count - offsets >= 8 * blocks else { throw Failure("it ends in its table of blocks") }
    if values.count != width * height { values = [Float](repeating: 0, count: width * height) }
    var isKnown = [Bool](repeating: false, count: blocks)
    var inflated = [UInt8](), plain = [UInt8]()
    for block in 0..<blocks {
      let offset = file.loadUnaligned(fromByteOffset: offsets + 8 * block, as: UInt64.self).littleEndian
      guard let offset = Int(exactly: offset), offset >= offsets, offset <= file.count - 8 else {
        throw Failure("block \(block) is outside of the file")
      }
      var cursor = Cursor(file, from: offset)
      guard let line = cursor.integer(), let count = cursor.integer(), count >= 0, let stored = cursor.part(count) else {
        throw Failure("block \(block) ends early")
      }
      let (number, rest) = (line - firstLine).quotientAndRemainder(dividingBy: compression.lines)
      guard line >= firstLine, rest == 0, number < blocks, !isKnown[number] else { throw Failure("block \(block) begins at line \(line)") }
      isKnown[number] = true
      let lines = min(compression.lines, height - number * compression.lines)
      let size = lines * lineBytes
      let start = number * compression.lines * width
      if compression == .none || count == size {
        guard count == size else { throw Failure("block \(block) has \(count) bytes; expected \(size)") }
        unpack(stored.bytes, lines * width, into: &values, at: start)
      } else {
        try Self.inflate(stored.bytes, size, into: &inflated)
        Self.restore(&inflated, into: &plain)
        plain.withUnsafeBytes { unpack($0, lines * width, into: &values, at: start) }
      }
    }
  }

  private func unpack(_ bytes: UnsafeRawBufferPointer, _ count: Int, into values: inout [Float], at start: Int) {
    values.withUnsafeMutableBufferPointer { values in
      for index in 0..<count {
        values[start + index] =
          isHalf
          ? HalfFloat.value(bytes.loadUnaligned(fromByteOffset: 2 * index, as: UInt16.self).littleEndian)
          : Float(bitPattern: bytes.loadUnaligned(fromByteOffset: 4 * index, as: UInt32.self).littleEndian)
      }
    }
  }

  private static func inflate(_ bytes: UnsafeRawBufferPointer, _ count: Int, into output: inout [UInt8]) throws(Failure) {
    guard let inflater = libdeflate_alloc_decompressor() else { throw Failure("there is no memory to inflate it") }
    defer { libdeflate_free_decompressor(inflater) }
    if output.count != count { output = [UInt8](repeating: 0, count: count) }
    let result = output.withUnsafeMutableBytes {
      libdeflate_zlib_decompress(inflater, bytes.baseAddress, bytes.count, $0.baseAddress, count, nil)
    }
    guard result == LIBDEFLATE_SUCCESS else { throw Failure("a block of lines is damaged") }
  }

  /// Each byte is the difference to the one before it, plus 128; then the bytes at even places come first.
  private static func restore(_ bytes: inout [UInt8], into output: inout [UInt8]) {
    for index in bytes.indices.dropFirst() { bytes[index] = bytes[index - 1] &+ bytes[index] &- 128 }
    if output.count != bytes.count { output = [UInt8](repeating: 0, count: bytes.count) }
    let half = (bytes.count + 1) / 2
    for index in output.indices { output[index] = bytes[index % 2 == 0 ? index / 2 : half + index / 2] }
  }
}

/// Reads values one after the other; `nil` past the end.
private struct Cursor {
  let bytes: UnsafeRawBufferPointer
  private(set) var position: Int

  init(_ bytes: UnsafeRawBufferPointer, from position: Int = 0) { (self.bytes, self.position) = (bytes, position) }

  mutating func byte() -> UInt8? {
    guard position < bytes.count else { return nil }
    defer { position += 1 }
    return bytes[position]
  }

  mutating func integer() -> Int? {
    guard bytes.count - position >= 4 else { return nil }
    defer { position += 4 }
    return Int(Int32(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: Int32.self)))
  }

  /// A text of at most 255 bytes that ends with a zero.
  mutating func text() -> String? {
    guard let end = bytes[position...].prefix(256).firstIndex(of: 0) else { return nil }
    defer { position = end + 1 }
    return String(decoding: bytes[position..<end], as: UTF8.self)
  }

  /// The next bytes, to be read from their own start.
  mutating func part(_ count: Int) -> Cursor? {
    guard bytes.count - position >= count else { return nil }
    defer { position += count }
    return Cursor(UnsafeRawBufferPointer(rebasing: bytes[position..<(position + count)]))
  }
}
