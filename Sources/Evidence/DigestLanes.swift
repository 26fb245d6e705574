import CKernels

/// SHA-256 of several messages, two at a time. One thread uses it at a time.
///
/// The processor's SHA instructions wait for each other: two messages that alternate in one thread take hardly longer than one. Without the
/// instructions, libcrypto reads one message after the other.
package final class DigestLanes: @unchecked Sendable {
  /// The lanes in which this task's input files are digested beside each other; `nil` where each file is digested by itself.
  @TaskLocal package static var current: DigestLanes?

  /// Whether this processor has the instructions.
  package static let areSupported = cdigest_has_lanes()

  private let isSupported: Bool
  private var waiting: [Lane] = []

  package init(isSupported: Bool = areSupported) { self.isSupported = isSupported }

  /// Adds a message, whose digest is passed to `then` by `finish` at the latest.
  ///
  /// - Parameter counters: Counters for the pairs of bytes of an RGB image, which are counted on the way in hardly any time.
  package func add(_ bytes: [UInt8], counters: PairCounters? = nil, then: @escaping (Digest) -> Void) {
    if isSupported {
      waiting.append(Lane(bytes, counters: counters, then: then))
    } else {
      counters?.count(bytes[...], times: 1)
      then(Digest.of(bytes))
    }
  }

  /// The digest of a message now; the longest of those that wait are read beside it.
  package func digest(_ bytes: [UInt8]) -> Digest {
    guard isSupported else { return Digest.of(bytes) }
    var (own, other) = (Lane(bytes), nextLane())
    while !own.isFinished {
      if var beside = other {
        Lane.read(&own, &beside)
        other = rest(of: beside)
      } else {
        own.read()
      }
    }
    if let other { waiting.append(other) }
    return own.digest
  }

  /// Reads all messages that wait.
  package func finish() {
    var (first, second) = (nextLane(), nextLane())
    while var a = first {
      if var b = second {
        Lane.read(&a, &b)
        (first, second) = (rest(of: a), rest(of: b))
        if first == nil { (first, second) = (second, nil) }
      } else {
        a.read()
        first = rest(of: a)
      }
    }
  }

  /// Returns the rest of a message, or else the next message.
  private func rest(of lane: Lane) -> Lane? {
    guard lane.isFinished else { return lane }
    lane.finish()
    return nextLane()
  }

  /// The longest, so that no long one is left alone at the end.
  private func nextLane() -> Lane? {
    waiting.indices.max { waiting[$0].blocks < waiting[$1].blocks }.map { waiting.remove(at: $0) }
  }

  /// A message being read: its whole blocks, then one or two with the padding.
  private struct Lane {
    private let bytes: [UInt8]
    private let counters: PairCounters?
    private let then: (Digest) -> Void
    private let end: [UInt8]
    private var bytesRead = 0
    // FIPS 180-4, 5.3.3.
    private var lane = cdigest_lane(
      state: (0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19),
      next: nil, counters: nil, place: 0)

    init(_ bytes: [UInt8], counters: PairCounters? = nil, then: @escaping (Digest) -> Void = { _ in }) {
      (self.bytes, self.counters, self.then) = (bytes, counters, then)
      let rest = bytes[(bytes.count & ~63)...]
      counters?.count(rest, times: 1)
      var end = Array(rest) + [0x80]
      end += repeatElement(0, count: (119 - rest.count) % 64)
      self.end = end + withUnsafeBytes(of: UInt64(8 * bytes.count).bigEndian) { Array($0) }
    }

    private var isWithin: Bool { bytesRead + 64 <= bytes.count }

    /// The blocks that are left in the message, or after it.
    var blocks: Int { (isWithin ? bytes.count - bytesRead : (bytes.count & ~63) + end.count - bytesRead) / 64 }

    var isFinished: Bool { blocks == 0 }

    var digest: Digest {
      let state = lane.state
      return Digest(bigEndian: (state.0, state.1, state.2, state.3, state.4, state.5, state.6, state.7))
    }

    func finish() { then(digest) }

    /// Reads blocks of the message, or else what follows it.
    mutating func read(atMost count: Int = .max) {
      let blocks = min(blocks, count)
      withNext { cdigest_read(&$0, nil, blocks) }
      bytesRead += 64 * blocks
    }

    /// Reads two messages at a time, as far as the shorter goes.
    static func read(_ a: inout Lane, _ b: inout Lane) {
      // Two images are counted together where both are at the same pair of two pixels.
      while a.counters != nil, a.counters === b.counters, a.isWithin, b.isWithin, a.lane.place != b.lane.place { a.read(atMost: 1) }
      let blocks = min(a.blocks, b.blocks)
      a.withNext { first in b.withNext { second in cdigest_read(&first, &second, blocks) } }
      a.bytesRead += 64 * blocks
      b.bytesRead += 64 * blocks
    }

    private mutating func withNext(_ body: (inout cdigest_lane) -> Void) {
      let start = isWithin ? bytesRead : bytesRead - (bytes.count & ~63)
      (isWithin ? bytes : end).withUnsafeBufferPointer { bytes in
        lane.next = bytes.baseAddress.map { $0 + start }
        lane.counters = isWithin ? counters?.start : nil
        body(&lane)
      }
    }
  }
}

/// Counters of the pairs of bytes of RGB images: of the first and second, third and fourth, fifth and sixth byte of every two pixels. Pairs
/// take half the additions that bytes would. One thread uses them at a time.
package final class PairCounters: @unchecked Sendable {
  /// Numbers of pairs of bytes.
  package static let pairs = cdigest_pairs
  fileprivate let start = UnsafeMutablePointer<UInt32>.allocate(capacity: 3 * pairs)

  package init() { start.initialize(repeating: 0, count: 3 * Self.pairs) }

  deinit { start.deallocate() }

  /// Counts the pairs of an image, or of its last part, `times` times. A last byte that has no other is not counted.
  package func count(_ bytes: ArraySlice<UInt8>, times: UInt32) {
    bytes.withUnsafeBufferPointer {
      cdigest_count_pairs($0.baseAddress, bytes.count / 2, UInt32(bytes.startIndex / 2 % 3), times, start)
    }
  }

  /// Adds the counts to those of the 256 values of each of the three channels, and clears them.
  package func move(to counts: inout [Int64]) {
    counts.withUnsafeMutableBufferPointer { counts in
      for place in 0..<3 {
        let counters = start + place * Self.pairs
        // Little-endian: the first byte is the low one.
        let (first, second) = (2 * place % 3 * 256, (2 * place + 1) % 3 * 256)
        for high in 0..<256 {
          var sum: Int64 = 0
          for low in 0..<256 {
            let count = Int64(counters[256 * high + low])
            counts[first + low] &+= count
            sum &+= count
          }
          counts[second + high] &+= sum
        }
      }
    }
    start.update(repeating: 0, count: 3 * Self.pairs)
  }
}
