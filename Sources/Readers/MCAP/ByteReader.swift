/// A fault of a record or message, as a sentence without its place.
struct MessageFault: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// Reads numbers and texts of a record or message in order; every read is checked.
struct ByteReader {
  let bytes: UnsafeRawBufferPointer
  private(set) var offset: Int
  private let isBigEndian: Bool

  init(_ bytes: UnsafeRawBufferPointer, at offset: Int = 0, isBigEndian: Bool = false) {
    (self.bytes, self.offset, self.isBigEndian) = (bytes, offset, isBigEndian)
  }

  var isAtEnd: Bool { offset >= bytes.count }
  var left: Int { bytes.count - offset }

  /// Returns the range of the next bytes and passes them.
  mutating func skip(_ count: Int) throws -> Range<Int> {
    guard count >= 0, count <= left else { throw MessageFault("it ends \(count < 0 ? "too early" : "after \(left) of \(count) bytes")") }
    defer { offset += count }
    return offset..<(offset + count)
  }

  mutating func integer<Number: FixedWidthInteger>(_ type: Number.Type = Number.self) throws -> Number {
    let range = try skip(MemoryLayout<Number>.size)
    let number = bytes.loadUnaligned(fromByteOffset: range.lowerBound, as: Number.self)
    return isBigEndian ? Number(bigEndian: number) : Number(littleEndian: number)
  }

  mutating func float() throws -> Float { Float(bitPattern: try integer(UInt32.self)) }
  mutating func double() throws -> Double { Double(bitPattern: try integer(UInt64.self)) }

  /// Passes bytes up to a multiple of `alignment` after `start`.
  mutating func align(to alignment: Int, after start: Int) throws {
    let over = (offset - start) % alignment
    if over != 0 { _ = try skip(alignment - over) }
  }

  /// The next `count` bytes as text; of invalid UTF-8, the invalid bytes are replaced.
  mutating func text(count: Int) throws -> String { String(decoding: bytes[try skip(count)], as: UTF8.self) }

  /// A text after its length.
  mutating func text() throws -> String { try text(count: Int(integer(UInt32.self))) }

  /// A map of texts after its size in bytes.
  mutating func texts() throws -> [String: String] {
    let range = try skip(Int(integer(UInt32.self)))
    var entries = ByteReader(UnsafeRawBufferPointer(rebasing: bytes[range]))
    var map: [String: String] = [:]
    while !entries.isAtEnd { map[try entries.text()] = try entries.text() }
    return map
  }
}
