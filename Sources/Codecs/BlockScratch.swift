/// The tables and the literals of a `bvx2` block, reused from block to block.
final class BlockScratch {
  /// The meaning of one state: a symbol, and the states that may follow.
  private struct Entry {
    /// The symbol's smallest value.
    var base: Int32 = 0
    /// The next state, before the bits that are read for it.
    var next: UInt16 = 0
    /// Bits that are read for the next state, and then for the value.
    var bits: UInt8 = 0
    var extra: UInt8 = 0
  }

  /// Extra bits of the values of literal lengths, match lengths and distances, by symbol; their bases follow from these.
  private static let extraBits: [[UInt8]] = [
    [UInt8](repeating: 0, count: 16) + [2, 3, 5, 8], [UInt8](repeating: 0, count: 16) + [3, 5, 8, 11], (0..<64).map { UInt8($0 / 4) },
  ]
  private static let bases: [[Int32]] = extraBits.map { bits in
    var next: Int32 = 0
    return bits.map { bits in
      defer { next += 1 << Int32(bits) }
      return next
    }
  }

  private let tables = BlockHeader.states.map { UnsafeMutableBufferPointer<Entry>.allocate(capacity: $0) }
  private let literals = UnsafeMutablePointer<UInt8>.allocate(capacity: 40000)

  init() { for table in tables { table.initialize(repeating: Entry()) } }

  deinit {
    for table in tables { table.deallocate() }
    literals.deallocate()
  }

  /// Decodes a block into `output` from `start` on; `header.count` bytes are free there.
  func decode(
    _ block: UnsafeRawBufferPointer, _ header: BlockHeader, into output: UnsafeMutableRawBufferPointer, from start: Int
  ) throws(LZFSE.Failure) {
    fillTables(header.frequencies)
    let split = header.size + header.literalBytes
    try readLiterals(UnsafeRawBufferPointer(rebasing: block[header.size..<split]), header)
    try readMatches(UnsafeRawBufferPointer(rebasing: block[split...]), header, output, start)
  }

  /// A symbol of frequency f has f states, in a row. `states` is a power of two, and the frequencies of a table add up to it.
  private func fillTables(_ frequencies: [UInt16]) {
    var symbolOfAll = 0
    for (kind, table) in tables.enumerated() {
      var state = 0
      for symbol in 0..<BlockHeader.symbols[kind] {
        let frequency = Int(frequencies[symbolOfAll + symbol])
        guard frequency > 0 else { continue }
        let bits = table.count.trailingZeroBitCount - (Int.bitWidth - 1 - frequency.leadingZeroBitCount)
        let longer = (2 * table.count) >> bits - frequency
        for place in 0..<frequency {
          let isLonger = place < longer
          table[state] = Entry(
            base: kind < 3 ? Self.bases[kind][symbol] : Int32(symbol),
            next: UInt16(isLonger ? (frequency + place) << bits - table.count : (place - longer) << (bits - 1)),
            bits: UInt8(isLonger ? bits : bits - 1), extra: kind < 3 ? Self.extraBits[kind][symbol] : 0)
          state += 1
        }
      }
      symbolOfAll += BlockHeader.symbols[kind]
    }
  }

  private func readLiterals(_ payload: UnsafeRawBufferPointer, _ header: BlockHeader) throws(LZFSE.Failure) {
    guard header.literalCount > 0 else { return }
    var bits = BackwardBits(payload, offset: header.literalOffset)
    let table = UnsafePointer(tables[3].baseAddress!)
    var (a, b, c, d) = (header.literalStates[0], header.literalStates[1], header.literalStates[2], header.literalStates[3])
    for next in stride(from: 0, to: header.literalCount, by: 4) {
      // Four symbols have 40 bits at most.
      guard let window = bits.window() else { throw Self.tooFewBits }
      var taken = window
      literals[next] = Self.literal(table, &a, &taken)
      literals[next + 1] = Self.literal(table, &b, &taken)
      literals[next + 2] = Self.literal(table, &c, &taken)
      literals[next + 3] = Self.literal(table, &d, &taken)
      guard bits.take(taken) else { throw Self.tooFewBits }
    }
  }

  @inline(__always)
  private static func literal(_ table: UnsafePointer<Entry>, _ state: inout Int, _ bits: inout BackwardBits.Window) -> UInt8 {
    let entry = table[state]
    state = Int(entry.next) + bits.pull(Int(entry.bits))
    return UInt8(truncatingIfNeeded: entry.base)
  }

