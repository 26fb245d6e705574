/// An entry of a recording's journal: what is in the other files, written after the bytes that it speaks of.
/// The file holds the payload's length (u32), the type (u8), the payload, and the CRC-32 of all before it in the entry (u32). Numbers have
/// their lowest byte first.
enum JournalEntry: Sendable, Equatable {
  /// A frame: its number from 0, seconds since the recording began, and H(n).
  case frame(number: UInt32, time: Double, hash: [UInt8])
  /// The depth map of a frame: where it ends in `depth.raw`, and its SHA-256.
  case keyframe(frame: UInt32, end: UInt64, digest: [UInt8])
  /// A segment of the movie: where it ends in `video.mp4`, the frames so far, and the SHA-256 of the bytes since the segment before.
  case segment(end: UInt64, frames: UInt32, digest: [UInt8])
  /// Frames that were not recorded.
  case drop(count: UInt32, reason: String)
  case checkpoint(frames: UInt32, time: Double, hash: [UInt8])
  /// A signature over the hash after so many frames, in CBOR.
  case assertion(frames: UInt32, bytes: [UInt8])
  case interrupted(time: Double, reason: String)
  case stopped(time: Double, frames: UInt32)

  /// Payloads are shorter; a longer length is damage.
  static let longestPayload = 1 << 16
  private static let hashLength = 32

  private var type: UInt8 {
    switch self {
    case .frame: 1
    case .keyframe: 2
    case .segment: 3
    case .drop: 4
    case .checkpoint: 5
    case .assertion: 6
    case .interrupted: 7
    case .stopped: 8
    }
  }

  private var payload: [UInt8] {
    var bytes: [UInt8] = []
    func add(_ number: some FixedWidthInteger) { withUnsafeBytes(of: number.littleEndian) { bytes += $0 } }
    func add(_ time: Double) { add(time.bitPattern) }
    switch self {
    case .frame(let number, let time, let hash):
      add(number)
      add(time)
      bytes += hash
    case .keyframe(let frame, let end, let digest):
      add(frame)
      add(end)
      bytes += digest
    case .segment(let end, let frames, let digest):
      add(end)
      add(frames)
      bytes += digest
    case .drop(let count, let reason):
      add(count)
      bytes += reason.utf8
    case .checkpoint(let frames, let time, let hash):
      add(frames)
      add(time)
      bytes += hash
    case .assertion(let frames, let assertion):
      add(frames)
      bytes += assertion
    case .interrupted(let time, let reason):
      add(time)
      bytes += reason.utf8
    case .stopped(let time, let frames):
      add(time)
      add(frames)
    }
    return bytes
  }

  /// The entry as it is in the file.
  var bytes: [UInt8] {
    let payload = payload
    var bytes: [UInt8] = []
    withUnsafeBytes(of: UInt32(payload.count).littleEndian) { bytes += $0 }
    bytes.append(type)
    bytes += payload
    withUnsafeBytes(of: CRC32.of(bytes).littleEndian) { bytes += $0 }
    return bytes
  }

  /// The entries of the intact beginning of a journal, and where it ends. Entries of unknown types are left out.
  static func read(_ journal: [UInt8]) -> (entries: [JournalEntry], end: Int) {
    var entries: [JournalEntry] = []
    var start = 0
    while journal.count - start >= 9 {
      let length = Int(number(journal, start, UInt32.self))
      guard length <= longestPayload, journal.count - start - 9 >= length else { break }
      let end = start + 5 + length
      guard CRC32.of(journal[start..<end]) == number(journal, end, UInt32.self) else { break }
      let type = journal[start + 4]
      if (1...8).contains(type) {
        // An entry whose checksum is right and whose length is not was written by nobody.
        guard let entry = JournalEntry(type, Array(journal[(start + 5)..<end])) else { break }
        entries.append(entry)
      }
      start = end + 4
    }
    return (entries, start)
  }

  private init?(_ type: UInt8, _ payload: [UInt8]) {
    func whole<Number: FixedWidthInteger>(_ at: Int, _: Number.Type = Number.self) -> Number { Self.number(payload, at, Number.self) }
    func time(_ at: Int) -> Double { Double(bitPattern: whole(at, UInt64.self)) }
    func rest(_ at: Int) -> [UInt8] { Array(payload[at...]) }
    func text(_ at: Int) -> String { String(decoding: payload[at...], as: UTF8.self) }
    switch (type, payload.count) {
    case (1, 12 + Self.hashLength): self = .frame(number: whole(0), time: time(4), hash: rest(12))
    case (2, 12 + Self.hashLength): self = .keyframe(frame: whole(0), end: whole(4), digest: rest(12))
    case (3, 12 + Self.hashLength): self = .segment(end: whole(0), frames: whole(8), digest: rest(12))
    case (4, 4...): self = .drop(count: whole(0), reason: text(4))
    case (5, 12 + Self.hashLength): self = .checkpoint(frames: whole(0), time: time(4), hash: rest(12))
    case (6, 4...): self = .assertion(frames: whole(0), bytes: rest(4))
    case (7, 8...): self = .interrupted(time: time(0), reason: text(8))
    case (8, 12): self = .stopped(time: time(0), frames: whole(8))
    default: return nil
    }
  }

  private static func number<Number: FixedWidthInteger>(_ bytes: [UInt8], _ at: Int, _: Number.Type) -> Number {
    (0..<(Number.bitWidth / 8)).reduce(0) { $0 | Number(truncatingIfNeeded: bytes[at + $1]) << Number(truncatingIfNeeded: 8 * $1) }
  }
}
