import Foundation
import Media
import Model

/// A tar, by its 512-byte headers: ustar, with pax records and GNU long names (POSIX.1-2017, pax "ustar Interchange Format").
///
/// Parsed here and not by a library, because workers need the byte range of each member in the file, which libraries do not expose.
struct TarContent: ArchiveContent {
  private(set) var entries: [ArchiveEntry] = []
  private var ranges: [Range<Int64>] = []
  private let file: FileSlice

  private static let block = 512
  /// Size limit of a name and of a pax header, in bytes.
  private static let nameLimit: Int64 = 1 << 16

  init(_ input: InputFile, limit: Int) throws {
    let descriptor = dup(input.descriptor)
    guard descriptor >= 0 else { throw FileError("open", input.path) }
    file = FileSlice(descriptor: descriptor, count: input.stamp.bytes)
    do {
      try list(limit: limit)
    } catch let failure as FileSlice.Failure {
      throw TakeFailure(.unreadable, "cannot read: \(failure.description)")
    }
  }

  private mutating func list(limit: Int) throws {
    var offset: Int64 = 0
    var (longName, paxSize): ([UInt8]?, Int64?) = (nil, nil)
    var nameOfAll: [UInt8]?
    while entries.count <= limit {
      let header = try file.bytes(offset..<offset + Int64(Self.block))
      guard header.count == Self.block else { throw ArchiveError("it is cut off: there is no end mark at byte \(offset)") }
      if header.allSatisfy({ $0 == 0 }) { return }
      guard Self.isValid(header) else { throw ArchiveError("the header at byte \(offset) has a wrong checksum") }
      guard let ownSize = Self.number(header[124..<136]) else { throw ArchiveError("the header at byte \(offset) has no size") }
      let type = header[156]
      let isExtension = [UInt8(ascii: "x"), UInt8(ascii: "g"), UInt8(ascii: "L"), UInt8(ascii: "K")].contains(type)
      let size = isExtension ? ownSize : paxSize ?? ownSize
      let start = offset + Int64(Self.block)
      guard size >= 0, size <= file.count - start else {
        throw ArchiveError("the member at byte \(offset) claims \(size) bytes, \(file.count - start) are left")
      }
      let data = start..<start + size
      offset = start + (size + Int64(Self.block) - 1) / Int64(Self.block) * Int64(Self.block)
      guard isExtension else {
        let name = longName ?? nameOfAll ?? Self.name(header)
        entries.append(ArchiveEntry(name: name, kind: try Self.kind(type, name), bytes: size))
        ranges.append(data)
        (longName, paxSize) = (nil, nil)
        continue
      }
      guard size <= Self.nameLimit else { throw ArchiveError("the header at byte \(start) has \(size) bytes of names") }
      let body = try file.bytes(data)
      switch type {
      case UInt8(ascii: "L"): longName = Array(body.prefix { $0 != 0 })
      case UInt8(ascii: "g"): nameOfAll = try Self.records(body).last { $0.0 == "path" }?.1 ?? nameOfAll
      case UInt8(ascii: "x"):
        for (key, value) in try Self.records(body) {
          switch key {
          case "path": longName = value
          case "size":
            guard let size = Int64(String(decoding: value, as: UTF8.self)) else { throw ArchiveError("a pax size is not a number") }
            paxSize = size
          case _ where key.hasPrefix("GNU.sparse"): throw ArchiveError("it has sparse members, which are not supported")
          default: break
          }
        }
      default: break
      }
    }
  }

  /// `<length> <key>=<value>\n`, where the length includes the complete record.
  private static func records(_ body: [UInt8]) throws -> [(String, [UInt8])] {
    var records: [(String, [UInt8])] = []
    var rest = body[...]
    while let space = rest.firstIndex(of: UInt8(ascii: " ")), rest.first != 0 {
      guard let length = Int(String(decoding: rest[..<space], as: UTF8.self)), length > space - rest.startIndex + 1, length <= rest.count,
        let equals = rest[space...].firstIndex(of: UInt8(ascii: "=")), equals < rest.startIndex + length
      else { throw ArchiveError("a pax header is malformed") }
      let end = rest.startIndex + length
      records.append((String(decoding: rest[(space + 1)..<equals], as: UTF8.self), Array(rest[(equals + 1)..<max(end - 1, equals + 1)])))
      rest = rest[end...]
    }
    return records
  }

  /// Whether the checksum matches: the sum of the header's bytes, its own field counted as spaces; old tools summed signed bytes.
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

  /// Octal digits, or, with the first bit set, a big-endian number (GNU).
  private static func number(_ field: ArraySlice<UInt8>) -> Int64? {
    if let first = field.first, first & 0x80 != 0 {
      var value = Int64(first & 0x7F)
      for byte in field.dropFirst() {
        guard value < 1 << 54, first & 0x40 == 0 else { return nil }
        value = value << 8 | Int64(byte)
      }
      return value
    }
    let digits = field.drop { $0 == UInt8(ascii: " ") }.prefix { $0 != 0 && $0 != UInt8(ascii: " ") }
    return digits.isEmpty ? 0 : Int64(String(decoding: digits, as: UTF8.self), radix: 8)
  }

  private static func name(_ header: [UInt8]) -> [UInt8] {
    let name = Array(header[..<100].prefix { $0 != 0 })
    // GNU's own format has "ustar  " here, and uses the bytes of the prefix for something else.
    guard header[257..<263].elementsEqual(Array("ustar\0".utf8)) else { return name }
    let prefix = Array(header[345..<500].prefix { $0 != 0 })
    return prefix.isEmpty ? name : prefix + [UInt8(ascii: "/")] + name
  }

  private static func kind(_ type: UInt8, _ name: [UInt8]) throws -> ArchiveEntry.Kind {
    switch type {
    case UInt8(ascii: "0"), 0, UInt8(ascii: "7"): name.last == UInt8(ascii: "/") ? .directory : .file
    case UInt8(ascii: "5"), UInt8(ascii: "V"): .directory
    case UInt8(ascii: "1"), UInt8(ascii: "2"): .link
    case UInt8(ascii: "3"), UInt8(ascii: "4"), UInt8(ascii: "6"): .other
    default: throw ArchiveError("the member \(String(decoding: name, as: UTF8.self)) is of an unsupported type")
    }
  }

  func open(_ entry: Int) -> any MemberReader { Reader(slice(entry)) }

  func slice(_ entry: Int) -> FileSlice { file[ranges[entry]] }

  private final class Reader: MemberReader {
    private let slice: FileSlice
    private var offset: Int64 = 0

    init(_ slice: FileSlice) { self.slice = slice }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
      do {
        let count = try slice.read(into: buffer, at: offset)
        offset += Int64(count)
        return count
      } catch let failure as FileSlice.Failure {
        throw ArchiveError(failure.description)
      }
    }
  }
}
