import Foundation
import Model
import Steps

/// An array in NumPy's format, versions 1 to 3: a header that is a Python dictionary, and the elements. Rows of numbers only.
///
/// Source: NumPy Enhancement Proposal 1 and `numpy.lib.format`.
struct NumPyArray {
  let rows: Int
  let width: Int
  private let isColumnMajor: Bool
  private let type: String
  private let read: Read
  /// Where the elements begin.
  private let start: Int
  /// The array in words: `the array take-1`.
  private let place: String

  /// Bytes within which a header ends.
  static let headerLimit = 1 << 14

  /// Throws `UnusableValues` for an array of another shape or type.
  init(header bytes: [UInt8], of place: String) throws {
    let magic: [UInt8] = [0x93] + Array("NUMPY".utf8)
    guard bytes.count > 12, bytes.starts(with: magic), (1...3).contains(bytes[6]) else {
      throw UnusableValues("\(place) is not an array of NumPy")
    }
    let size = bytes[6] == 1 ? 2 : 4
    let length = bytes[8..<(8 + size)].reversed().reduce(0) { $0 << 8 | Int($1) }
    guard 8 + size + length <= bytes.count else { throw UnusableValues("\(place) ends within its header, or has a very long one") }
    start = 8 + size + length
    let header = String(decoding: bytes[(8 + size)..<start], as: UTF8.self)
    guard let type = Self.text(after: "descr", in: header), let order = Self.word(after: "fortran_order", in: header),
      let shape = Self.shape(in: header)
    else { throw UnusableValues("\(place) has a header that is not understood: \(String(header.prefix(120)).onOneLine)") }
    guard shape.count == 1 || shape.count == 2 else {
      throw UnusableValues("\(place) has the shape (\(shape.map(String.init).joined(separator: ", "))); expected (rows) or (rows, numbers)")
    }
    (self.type, self.place, isColumnMajor, rows, width) = (type, place, order == "True", shape[0], shape.count == 2 ? shape[1] : 1)
    guard (1...AddedValues.mostElements).contains(width) else {
      throw UnusableValues("\(place) has \(width) numbers a row; expected 1 to \(AddedValues.mostElements)")
    }
    guard let read = Self.reader(type) else {
      throw UnusableValues(
        "\(place) has the type \(type.onOneLine); expected floats of 16 to 64 bits, whole numbers or truth values, little-endian")
    }
    self.read = read
  }

  private var elementBytes: Int { type.last?.wholeNumberValue ?? 1 }

  /// Throws `UnusableValues` where so many bytes are not what the header says.
  func checkSize(_ bytes: Int64) throws {
    let (size, overflow) = rows.multipliedReportingOverflow(by: width * elementBytes)
    guard !overflow, Int64(size) == bytes - Int64(start) else {
      throw UnusableValues("\(place) has \(bytes - Int64(start)) bytes; its shape and type say otherwise")
    }
  }

  /// The numbers of a complete array, whose size was checked, row after row. Throws `UnusableValues` for one that cannot be stored.
  func values(in bytes: [UInt8]) throws -> [Float] {
    try bytes.withUnsafeBytes { bytes in
      try (0..<(rows * width)).map { index in
        let element = isColumnMajor ? index % width * rows + index / width : index
        return try read(bytes, start + element * elementBytes) { "row \(index / width) of \(place)" }
      }
    }
  }

  // MARK: The header

  private static func rest(after key: String, in header: String) -> Substring? {
    guard let found = header.range(of: "'\(key)':") else { return nil }
    return header[found.upperBound...].drop { $0 == " " }
  }

  private static func text(after key: String, in header: String) -> String? {
    guard let rest = rest(after: key, in: header), rest.first == "'" else { return nil }
    return String(rest.dropFirst().prefix { $0 != "'" })
  }

  private static func word(after key: String, in header: String) -> String? {
    rest(after: key, in: header).map { String($0.prefix(while: \.isLetter)) }
  }

  private static func shape(in header: String) -> [Int]? {
    guard let rest = rest(after: "shape", in: header), rest.first == "(", let end = rest.firstIndex(of: ")") else { return nil }
    let words = rest[rest.index(after: rest.startIndex)..<end].split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
    let extents = words.filter { !$0.isEmpty }.map { Int($0) }
    return extents.contains { $0.map { $0 < 0 } ?? true } ? nil : extents.compactMap(\.self)
  }

  // MARK: Elements

  /// Returns the element at an offset, as it is stored; throws a sentence that begins with its place.
  private typealias Read = (_ bytes: UnsafeRawBufferPointer, _ offset: Int, _ place: () -> String) throws -> Float

  private static func reader(_ type: String) -> Read? {
    func bits<Number: FixedWidthInteger>(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Number {
      Number(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: Number.self))
    }
    func whole<Number: FixedWidthInteger>(_: Number.Type) -> Read { { try AddedValues.float(bits($0, $1) as Number, $2()) } }
    switch type {
    case "<f2": return { try AddedValues.float(Double(HalfFloat.value(bits($0, $1))), $2()) }
    case "<f4": return { try AddedValues.float(Double(Float(bitPattern: bits($0, $1))), $2()) }
    case "<f8": return { try AddedValues.float(Double(bitPattern: bits($0, $1)), $2()) }
    case "|b1", "|u1": return whole(UInt8.self)
    case "|i1": return whole(Int8.self)
    case "<u2": return whole(UInt16.self)
    case "<i2": return whole(Int16.self)
    case "<u4": return whole(UInt32.self)
    case "<i4": return whole(Int32.self)
    case "<u8": return whole(UInt64.self)
    case "<i8": return whole(Int64.self)
    default: return nil
    }
  }
}
