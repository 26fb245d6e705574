import Foundation

/// The headers of a tar: ustar, with pax records and GNU long names.
enum TarList {
  private typealias Problem = ArchiveContents.Problem
  private static let block: Int64 = 512
  private static let extensionLimit = 64 << 10

  static func isStart(_ start: [UInt8]) -> Bool { start.count == block && start.contains { $0 != 0 } && isValid(start) }

  static func read(
    _ file: ArchiveFile, _ add: (ArraySlice<UInt8>, ArchiveContents.Kind, Int64) throws -> Void
  ) throws {
    var offset: Int64 = 0
    var (longName, longSize) = ([UInt8]?.none, Int64?.none)
    var entries = 0
    while true {
      let header = try file.bytes(at: offset, count: Int(block))
      guard header.count == block else { throw Problem("it is cut off: a tar has a mark at its end") }
      if header.allSatisfy({ $0 == 0 }) { return }
      guard isValid(header), let ownSize = number(header[124..<136]) else { throw Problem("a header in it is damaged") }
      entries += 1
      guard entries <= 3 * ArchiveContents.memberLimit else {
        throw Problem("it has more than \(ArchiveContents.memberLimit) members")
      }
      let isExtension = "xgLK".utf8.contains(header[156])
      let size = isExtension ? ownSize : longSize ?? ownSize
      offset += block
      guard size >= 0, size <= file.bytes - offset else { throw Problem("it is cut off: a member claims more bytes than there are") }
      if isExtension {
        guard size <= extensionLimit else { throw Problem("it has a member with an impossible name") }
        let body = try file.bytes(at: offset, count: Int(size))
        switch header[156] {
        case UInt8(ascii: "L"): longName = Array(body.prefix { $0 != 0 })
        case UInt8(ascii: "x"):
          for (key, value) in try records(body) {
            if key.elementsEqual("path".utf8) { longName = Array(value) }
            if key.elementsEqual("size".utf8) {
              guard let size = Tus.number(String(decoding: value, as: UTF8.self)) else { throw Problem("a header in it is damaged") }
              longSize = size
            }
          }
        default: break
        }
      } else {
        let name = longName ?? name(header)
        try add(name[...], kind(header[156], name), size)
        (longName, longSize) = (nil, nil)
      }
      // Whole blocks. A last block that is cut off is noticed with the next header.
      offset += (size / block + (size % block == 0 ? 0 : 1)) * block
    }
  }

  private static func kind(_ type: UInt8, _ name: [UInt8]) -> ArchiveContents.Kind {
    switch type {
    case 0, UInt8(ascii: "0"), UInt8(ascii: "7"): name.last == UInt8(ascii: "/") ? .folder : .file
    case UInt8(ascii: "5"): .folder
    case UInt8(ascii: "1"), UInt8(ascii: "2"): .link
    default: .other
    }
  }

  private static func name(_ header: [UInt8]) -> [UInt8] {
    let name = Array(header[0..<100].prefix { $0 != 0 })
    let prefix = Array(header[345..<500].prefix { $0 != 0 })
    let isPOSIX = header[257..<263].elementsEqual("ustar\0".utf8)
    return isPOSIX && !prefix.isEmpty ? prefix + "/".utf8 + name : name
  }

  /// `<length> <key>=<value>\n`, where the length counts the whole record.
  private static func records(_ body: [UInt8]) throws -> [(ArraySlice<UInt8>, ArraySlice<UInt8>)] {
    var records: [(ArraySlice<UInt8>, ArraySlice<UInt8>)] = []
    var rest = body[...]
    while let first = rest.first, first != 0 {
      guard let space = rest.firstIndex(of: UInt8(ascii: " ")), let length = Tus.number(String(decoding: rest[..<space], as: UTF8.self)),
        length > space - rest.startIndex + 1, length <= rest.count
      else { throw Problem("a header in it is damaged") }
      let record = rest.prefix(Int(length))
      guard let equals = record.firstIndex(of: UInt8(ascii: "=")), equals > space, record.last == UInt8(ascii: "\n") else {
        throw Problem("a header in it is damaged")
      }
      records.append((record[(space + 1)..<equals], record[(equals + 1)...].dropLast()))
      rest = rest.dropFirst(Int(length))
    }
    return records
  }

  /// The sum of the header's bytes, its own field counted as spaces; old tools summed signed bytes.
  private static func isValid(_ header: [UInt8]) -> Bool {
    guard let sum = number(header[148..<156]) else { return false }
    var (unsigned, signed): (Int64, Int64) = (0, 0)
    for (index, byte) in header.enumerated() {
      let byte = (148..<156).contains(index) ? UInt8(ascii: " ") : byte
      unsigned += Int64(byte)
      signed += Int64(Int8(bitPattern: byte))
    }
    return sum == unsigned || sum == signed
  }

  /// Octal digits, or, with the first bit set, a big-endian number.
  private static func number(_ field: ArraySlice<UInt8>) -> Int64? {
    if let first = field.first, first & 0x80 != 0 {
      guard first & 0x40 == 0 else { return nil }
      var value = Int64(first & 0x3F)
      for byte in field.dropFirst() {
        guard value < 1 << 54 else { return nil }
        value = value << 8 | Int64(byte)
      }
      return value
    }
    let text = String(decoding: field.prefix { $0 != 0 }, as: UTF8.self).trimmingCharacters(in: .whitespaces)
    return text.isEmpty ? 0 : Int64(text, radix: 8)
  }
}