  private func readMatches(
    _ payload: UnsafeRawBufferPointer, _ header: BlockHeader, _ output: UnsafeMutableRawBufferPointer, _ start: Int
  ) throws(LZFSE.Failure) {
    var bits = BackwardBits(payload, offset: header.matchOffset)
    let (lengths, matches, distances) = (tables[0].baseAddress!, tables[1].baseAddress!, tables[2].baseAddress!)
    var (l, m, d) = (header.matchStates[0], header.matchStates[1], header.matchStates[2])
    let bytes = output.baseAddress?.assumingMemoryBound(to: UInt8.self)
    let end = start + header.count
    var (written, literal, distance) = (start, 0, 0)
    for _ in 0..<header.matchCount {
      // A length has 6 + 8 bits at most, a match 6 + 11, a distance 8 + 15: in all, less than a window.
      guard let window = bits.window() else { throw Self.tooFewBits }
      var taken = window
      let length = Self.value(lengths, &l, &taken)
      let match = Self.value(matches, &m, &taken)
      let moved = Self.value(distances, &d, &taken)
      guard bits.take(taken) else { throw Self.tooFewBits }
      if moved != 0 { distance = moved }
      guard length <= header.literalCount - literal else { throw LZFSE.Failure("a block has more literals than it announces") }
      guard length + match <= end - written, let bytes else { throw LZFSE.Failure("a block holds more bytes than it announces") }
      (bytes + written).update(from: literals + literal, count: length)
      written += length
      literal += length
      guard match > 0 else { continue }
      guard distance > 0, distance <= written else { throw LZFSE.Failure("a match is from before the first byte") }
      let target = bytes + written
      if distance >= match {
        target.update(from: target - distance, count: match)
      } else {
        // It repeats itself.
        for index in 0..<match { target[index] = (target - distance)[index] }
      }
      written += match
    }
    guard written == end else { throw LZFSE.Failure("a block holds \(written - start) bytes; it announces \(header.count)") }
  }

  @inline(__always)
  private static func value(_ table: UnsafeMutablePointer<Entry>, _ state: inout Int, _ bits: inout BackwardBits.Window) -> Int {
    let entry = table[state]
    state = Int(entry.next) + bits.pull(Int(entry.bits))
    return Int(entry.base) + bits.pull(Int(entry.extra))
  }

  private static var tooFewBits: LZFSE.Failure { LZFSE.Failure("a block has fewer bits than its symbols need") }
}

/// The bits of a payload, from its last to its first.
private struct BackwardBits {
  /// Up to 57 bits that come next: the highest of them first.
  struct Window {
    fileprivate var bits: UInt64
    /// Bits that remain.
    fileprivate var count: Int

    /// - Parameter width: 0 to 15.
    @inline(__always)
    mutating func pull(_ width: Int) -> Int {
      count -= width
      return Int(truncatingIfNeeded: bits >> UInt64(truncatingIfNeeded: count & 63)) & (1 << width - 1)
    }
  }

  private let bytes: UnsafeRawBufferPointer
  /// Bits that have not been read.
  private var left: Int

  init(_ bytes: UnsafeRawBufferPointer, offset: Int) { (self.bytes, left) = (bytes, bytes.count * 8 + offset) }

  /// The next bits, of which at least 56 are the payload's or zeros before its first; `nil` if the payload was over before.
  @inline(__always)
  mutating func window() -> Window? {
    guard left >= 0 else { return nil }
    let last = (left + 7) >> 3
    if last >= 8 {
      // The bits from `left` down to those of the byte seven before.
      let word = bytes.loadUnaligned(fromByteOffset: last - 8, as: UInt64.self).littleEndian
      return Window(bits: word, count: 64 - (last << 3 - left))
    }
    var word: UInt64 = 0
    for index in 0..<last { word |= UInt64(bytes[index]) << UInt64(8 * (8 - last + index)) }
    return Window(bits: word, count: 64 - (last << 3 - left))
  }

  /// Removes what was pulled from a window. False if that was more than there is.
  @inline(__always)
  mutating func take(_ window: Window) -> Bool {
    let last = (left + 7) >> 3
    left -= 64 - (last << 3 - left) - window.count
    return left >= 0
  }
}
