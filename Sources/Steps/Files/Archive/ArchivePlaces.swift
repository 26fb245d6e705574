import Evidence
import Foundation
import Media
import Model

extension Archive {
  /// Returns the place of a member's bytes in the archive, read from its headers. Throws `ArchiveError`, or `FileError`.
  func origin(of member: Member) throws -> SampleOrigin.Member {
    let file = try InputFile(path)
    guard file.stamp == stamp else { throw TakeFailure(.changedWhileReading, "the file was changed while it was read") }
    let slice = try file.slice()
    do {
      switch format {
      case .zip: return try ZipPlaces(slice).origin(of: member)
      case .tar: return try Self.origin(of: member, inTar: slice)
      }
    } catch let failure as FileSlice.Failure {
      throw ArchiveError(failure.description)
    }
  }

  private static func origin(of member: Member, inTar slice: FileSlice) throws -> SampleOrigin.Member {
    var (number, found): (Int, TarList.Member?) = (0, nil)
    do {
      try TarList.read(slice.count, slice.bytes) { entry in
        if number == member.number { found = entry }
        number += 1
        return found == nil
      }
    } catch let malformed as MalformedArchive {
      throw ArchiveError(malformed.description)
    }
    guard let found else { throw ArchiveError("it has fewer members than when it was listed") }
    return SampleOrigin.Member(name: String(decoding: found.name, as: UTF8.self), data: found.data, bytes: member.bytes, compression: nil)
  }
}

/// The places of a zip's members, which libzip does not tell: read from its central directory and from the member's own header
/// (APPNOTE.TXT 4.3.7, 4.3.12, 4.3.14 to 4.3.16, 4.5.3).
private struct ZipPlaces {
  private let slice: FileSlice

  init(_ slice: FileSlice) { self.slice = slice }

  /// One header of the central directory.
  private struct Header {
    var name: [UInt8]
    var method: Int64
    var stored: Int64
    var local: Int64
    var end: Int64
  }

  func origin(of member: Archive.Member) throws -> SampleOrigin.Member {
    var offset = try directory()
    for _ in 0..<member.number { offset = try header(at: offset).end }
    let header = try header(at: offset)
    let local = try bytes(header.local, 30)
    guard number(local, 0, 4) == 0x0403_4B50 else { throw damaged }
    let data = header.local + 30 + number(local, 26, 2) + number(local, 28, 2)
    guard header.stored >= 0, data <= slice.count - header.stored else { throw damaged }
    let compression: String? =
      switch header.method {
      case 0: nil
      case 8: "deflate"
      case let other: "method \(other)"
      }
    return SampleOrigin.Member(
      name: String(decoding: header.name, as: UTF8.self), data: data..<(data + header.stored), bytes: member.bytes,
      compression: compression)
  }

  private var damaged: ArchiveError { ArchiveError("its headers contradict each other") }

  private func bytes(_ offset: Int64, _ count: Int64) throws -> [UInt8] {
    guard offset >= 0, count >= 0, offset <= slice.count - count else { throw damaged }
    let bytes = try slice.bytes(offset..<(offset + count))
    guard bytes.count == count else { throw damaged }
    return bytes
  }

  /// A little-endian number of at most eight bytes; one that is not below 2^63 is -1, which is no valid place.
  private func number(_ bytes: [UInt8], _ offset: Int, _ count: Int) -> Int64 {
    Int64(exactly: bytes[offset..<(offset + count)].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }) ?? -1
  }

  /// Returns the offset of the central directory.
  private func directory() throws -> Int64 {
    let start = max(0, slice.count - (1 << 16) - 64)
    let tail = try bytes(start, slice.count - start)
    guard tail.count >= 22, let end = (0...(tail.count - 22)).last(where: { number(tail, $0, 4) == 0x0605_4B50 }) else { throw damaged }
    let offset = number(tail, end + 16, 4)
    guard offset == 0xFFFF_FFFF || number(tail, end + 10, 2) == 0xFFFF, end >= 20, number(tail, end - 20, 4) == 0x0706_4B50 else {
      return offset
    }
    return number(try bytes(number(tail, end - 12, 8), 56), 48, 8)
  }

  private func header(at offset: Int64) throws -> Header {
    let fixed = try bytes(offset, 46)
    guard number(fixed, 0, 4) == 0x0201_4B50 else { throw damaged }
    let (nameCount, extraCount, commentCount) = (number(fixed, 28, 2), number(fixed, 30, 2), number(fixed, 32, 2))
    let variable = try bytes(offset + 46, nameCount + extraCount)
    var header = Header(
      name: Array(variable.prefix(Int(nameCount))), method: number(fixed, 10, 2), stored: number(fixed, 20, 4),
      local: number(fixed, 42, 4), end: offset + 46 + nameCount + extraCount + commentCount)
    // Numbers that do not fit into 32 bits are in an extra field: the size, the stored size and the place, as far as they do not fit.
    var rest = Array(variable.dropFirst(Int(nameCount)))
    while rest.count >= 4 {
      let (kind, count) = (number(rest, 0, 2), Int(number(rest, 2, 2)))
      guard rest.count >= 4 + count else { break }
      if kind == 1 {
        var wide = Array(rest[4..<(4 + count)])
        func take(_ value: Int64) -> Int64 {
          guard value == 0xFFFF_FFFF, wide.count >= 8 else { return value }
          defer { wide.removeFirst(8) }
          return number(wide, 0, 8)
        }
        _ = take(number(fixed, 24, 4))
        header.stored = take(header.stored)
        header.local = take(header.local)
      }
      rest.removeFirst(4 + count)
    }
    return header
  }
}
