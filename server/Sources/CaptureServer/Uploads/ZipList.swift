import Evidence
import Foundation

/// The central directory of a zip (APPNOTE.TXT 4.3.12 to 4.3.16). Memory is a part of it.
enum ZipList {
  private typealias Problem = ArchiveContents.Problem
  private static let pieceSize = 256 << 10

  static func read(
    _ file: ArchiveFile, _ add: (ArraySlice<UInt8>, MemberKind, Int64) throws -> Void
  ) throws {
    let directory = try directory(of: file)
    guard directory.count <= ArchiveContents.memberLimit else {
      throw Problem("it has more than \(ArchiveContents.memberLimit) members")
    }
    var (piece, position, next) = ([UInt8](), 0, directory.range.lowerBound)
    /// Makes so many bytes available from `position` on.
    func need(_ count: Int) throws {
      if piece.count - position >= count { return }
      piece.removeFirst(position)
      position = 0
      while piece.count < count {
        let more = try file.bytes(at: next, count: Int(min(Int64(pieceSize), directory.range.upperBound - next)))
        guard !more.isEmpty else { throw Problem("its list of members is cut off") }
        next += Int64(more.count)
        piece += more
      }
    }
    for _ in 0..<directory.count {
      try need(46)
      guard piece.number(position, 4) == 0x0201_4B50 else { throw Problem("its list of members is damaged") }
      let flags = piece.number(position + 8, 2)
      // Of name, extra fields and comment.
      let lengths = [28, 30, 32].map { Int(piece.number(position + $0, 2)) }
      let kind = MemberKind(mode: UInt32(truncatingIfNeeded: piece.number(position + 38, 4) >> 16))
      try need(46 + lengths.reduce(0, +))
      let name = piece[(position + 46)..<(position + 46 + lengths[0])]
      let extra = piece[(position + 46 + lengths[0])..<(position + 46 + lengths[0] + lengths[1])]
      var large = Zip64(extra)
      let bytes = large.value(piece.number(position + 24, 4))
      _ = large.value(piece.number(position + 20, 4))
      let header = large.value(piece.number(position + 42, 4))
      guard flags & 1 == 0 else { throw Problem("it is encrypted") }
      guard let bytes = bytes.flatMap({ Int64(exactly: $0) }), let header, header < UInt64(directory.range.lowerBound) else {
        throw Problem("its list of members is damaged")
      }
      try add(name, kind == .file && name.last == UInt8(ascii: "/") ? .folder : kind, bytes)
      position += 46 + lengths.reduce(0, +)
    }
    guard next - Int64(piece.count - position) == directory.range.upperBound else {
      throw Problem("its list of members has not the length that it claims")
    }
  }

  /// Where the list is, and how many members it claims.
  private static func directory(of file: ArchiveFile) throws -> (range: Range<Int64>, count: UInt64) {
    let tailStart = max(0, file.bytes - 22 - 0xFFFF - 20)
    let tail = try file.bytes(at: tailStart, count: 22 + 0xFFFF + 20)
    guard tail.count >= 22,
      let end = (0...(tail.count - 22)).last(where: {
        tail[$0] == 0x50 && tail.number($0, 4) == 0x0605_4B50 && $0 + 22 + Int(tail.number($0 + 20, 2)) <= tail.count
      })
    else { throw Problem("it is cut off: the list of a zip at its end is missing") }
    var (count, size, start) = (tail.number(end + 10, 2), tail.number(end + 12, 4), tail.number(end + 16, 4))
    var limit = tailStart + Int64(end)
    if count == 0xFFFF || size == 0xFFFF_FFFF || start == 0xFFFF_FFFF, end >= 20, tail.number(end - 20, 4) == 0x0706_4B50 {
      guard let place = Int64(exactly: tail.number(end - 12, 8)) else { throw Problem("its list of members is damaged") }
      let record = try file.bytes(at: place, count: 56)
      guard record.count == 56, record.number(0, 4) == 0x0606_4B50 else { throw Problem("its list of members is damaged") }
      (count, size, start) = (record.number(32, 8), record.number(40, 8), record.number(48, 8))
      limit = place
    }
    guard let start = Int64(exactly: start), let size = Int64(exactly: size), start <= limit, size <= limit - start else {
      throw Problem("its list of members is damaged")
    }
    return (start..<start + size, count)
  }

  /// The numbers that did not fit into 32 bits (APPNOTE.TXT 4.5.3), in their order.
  private struct Zip64 {
    private var rest: [UInt8] = []

    init(_ extra: ArraySlice<UInt8>) {
      let extra = Array(extra)
      var start = 0
      while extra.count - start >= 4 {
        let end = start + 4 + Int(extra.number(start + 2, 2))
        guard end <= extra.count else { return }
        if extra.number(start, 2) == 1 {
          rest = Array(extra[(start + 4)..<end])
          return
        }
        start = end
      }
    }

    /// `nil` where a number is missing.
    mutating func value(_ small: UInt64) -> UInt64? {
      guard small == 0xFFFF_FFFF else { return small }
      guard rest.count >= 8 else { return nil }
      defer { rest.removeFirst(8) }
      return rest.number(0, 8)
    }
  }
}

extension [UInt8] {
  /// A little-endian number; the caller has checked that it is there.
  fileprivate func number(_ offset: Int, _ count: Int) -> UInt64 {
    self[offset..<(offset + count)].reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }
}
