import Evidence
import Testing

/// By the processor's instructions where it has them, and by libcrypto alone.
@Suite struct DigestLanesTests {
  private static let ways = DigestLanes.areSupported ? [true, false] : [false]

  private struct Message {
    var bytes: [UInt8]
    var counters: PairCounters?

    init(_ bytes: [UInt8], counters: PairCounters? = nil) { (self.bytes, self.counters) = (bytes, counters) }
  }

  /// - Parameter now: A message that is digested before the others are finished.
  private func digests(of messages: [Message], now: [UInt8]? = nil, inLanes: Bool) -> [Digest] {
    var found = [Digest?](repeating: nil, count: messages.count)
    let lanes = DigestLanes(isSupported: inLanes)
    for (index, message) in messages.enumerated() { lanes.add(message.bytes, counters: message.counters) { found[index] = $0 } }
    if let now { #expect(lanes.digest(now) == Digest.of(now)) }
    lanes.finish()
    return found.compactMap(\.self)
  }

  private static func noise(_ count: Int, seed: Int) -> [UInt8] {
    var random = Seeded(seed)
    return (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
  }

  /// FIPS 180-4's examples, and the message of a million times "a", in all orders beside each other.
  @Test(arguments: ways) func vectorsOfNIST(inLanes: Bool) {
    let vectors: [([UInt8], String)] = [
      ([], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
      (Array("abc".utf8), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
      (
        Array("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq".utf8),
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
      ),
      (
        Array("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu".utf8),
        "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"
      ),
      (Array(repeating: 0x61, count: 1_000_000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
    ]
    for first in vectors {
      #expect(digests(of: [Message(first.0)], inLanes: inLanes).map(\.description) == [first.1])
      for second in vectors {
        #expect(
          digests(of: [Message(first.0), Message(second.0)], inLanes: inLanes).map(\.description) == [first.1, second.1])
      }
    }
  }

  /// The ends of blocks and of the padding, and longer messages, against libcrypto.
  @Test(arguments: ways) func anyLengths(inLanes: Bool) {
    let lengths = Array(0...130) + [191, 192, 193, 255, 256, 4095, 4096, 70_001]
    let messages = lengths.map { Self.noise($0, seed: $0) }
    #expect(digests(of: messages.map { Message($0) }, inLanes: inLanes) == messages.map { Digest.of($0) })
    for (first, second) in zip(messages, messages.reversed()) {
      #expect(digests(of: [Message(first), Message(second)], inLanes: inLanes) == [Digest.of(first), Digest.of(second)])
    }
    #expect(digests(of: [], inLanes: inLanes).isEmpty)
  }

  /// A message that cannot wait is read beside the longest that can, of which the rest comes later.
  @Test(arguments: ways, [0, 1, 64, 1000, 5000]) func someCannotWait(inLanes: Bool, length: Int) {
    let messages = [700, 64, 3000].map { Self.noise($0, seed: $0) }
    for count in 0...3 {
      let waiting = messages[..<count]
      let found = digests(of: waiting.map { Message($0) }, now: Self.noise(length, seed: 9), inLanes: inLanes)
      #expect(found == waiting.map { Digest.of($0) })
    }
  }

  /// Images of one size side by side, of several sizes, and beside messages that are not counted.
  @Test(arguments: [[768, 768], [3000, 768], [66, 6], [63, 64, 65], [20_004, 20_004, 20_004], [3], [0, 9]], ways)
  func pairsAreCountedOnTheWay(
    lengths: [Int], inLanes: Bool
  ) {
    let images = lengths.enumerated().map { Self.noise($1, seed: $0) }
    let others = lengths.map { Self.noise($0 / 2 + 100, seed: $0) }
    let counters = PairCounters()
    let messages = images.map { Message($0, counters: counters) } + others.map { Message($0) }
    #expect(digests(of: messages, now: Self.noise(700, seed: 1), inLanes: inLanes) == (images + others).map { Digest.of($0) })
    var counts = [Int64](repeating: 0, count: 768), expected = counts
    counters.move(to: &counts)
    // A byte without a second one is left to the caller.
    for image in images {
      for (index, value) in image[..<(image.count & ~1)].enumerated() { expected[index % 3 * 256 + Int(value)] += 1 }
    }
    #expect(counts == expected)
    counters.move(to: &counts)
    #expect(counts == expected)
  }
}

/// The same numbers for the same seed.
private struct Seeded: RandomNumberGenerator {
  private var state: UInt64

  init(_ seed: Int) { state = UInt64(seed) &* 2 &+ 1 }

  mutating func next() -> UInt64 {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return (state ^ state >> 29) &* 0xbf58_476d_1ce4_e5b9
  }
}
