/// The list of a zip, from its central directory (APPNOTE.TXT 4.3.12 to 4.3.16). Memory is a part of it.
public enum ZipList {
  private static let pieceSize = 256 << 10

  /// Whether a file begins as a zip does.
  public static func isStart(_ bytes: [UInt8]) -> Bool {
    bytes.starts(with: [0x50, 0x4B, 3, 4]) || bytes.starts(with: [0x50, 0x4B, 5, 6])
  }

  /// Number of members that a zip of `count` bytes claims; `nil` where no list is found.
  ///
  /// - Parameter bytes: Reads a range of the file; fewer bytes at its end.
  public static func claimedCount(_ count: Int64, _ bytes: (Range<Int64>) throws -> [UInt8]) -> UInt64? {
    (try? end(count, bytes))?.members
  }

  /// Hands on the members of a zip of `count` bytes in the order of its list: name, kind and size.
  ///
  /// - Parameters:
  ///   - bytes: Reads a range of the file; fewer bytes at its end.
  ///   - limit: A list that claims more members is refused before it is read.
  /// - Throws: `MalformedArchive`, `MemberList.Refusal`, and what the closures throw.
  public static func read(
    _ count: Int64, limit: Int, _ bytes: (Range<Int64>) throws -> [UInt8],
    _ add: (ArraySlice<UInt8>, MemberKind, Int64) throws -> Void
  ) throws {
    let directory = try directory(count, bytes)
    guard directory.count <= limit else { throw MemberList.Refusal.tooManyMembers }
    var (piece, position, next) = ([UInt8](), 0, directory.range.lowerBound)
    /// Makes so many bytes available from `position` on.
    func need(_ count: Int) throws {
      if piece.count - position >= count { return }
      piece.removeFirst(position)
      position = 0
      while piece.count < count {
        let more = try bytes(next..<min(next + Int64(pieceSize), directory.range.upperBound))
        guard !more.isEmpty else { throw MalformedArchive("its list of members is cut off") }
        next += Int64(more.count)
        piece += more
      }
    }
    for _ in 0..<directory.count {
      try need(46)
      guard piece.number(position, 4) == 0x0201_4B50 else { throw MalformedArchive("its list of members is damaged") }
      let flags = piece.number(position + 8, 2)
      // Of name, extra fields and comment.
      let lengths = [28, 30, 32].map { Int(piece.number(position + $0, 2)) }
      let kind = MemberKind(mode: UInt32(truncatingIfNeeded: piece.number(position + 38, 4) >> 16))
      try need(46 + lengths.reduce(0, +))
      let name = piece[(position + 46)..<(position + 46 + lengths[0])]
      let extra = piece[(position + 46 + lengths[0])..<(position + 46 + lengths[0] + lengths[1])]
      var large = Zip64(extra)
      let size = large.value(piece.number(position + 24, 4))
      _ = large.value(piece.number(position + 20, 4))
      let header = large.value(piece.number(position + 42, 4))
      guard flags & 1 == 0 else { throw MalformedArchive("it is encrypted") }
      guard let size = size.flatMap({ Int64(exactly: $0) }), let header, header < UInt64(directory.range.lowerBound) else {
        throw MalformedArchive("its list of members is damaged")
      }
      try add(name, kind == .file && name.last == UInt8(ascii: "/") ? .folder : kind, size)
      position += 46 + lengths.reduce(0, +)
    }
    guard next - Int64(piece.count - position) == directory.range.upperBound else {
      throw MalformedArchive("its list of members has not the length that it claims")
    }
  }

  /// Returns the fault of a zip of more than 4 GiB whose places are numbers of 32 bits, as macOS's Archive Utility writes it; `nil` for any
  /// other.
  public static func problem(_ count: Int64, _ bytes: (Range<Int64>) throws -> [UInt8]) -> String? {
    guard let end = try? end(count, bytes), end.limit > UInt32.max else { return nil }
    let claimed = end.start &+ end.size
    guard claimed != UInt64(end.limit), claimed & 0xFFFF_FFFF == UInt64(end.limit) & 0xFFFF_FFFF else { return nil }
    return
      "it has more than 4 GiB and no zip64 numbers, so that places and sizes in its list are wrong, as macOS's Archive Utility writes it;"
      + " pack it with another program, or name its folder"
  }

  /// Returns the place of the list, and the number of members that it claims.
  private static func directory(
    _ count: Int64, _ bytes: (Range<Int64>) throws -> [UInt8]
  ) throws -> (range: Range<Int64>, count: UInt64) {
    if let problem = problem(count, bytes) { throw MalformedArchive(problem) }
    guard let end = try end(count, bytes) else { throw MalformedArchive("it is cut off: the list of a zip at its end is missing") }
    guard let start = Int64(exactly: end.start), let size = Int64(exactly: end.size), start <= end.limit, size <= end.limit - start else {
      throw MalformedArchive("its list of members is damaged")
    }
    return (start..<start + size, end.members)
  }

  /// Returns what the end of the file says of the list, and the offset at which the list must end; `nil` where there is no such end.
  private static func end(
    _ count: Int64, _ bytes: (Range<Int64>) throws -> [UInt8]
  ) throws -> (members: UInt64, size: UInt64, start: UInt64, limit: Int64)? {
    let tailStart = max(0, count - 22 - 0xFFFF - 20)
    let tail = try bytes(tailStart..<count)
    guard tail.count >= 22,
      let end = (0...(tail.count - 22)).last(where: {
        tail[$0] == 0x50 && tail.number($0, 4) == 0x0605_4B50 && $0 + 22 + Int(tail.number($0 + 20, 2)) <= tail.count
      })
    else { return nil }
    let (members, size, start) = (tail.number(end + 10, 2), tail.number(end + 12, 4), tail.number(end + 16, 4))
    guard members == 0xFFFF || size == 0xFFFF_FFFF || start == 0xFFFF_FFFF, end >= 20, tail.number(end - 20, 4) == 0x0706_4B50 else {
      return (members, size, start, tailStart + Int64(end))
    }
    guard let place = Int64(exactly: tail.number(end - 12, 8)), place <= count - 56 else {
      throw MalformedArchive("its list of members is damaged")
    }
    let record = try bytes(place..<place + 56)
    guard record.count == 56, record.number(0, 4) == 0x0606_4B50 else { throw MalformedArchive("its list of members is damaged") }
    return (record.number(32, 8), record.number(40, 8), record.number(48, 8), place)
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
