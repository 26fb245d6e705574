import Testing

@testable import TakesetRecorder

@Suite struct JournalTests {
  private static let hash = [UInt8](0..<32)
  static let all: [JournalEntry] = [
    .frame(number: 0, time: 0, hash: hash), .keyframe(frame: 0, end: 196_608, digest: hash),
    .frame(number: 1, time: 0.033, hash: hash.reversed()), .drop(count: 2, reason: "the encoder is busy"),
    .segment(end: 1 << 40, frames: 2, digest: hash), .checkpoint(frames: 2, time: 0.033, hash: hash),
    .assertion(frames: 2, bytes: [1, 2, 3]), .interrupted(time: 0.05, reason: "phone-call"), .stopped(time: 0.06, frames: 2),
  ]

  @Test func entriesReadBack() {
    let journal = Self.all.flatMap(\.bytes)
    let (entries, end) = JournalEntry.read(journal)
    #expect(entries == Self.all && end == journal.count)
  }

  @Test func theBytesAreThoseOfTheFormat() {
    // u32 length, u8 type, payload, u32 CRC-32 of all before.
    let bytes = JournalEntry.stopped(time: 1.5, frames: 45).bytes
    #expect(bytes.dropLast(4) == [12, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0xF8, 0x3F, 45, 0, 0, 0])
    #expect(Array(bytes.suffix(4)) == [0x41, 0x89, 0x1C, 0x8E])  // by zlib
    #expect(CRC32.of(Array("123456789".utf8)) == 0xCBF4_3926)
  }

  @Test func aJournalCutAnywhereHasTheEntriesBefore() {
    let journal = Self.all.flatMap(\.bytes)
    var ends = [0]
    for entry in Self.all { ends.append(ends[ends.count - 1] + entry.bytes.count) }
    for cut in 0...journal.count {
      let (entries, end) = JournalEntry.read(Array(journal[..<cut]))
      let whole = ends.lastIndex { $0 <= cut } ?? 0
      #expect(entries == Array(Self.all[..<whole]) && end == ends[whole])
    }
  }

  @Test func aFlippedBitCostsItsEntryAndWhatFollows() {
    let journal = Self.all.flatMap(\.bytes)
    var random = SplitMix(seed: 3)
    for _ in 0..<18_000 {
      var damaged = journal
      let bit = Int.random(in: 0..<(8 * journal.count), using: &random)
      damaged[bit / 8] ^= 1 << (bit % 8)
      let entries = JournalEntry.read(damaged).entries
      #expect(entries == Array(Self.all[..<entries.count]) && entries.count < Self.all.count)
    }
  }

  @Test func unknownTypesAreSkippedAndLongPayloadsAreDamage() {
    var unknown: [UInt8] = [3, 0, 0, 0, 99, 7, 7, 7]
    withUnsafeBytes(of: CRC32.of(unknown).littleEndian) { unknown += $0 }
    let journal = Self.all[0].bytes + unknown + Self.all[1].bytes
    #expect(JournalEntry.read(journal).entries == Array(Self.all[..<2]))
    #expect(JournalEntry.read([0xFF, 0xFF, 0xFF, 0x7F, 1] + [UInt8](repeating: 0, count: 100)).entries.isEmpty)
    #expect(JournalEntry.read([]).end == 0)
  }
}
