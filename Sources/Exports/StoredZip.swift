import Codecs
import HDF5

/// Writes a zip file of uncompressed members, front to back: the form of Zarr's `ZipStore`.
/// Source: PKWARE's APPNOTE.TXT 6.3.9, sections 4.3.7 to 4.3.16; with ZIP64 records where the numbers need them. It is written by hand
/// because libzip keeps every member until the file is closed.
struct StoredZip {
  private let write: (UnsafeRawBufferPointer) throws -> Void
  private var offset: UInt64 = 0
  private var count: UInt64 = 0
  /// The central directory, about 70 bytes for each member.
  private var directory = Bytes()

  /// 1 January 1980, the earliest date: the bytes do not depend on the time.
  private static let date: UInt16 = 1 << 5 | 1
  private static let unset = UInt64(UInt32.max)

  /// - Parameter write: Appends bytes to the file.
  init(_ write: @escaping (UnsafeRawBufferPointer) throws -> Void) { self.write = write }

  /// Adds a member of less than 4 GiB with an ASCII name.
  mutating func add(_ contents: [UInt8], named name: String) throws {
    let isFar = offset >= Self.unset
    let (size, sum) = (UInt32(contents.count), contents.withUnsafeBytes { chunkChecksum($0) })
    var header = Bytes()
    header.add(UInt32(0x0403_4B50))
    Self.describe(size, sum, name, version: 10, in: &header)
    header.add(UInt16(0))
    header.bytes += name.utf8
    directory.add(UInt32(0x0201_4B50))
    directory.add(UInt16(3 << 8 | 45))  // made on Unix, by version 4.5
    Self.describe(size, sum, name, version: isFar ? 45 : 10, in: &directory)
    directory.add(UInt16(isFar ? 12 : 0))
    directory.bytes += [UInt8](repeating: 0, count: 6)  // comment, disk, internal attributes
    directory.add(UInt32(0o100644) << 16)
    directory.add(isFar ? UInt32.max : UInt32(offset))
    directory.bytes += name.utf8
    if isFar {
      directory.add(UInt16(1))
      directory.add(UInt16(8))
      directory.add(offset)
    }
    try append(header.bytes)
    try append(contents)
    count += 1
  }

  /// Version, flags, method, time, date, checksum, sizes and length of the name: what both headers of a member have.
  private static func describe(_ size: UInt32, _ sum: UInt32, _ name: String, version: UInt16, in header: inout Bytes) {
    header.add(version)
    header.add(UInt32(0))  // flags, and method 0: stored
    header.add(UInt16(0))
    header.add(date)
    header.add(sum)
    header.add(size)
    header.add(size)
    header.add(UInt16(name.utf8.count))
  }

  /// Writes the central directory.
  mutating func finish() throws {
    let (start, size) = (offset, UInt64(directory.bytes.count))
    try append(directory.bytes)
    var end = Bytes()
    if count >= UInt64(UInt16.max) || start >= Self.unset || size >= Self.unset {
      end.add(UInt32(0x0606_4B50))
      end.add(UInt64(44))  // bytes of this record from here on
      end.add(UInt16(3 << 8 | 45))
      end.add(UInt16(45))
      end.add(UInt64(0))  // disks
      for number in [count, count, size, start] { end.add(number) }
      end.add(UInt32(0x0706_4B50))
      end.add(UInt32(0))
      end.add(offset)
      end.add(UInt32(1))
    }
    end.add(UInt32(0x0605_4B50))
    end.add(UInt32(0))  // disks
    let members = UInt16(min(count, UInt64(UInt16.max)))
    end.add(members)
    end.add(members)
    end.add(UInt32(min(size, Self.unset)))
    end.add(UInt32(min(start, Self.unset)))
    end.add(UInt16(0))
    try append(end.bytes)
  }

  private mutating func append(_ bytes: [UInt8]) throws {
    try bytes.withUnsafeBytes(write)
    offset += UInt64(bytes.count)
  }
}
