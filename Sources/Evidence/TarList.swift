/// The list of a tar, from its 512-byte headers: ustar, with pax records and GNU long names (POSIX.1-2017, pax "ustar Interchange Format").
/// The contents of members are not read.
///
/// Parsed here and not by a library, because readers need the byte range of each member in the file, which libraries do not expose.
public enum TarList {
  /// A member of a tar, with the place of its contents.
  public struct Member: Sendable, Equatable {
    /// The name's bytes in the archive, unchanged.
    public var name: [UInt8]
    public var kind: MemberKind
    /// Byte range of its contents in the file.
    public var data: Range<Int64>
  }

  public static let blockSize = 512
  /// Size limit of a long name and of pax records, in bytes.
  private static let recordsLimit: Int64 = 1 << 16
  /// Most headers that only describe the member after them, in a row.
  private static let extensionLimit = 100

  /// Whether a file's first block is a header.
  public static func isHeader(_ block: [UInt8]) -> Bool {
    block.count == blockSize && block.contains { $0 != 0 } && isValid(block)
  }

  /// Hands on the members of a tar of `count` bytes in their order, until `add` returns `false`.
  ///
  /// - Parameter bytes: Reads a range of the file; fewer bytes at its end.
  ///
  /// Throws `MalformedArchive`, and what the closures throw.
  public static func read(_ count: Int64, _ bytes: (Range<Int64>) throws -> [UInt8], _ add: (Member) throws -> Bool) throws {
    let block = Int64(blockSize)
    var offset: Int64 = 0
    var (longName, paxSize): ([UInt8]?, Int64?) = (nil, nil)
    var nameOfAll: [UInt8]?
    var extensions = 0
    while true {
      let header = try bytes(offset..<offset + block)
      guard header.count == blockSize else { throw MalformedArchive("it is cut off: there is no end mark at byte \(offset)") }
      if !header.contains(where: { $0 != 0 }) { return try refuseAnother(at: offset + block, count, bytes) }
      guard isValid(header) else { throw MalformedArchive("the header at byte \(offset) has a wrong checksum") }
      guard let ownSize = number(header[124..<136]) else { throw MalformedArchive("the header at byte \(offset) has no size") }
      let type = header[156]
      let isExtension = "xgLK".utf8.contains(type)
      let size = isExtension ? ownSize : paxSize ?? ownSize
      let start = offset + block
      guard size <= count - start else {
        throw MalformedArchive("it is cut off: the member at byte \(offset) claims \(size) bytes, \(max(0, count - start)) are left")
      }
      let data = start..<start + size
      guard isExtension else {
        guard let kind = kind(type) else { throw MalformedArchive("the member at byte \(offset) is of an unsupported type") }
        let name = longName ?? nameOfAll ?? Self.name(header)
        let isFolder = kind == .file && name.last == UInt8(ascii: "/")
        guard try add(Member(name: name, kind: isFolder ? .folder : kind, data: data)) else { return }
        (longName, paxSize, extensions) = (nil, nil, 0)
        offset = end(of: data)
        continue
      }
      extensions += 1
      guard extensions <= extensionLimit else { throw MalformedArchive("the header at byte \(offset) is one of too many without a member") }
      guard size <= recordsLimit else { throw MalformedArchive("the header at byte \(offset) has \(size) bytes of names") }
      let body = try bytes(data)
      switch type {
      case UInt8(ascii: "L"): longName = Array(body.prefix { $0 != 0 })
      case UInt8(ascii: "g"): nameOfAll = try records(body).last { $0.key == "path" }?.value ?? nameOfAll
      case UInt8(ascii: "x"):
        for (key, value) in try records(body) {
          switch key {
          case "path": longName = value
          case "size":
            guard let size = decimal(value) else { throw MalformedArchive("a pax size is not a number") }
            paxSize = size
          case _ where key.hasPrefix("GNU.sparse"): throw MalformedArchive("it has sparse members, which are not supported")
          default: break
          }
        }
      default: break
      }
      offset = end(of: data)
    }
  }

