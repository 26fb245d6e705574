/// The header of a `bvx2` block: counts, first states, and how often each symbol occurs.
struct BlockHeader {
  /// Numbers of symbols: of literal lengths, match lengths, distances and literals, in this order.
  static let symbols = [20, 20, 64, 256]
  /// Numbers of states, in the same order.
  static let states = [64, 64, 256, 1024]
  private static let mostLiterals = 40000, mostMatches = 10000

  /// Bytes that the block decodes to.
  let count: Int
  /// Bytes of the header, with its mark.
  let size: Int
  let literalCount, literalBytes, matchCount, matchBytes: Int
  /// Bits of the last bytes of each payload that are not used, as numbers from -7 to 0.
  let literalOffset, matchOffset: Int
  let literalStates: [Int]
  /// First states of literal lengths, match lengths and distances.
  let matchStates: [Int]
  /// Frequencies of all symbols, in the order of `symbols`.
  let frequencies: [UInt16]

  var payloadBytes: Int { literalBytes + matchBytes }

  /// - Parameter bytes: From the mark to the end of the stream.
  init(_ bytes: UnsafeRawBufferPointer) throws(LZFSE.Failure) {
    guard bytes.count >= 32 else { throw LZFSE.Failure("a block ends in its header") }
    count = Int(bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self).littleEndian)
    let fields = [8, 16, 24].map { bytes.loadUnaligned(fromByteOffset: $0, as: UInt64.self).littleEndian }
    func field(_ index: Int, _ bit: Int, _ width: Int) -> Int { Int(truncatingIfNeeded: fields[index] >> bit & (1 << width - 1)) }
    (literalCount, literalBytes, matchCount) = (field(0, 0, 20), field(0, 20, 20), field(0, 40, 20))
    literalOffset = field(0, 60, 3) - 7
    literalStates = (0..<4).map { field(1, 10 * $0, 10) }
    matchBytes = field(1, 40, 20)
    matchOffset = field(1, 60, 3) - 7
    size = field(2, 0, 32)
    matchStates = (0..<3).map { field(2, 32 + 10 * $0, 10) }
    guard literalCount <= Self.mostLiterals, literalCount % 4 == 0, matchCount <= Self.mostMatches else {
      throw LZFSE.Failure(
        "a block has \(literalCount) literals and \(matchCount) matches; at most 40000, a multiple of 4, and 10000 are allowed")
    }
    guard size >= 32, size <= bytes.count, literalBytes + matchBytes <= bytes.count - size else {
      throw LZFSE.Failure("a block ends early")
    }
    guard zip(matchStates, Self.states).allSatisfy({ $0 < $1 }) else {
      throw LZFSE.Failure("a block begins in a state that does not exist")
    }
    frequencies = try Self.frequencies(UnsafeRawBufferPointer(rebasing: bytes[32..<size]))
    // Without symbols there is no table, and nothing may be decoded by it.
    var first = 0
    for (kind, symbols) in Self.symbols.enumerated() {
      let sum = frequencies[first..<(first + symbols)].reduce(0) { $0 + Int($1) }
      let isUsed = kind == 3 ? literalCount > 0 : matchCount > 0
      guard sum == Self.states[kind] || sum == 0 && !isUsed else { throw LZFSE.Failure("the frequencies of a block do not fill its table") }
      first += symbols
    }
  }

  /// Frequencies are in a prefix code, packed from the lowest bit upwards.
  private static func frequencies(_ bytes: UnsafeRawBufferPointer) throws(LZFSE.Failure) -> [UInt16] {
    var numbers = [UInt16](repeating: 0, count: symbols.reduce(0, +))
    if bytes.isEmpty { return numbers }
    var (bits, available, next) = (UInt32(0), 0, 0)
    for index in numbers.indices {
      while available <= 24, next < bytes.count {
        bits |= UInt32(bytes[next]) << UInt32(available)
        available += 8
        next += 1
      }
      let (number, width): (UInt32, Int) =
        if bits & 1 == 0 {
          (bits >> 1 & 1, 2)
        } else if bits & 2 == 0 {
          (2 + (bits >> 2 & 1), 3)
        } else if bits & 4 == 0 {
          (4 + (bits >> 3 & 3), 5)
        } else if bits & 8 == 0 {
          (8 + (bits >> 4 & 15), 8)
        } else {
          (24 + (bits >> 4 & 1023), 14)
        }
      guard width <= available else { throw LZFSE.Failure("the frequencies of a block end early") }
      numbers[index] = UInt16(number)
      bits >>= UInt32(width)
      available -= width
    }
    guard next == bytes.count, available < 8 else { throw LZFSE.Failure("the header of a block is longer than its frequencies") }
    return numbers
  }
}
