import Foundation
import Steps

/// An array in NumPy's format, versions 1 to 3: a header that is a Python dictionary, and the elements.
///
/// Source: NumPy Enhancement Proposal 1 and `numpy.lib.format`.
struct NumPyArray {
  private let shape: [Int]
  private let isColumnMajor: Bool
  private let type: String
  private let data: ArraySlice<UInt8>

  /// Throws `UnusableValues`, whose reason goes on with a sentence about the array.
  init(_ bytes: [UInt8]) throws {
    let magic: [UInt8] = [0x93] + Array("NUMPY".utf8)
    guard bytes.count > 12, bytes.starts(with: magic), (1...3).contains(bytes[6]) else {
      throw UnusableValues("is not an array of NumPy")
    }
    let width = bytes[6] == 1 ? 2 : 4
    let length = bytes[8..<(8 + width)].reversed().reduce(0) { $0 << 8 | Int($1) }
    let start = 8 + width + length
    guard start <= bytes.count else { throw UnusableValues("ends within its header") }
    let header = String(decoding: bytes[(8 + width)..<start], as: UTF8.self)
    guard let type = Self.text(after: "descr", in: header), let order = Self.word(after: "fortran_order", in: header),
      let extents = Self.shape(in: header)
    else { throw UnusableValues("has a header that is not understood: \(header.prefix(120).description.onOneLine)") }
    (self.type, isColumnMajor, shape, data) = (type, order == "True", extents, bytes[start...])
  }

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

  /// The array as rows of numbers. Throws for one of another shape or type.
  func table() throws -> AddedValues.Table {
    guard shape.count == 1 || shape.count == 2 else {
      throw UnusableValues("has the shape (\(shape.map(String.init).joined(separator: ", "))); expected (rows) or (rows, numbers)")
    }
    let (rows, width) = (shape[0], shape.count == 2 ? shape[1] : 1)
    guard (1...AddedValues.mostElements).contains(width) else {
      throw UnusableValues("has \(width) numbers a row; expected 1 to \(AddedValues.mostElements)")
    }
    guard let read = Self.reader(type), let size = type.last?.wholeNumberValue else {
      throw UnusableValues("has the type \(type.onOneLine); expected numbers of 8 to 64 bits, little-endian, or truth values")
    }
    let (bytes, overflow) = rows.multipliedReportingOverflow(by: width * size)
    guard !overflow, bytes == data.count else { throw UnusableValues("has \(data.count) bytes; its shape and type say otherwise") }
    let values = try data.withUnsafeBytes { data in
      try (0..<(rows * width)).map { index in
        let place = isColumnMajor ? index % width * rows + index / width : index
        return try AddedValues.float(read(data, place * size), in: "row \(index / width)")
      }
    }
    return AddedValues.Table(rows: rows, width: width, values: values, place: "")
  }

  private typealias Read = (UnsafeRawBufferPointer, Int) -> Double

  private static func reader(_ type: String) -> Read? {
    func bits<Number: FixedWidthInteger>(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> Number {
      Number(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: Number.self))
    }
    func integer<Number: FixedWidthInteger>(_: Number.Type) -> Read { { Double(bits($0, $1) as Number) } }
    switch type {
    case "<f4": return { Double(Float(bitPattern: bits($0, $1))) }
    case "<f8": return { Double(bitPattern: bits($0, $1)) }
    case "|b1", "|u1": return integer(UInt8.self)
    case "|i1": return integer(Int8.self)
    case "<u2": return integer(UInt16.self)
    case "<i2": return integer(Int16.self)
    case "<u4": return integer(UInt32.self)
    case "<i4": return integer(Int32.self)
    case "<u8": return integer(UInt64.self)
    case "<i8": return integer(Int64.self)
    default: return nil
    }
  }
}
