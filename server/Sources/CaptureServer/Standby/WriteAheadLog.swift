import Foundation

/// The whole part of SQLite's write-ahead log: up to the end of the last transaction whose frames all have their checksums
/// (https://www.sqlite.org/fileformat2.html#the_write_ahead_log). Nothing behind it counts after a crash either.
struct WriteAheadLog {
  /// A place in the log behind a transaction, and the start value of the next frame's checksum.
  private struct Position {
    var offset: Int64 = 0
    var sums: (UInt32, UInt32) = (0, 0)
  }

  private let path: String
  private var header: [UInt8]?
  private var end = Position()

  private static let headerSize = 32
  private static let frameHeaderSize = 24

  init(_ path: String) { self.path = path }

  /// The number of looks in a row at which the frames behind the last transaction were no transaction: one that is under way or was rolled
  /// back, or a log that went another way than it was read.
  private(set) var idleLooks = 0

  /// Bytes up to the last transaction that was found.
  var committed: Int64 { end.offset }

  /// Another log is in the place of the one that was read before.
  struct Restarted: Error {}

  /// Looks for further transactions. Throws `Restarted`, `Failure`.
  mutating func advance() throws {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      if errno == ENOENT {
        if header != nil { throw Restarted() }
        return
      }
      throw DurableFile.failure("open", path)
    }
    defer { close(descriptor) }
    guard let start = try read(descriptor, at: 0, Self.headerSize) else {
      if header != nil { throw Restarted() }
      return
    }
    if let header {
      guard header == start else { throw Restarted() }
    } else {
      let sums = sums(start[..<24], (0, 0), isBigEndian: Self.isBigEndian(start))
      guard Self.number(start, 0) & ~1 == 0x377f_0682, sums == (Self.number(start, 24), Self.number(start, 28)) else { return }
      header = start
      end = Position(offset: Int64(Self.headerSize), sums: sums)
    }
    guard let header else { return }
    let pageSize = Int(Self.number(header, 8) == 1 ? 65_536 : Self.number(header, 8))
    guard (512...65_536).contains(pageSize) else { return }
    var (position, isFollowed) = (end, false)
    defer { idleLooks = isFollowed ? idleLooks + 1 : 0 }
    while let frame = try read(descriptor, at: position.offset, Self.frameHeaderSize + pageSize) {
      guard frame[8..<16] == header[16..<24] else { return }
      isFollowed = true
      var found = sums(frame[..<8], position.sums, isBigEndian: Self.isBigEndian(header))
      found = sums(frame[Self.frameHeaderSize...], found, isBigEndian: Self.isBigEndian(header))
      guard found == (Self.number(frame, 16), Self.number(frame, 20)) else { return }
      position = Position(offset: position.offset + Int64(frame.count), sums: found)
      // The size of the database after the transaction that this frame ends.
      if Self.number(frame, 4) != 0 { (end, isFollowed) = (position, false) }
    }
  }

  /// Bytes of the log. Throws `Restarted` where they are no longer there.
  func bytes(_ range: Range<Int64>) throws -> Data {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw Restarted() }
    defer { close(descriptor) }
    guard try read(descriptor, at: 0, Self.headerSize) == header, let bytes = try read(descriptor, at: range.lowerBound, range.count) else {
      throw Restarted()
    }
    guard try read(descriptor, at: 0, Self.headerSize) == header else { throw Restarted() }
    return Data(bytes)
  }

  /// `nil` where the file ends before.
  private func read(_ descriptor: Int32, at offset: Int64, _ count: Int) throws -> [UInt8]? {
    var done = 0
    let bytes = try [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      while done < count {
        let got = pread(descriptor, buffer.baseAddress.map { $0 + done }, count - done, off_t(offset) + off_t(done))
        if got < 0, errno == EINTR { continue }
        guard got >= 0 else { throw DurableFile.failure("read", path) }
        if got == 0 { break }
        done += got
      }
      initialized = done
    }
    return done == count ? bytes : nil
  }

  private static func isBigEndian(_ header: [UInt8]) -> Bool { header[3] & 1 == 1 }

  private static func number(_ bytes: [UInt8], _ offset: Int) -> UInt32 {
    bytes[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
  }

  /// The log's checksum: Fibonacci-weighted sums of pairs of words.
  private func sums(_ bytes: ArraySlice<UInt8>, _ start: (UInt32, UInt32), isBigEndian: Bool) -> (UInt32, UInt32) {
    var (first, second) = start
    bytes.withUnsafeBytes { bytes in
      for offset in stride(from: 0, to: bytes.count - 7, by: 8) {
        let a = bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
        let b = bytes.loadUnaligned(fromByteOffset: offset + 4, as: UInt32.self)
        first &+= (isBigEndian ? UInt32(bigEndian: a) : UInt32(littleEndian: a)) &+ second
        second &+= (isBigEndian ? UInt32(bigEndian: b) : UInt32(littleEndian: b)) &+ first
      }
    }
    return (first, second)
  }
}