  /// Throws where a second tar follows the end mark, as `cat` makes them: its members would be lost without a word.
  private static func refuseAnother(at end: Int64, _ count: Int64, _ bytes: (Range<Int64>) throws -> [UInt8]) throws {
    // Tar programs fill the file up to a whole record, mostly of 10 KiB.
    let rest = try bytes(end..<min(count, end + 1 << 20))
    guard let first = rest.firstIndex(where: { $0 != 0 }) else { return }
    let start = first / blockSize * blockSize
    guard isHeader(Array(rest[start...].prefix(blockSize))) else { return }
    throw MalformedArchive("a second tar follows its end at byte \(end + Int64(start)); split them, or pack the members into one")
  }

  /// The next header after these contents, which fill whole blocks.
  private static func end(of data: Range<Int64>) -> Int64 {
    let (block, size) = (Int64(blockSize), data.upperBound - data.lowerBound)
    return data.lowerBound + (size / block + (size % block == 0 ? 0 : 1)) * block
  }

  /// `<length> <key>=<value>\n`, where the length includes the complete record.
  private static func records(_ body: [UInt8]) throws -> [(key: String, value: [UInt8])] {
    var records: [(key: String, value: [UInt8])] = []
    var rest = body[...]
    while let first = rest.first, first != 0 {
      guard let space = rest.firstIndex(of: UInt8(ascii: " ")), let length = decimal(rest[..<space]),
        length > space - rest.startIndex + 1, length <= rest.count
      else { throw MalformedArchive("a pax header is malformed") }
      let record = rest.prefix(Int(length))
      guard let equals = record[space...].firstIndex(of: UInt8(ascii: "=")), equals + 1 < record.endIndex else {
        throw MalformedArchive("a pax header is malformed")
      }
      records.append((String(decoding: record[(space + 1)..<equals], as: UTF8.self), Array(record[(equals + 1)...].dropLast())))
      rest = rest.dropFirst(Int(length))
    }
    return records
  }

  /// A number of at most 18 digits, without sign.
  private static func decimal(_ digits: some Collection<UInt8>) -> Int64? {
    guard (1...18).contains(digits.count), digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return digits.reduce(0) { $0 * 10 + Int64($1 - 0x30) }
  }

  /// Whether the checksum matches: the sum of the header's bytes, its own field counted as spaces; old tools summed signed bytes.
  private static func isValid(_ header: [UInt8]) -> Bool {
    guard let sum = number(header[148..<156]) else { return false }
    var (unsigned, signed): (Int64, Int64) = (0, 0)
    for byte in header {
      unsigned += Int64(byte)
      signed += Int64(Int8(bitPattern: byte))
    }
    for byte in header[148..<156] {
      unsigned += Int64(UInt8(ascii: " ")) - Int64(byte)
      signed += Int64(UInt8(ascii: " ")) - Int64(Int8(bitPattern: byte))
    }
    return sum == unsigned || sum == signed
  }

  /// Octal digits, or, with the first bit set, a big-endian number (GNU); never negative.
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
    let digits = field.drop { $0 == UInt8(ascii: " ") }.prefix { $0 != 0 && $0 != UInt8(ascii: " ") }
    guard digits.allSatisfy({ (0x30...0x37).contains($0) }) else { return nil }
    return digits.reduce(0) { $0 << 3 | Int64($1 - 0x30) }
  }

  private static func name(_ header: [UInt8]) -> [UInt8] {
    let name = Array(header[..<100].prefix { $0 != 0 })
    // GNU's own format has "ustar  " here, and uses the bytes of the prefix for something else.
    guard header[257..<263].elementsEqual("ustar\0".utf8) else { return name }
    let prefix = Array(header[345..<500].prefix { $0 != 0 })
    return prefix.isEmpty ? name : prefix + [UInt8(ascii: "/")] + name
  }

  private static func kind(_ type: UInt8) -> MemberKind? {
    switch type {
    case UInt8(ascii: "0"), 0, UInt8(ascii: "7"): .file
    case UInt8(ascii: "5"), UInt8(ascii: "V"): .folder
    case UInt8(ascii: "1"), UInt8(ascii: "2"): .link
    case UInt8(ascii: "3"), UInt8(ascii: "4"), UInt8(ascii: "6"): .other
    default: nil
    }
  }
}
