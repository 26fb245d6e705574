import CZlib
import Evidence
import Foundation
import Model
import Synchronization

/// `journal.jsonl`: one line for every finished take, synced before the next one counts; a resumed run reads it.
///
/// A line holds an entry, which determines whether the take must be rebuilt, the take's record for the manifest, and a checksum of both:
/// a line that has changed on disk is ignored. Only entries are kept in memory; records, which list every input file, are read from the
/// file when the manifest is written.
package final class Journal: Sendable {
  package struct Entry: Sendable, Equatable {
    package var id: String
    package var location: String
    package var pipeline: String
    package var toolVersion: String
    package var outcome: TakeRecord.Outcome
    package var reader: String?
    /// Digest of the inputs' paths, sizes, times and inodes.
    package var stamp: String?
    package var inputDigest: String?
    /// Size, times and inode of the shard.
    package var shard: String?
    /// Frames that count in the totals; 0 for all but the first episode of a take.
    package var framesIn = 0
    package var framesOut = 0
    /// Rows that repeat the frame of an earlier row.
    package var framesRepeated = 0
    /// The id of the take, the number of the episode and how many there are, where a step has split the take.
    package var take: String?
    package var part: Int?
    package var parts: Int?
    package var splitGroup: String?
    /// Digest of the keys file that its signature was checked against, `none` without one; `nil` if the take does not depend on keys.
    package var keys: String?
    /// Whether a folder with the archive's name was among the takes and was compared with it.
    package var hadDuplicateFolder = false
    package var seconds = 0.0

    /// The id of the take that the entry belongs to.
    package var takeID: String { take ?? id }

    /// Whether the entry comes before another in the manifest: by take, and by the number of the episode.
    package func precedes(_ other: Entry) -> Bool {
      if takeID == other.takeID { return (part ?? -1) < (other.part ?? -1) }
      return takeID.utf8.lexicographicallyPrecedes(other.takeID.utf8)
    }
  }

  struct Line: Sendable {
    var entry: Entry
    /// Byte offset and length of the record in the file.
    var offset: Int64
    var length: Int
  }

  package let path: String
  private let state: Mutex<State>

  private struct State {
    var descriptor: Int32
    var lines: [String: Line] = [:]
    var end: Int64 = 0
    var stale = 0
    /// Lines whose checksum is wrong.
    var damaged = 0
    /// Lines without a checksum, of an earlier version.
    var unchecked = 0
  }

  /// The contents of a journal, read without opening it for writing.
  package struct Contents: Sendable {
    package var entries: [String: Entry] = [:]
    package var damaged = 0
    package var unchecked = 0
  }

  /// Opens the journal of an output directory, creating it if needed, and removes a line that a crash truncated.
  package init(path: String) throws {
    self.path = path
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw FileError("open", path) }
    var state = State(descriptor: descriptor)
    do {
      try Self.load(path, into: &state)
      try SealedFile.syncDirectory(of: path)
      let size = lseek(descriptor, 0, SEEK_END)
      if size > state.end, ftruncate(descriptor, off_t(state.end)) != 0 { throw FileError("truncate", path) }
    } catch {
      close(descriptor)
      throw error
    }
    self.state = Mutex(state)
  }

  deinit { state.withLock { _ = close($0.descriptor) } }

  /// The contents of a journal; empty when there is none.
  package static func contents(at path: String) throws -> Contents {
    guard try Directory.kind(at: path) == .file else { return Contents() }
    var state = State(descriptor: -1)
    try load(path, into: &state)
    return Contents(entries: state.lines.mapValues(\.entry), damaged: state.damaged, unchecked: state.unchecked)
  }

  /// The records of the pipeline that wrote last, in the order of the manifest, read without opening the journal for writing, so also
  /// while a run appends to it; empty when there is none.
  static func records(at path: String) throws -> [TakeRecord] {
    guard try Directory.kind(at: path) == .file else { return [] }
    let file = try InputFile(path)
    var state = State(descriptor: -1)
    try load(file, into: &state)
    guard let last = state.lines.values.max(by: { $0.offset < $1.offset }) else { return [] }
    let current = state.lines.values.filter { $0.entry.pipeline == last.entry.pipeline }.sorted { $0.entry.precedes($1.entry) }
    return try current.map { try TakeRecord(json: record($0, in: file.descriptor, of: path)) }
  }

  package var entries: [String: Entry] { state.withLock { $0.lines.mapValues(\.entry) } }

  /// Writes a new journal; `record` returns the record of an entry.
  static func write(_ entries: [Entry], to path: String, record: (Entry) throws -> [UInt8]) throws {
    try SealedFile.write(path) { write in
      for entry in entries {
        for piece in try line(entry, record(entry)) { try piece.withUnsafeBytes(write) }
      }
    }
  }

  /// Appends a line and syncs it.
  package func append(_ entry: Entry, record: [UInt8]) throws {
    let pieces = Self.line(entry, record)
    let length = pieces.reduce(0) { $0 + $1.count }
    try state.withLock { state in
      guard lseek(state.descriptor, off_t(state.end), SEEK_SET) >= 0 else { throw FileError("seek in", path) }
      do {
        for piece in pieces {
          try piece.withUnsafeBytes { try SealedFile.append($0, to: state.descriptor, path: path) }
        }
        guard fdatasync(state.descriptor) == 0 else { throw FileError("sync", path) }
      } catch {
        ftruncate(state.descriptor, off_t(state.end))
        throw error
      }
      let line = Line(entry: entry, offset: state.end + Int64(pieces[0].count), length: record.count)
      if state.lines.updateValue(line, forKey: entry.id) != nil { state.stale += 1 }
      state.end += Int64(length)
    }
  }

  /// The record of a take, as canonical JSON.
  package func record(of id: String) throws -> [UInt8] {
    let (line, descriptor) = state.withLock { ($0.lines[id], $0.descriptor) }
    guard let line else { return [] }
    return try Self.record(line, in: descriptor, of: path)
  }

  private static func record(_ line: Line, in descriptor: Int32, of path: String) throws -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: line.length)
    var done = 0
    while done < line.length {
      let count = bytes.withUnsafeMutableBytes { buffer in
        pread(descriptor, buffer.baseAddress.map { $0 + done }, line.length - done, off_t(line.offset) + off_t(done))
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw FileError("read", path) }
      done += count
    }
    return bytes
  }

  /// Removes these takes and superseded lines by rewriting the journal.
  package func compact(removing removed: Set<String> = []) throws {
    let (kept, stale) = state.withLock { state in
      (state.lines.filter { !removed.contains($0.key) }, state.stale)
    }
    guard stale > 0 || !removed.isEmpty else { return }
    try Self.write(kept.sorted { $0.key < $1.key }.map(\.value.entry), to: path) { try record(of: $0.id) }
    let descriptor = open(path, O_RDWR | O_CLOEXEC)
    guard descriptor >= 0 else { throw FileError("open", path) }
    var fresh = State(descriptor: descriptor)
    try Self.load(path, into: &fresh)
    let loaded = fresh
    state.withLock { state in
      close(state.descriptor)
      state = loaded
    }
  }

  // MARK: Lines

  private static let entryKey = Array("{\"entry\":".utf8)
  private static let recordKey = Array(",\"record\":".utf8)
  private static let checksumKey = Array(",\"crc32\":\"".utf8)
  /// Length of the end of a line: the key, eight digits, quote, brace, newline.
  private static let endingCount = checksumKey.count + 8 + 3

  /// A line in pieces, so that the long record is not copied.
  private static func line(_ entry: Entry, _ record: [UInt8]) -> [[UInt8]] {
    var start = entryKey
    entry.json.appendCanonical(to: &start)
    start += recordKey
    let checksum = checksum([start, record])
    return [start, record, checksumKey + Array(checksum.utf8) + Array("\"}\n".utf8)]
  }

  /// CRC-32 (ISO 3309) as eight hexadecimal digits.
  private static func checksum(_ pieces: [some Collection<UInt8>]) -> String {
    let value = pieces.reduce(crc32(0, nil, 0)) { sum, piece in
      Array(piece).withUnsafeBufferPointer { crc32_z(sum, $0.baseAddress, $0.count) }
    }
    let digits = String(value, radix: 16)
    return String(repeating: "0", count: 8 - digits.count) + digits
  }

  /// The index where the record starts: after the first `,"record":`, which inside text would have its quotes escaped.
  private static func recordStart(_ line: ArraySlice<UInt8>) -> Int? {
    guard line.count > recordKey.count else { return nil }
    return (0...(line.count - recordKey.count)).first { line[$0...].starts(with: recordKey) }.map { $0 + recordKey.count }
  }

  /// The entry of a line and the range of its record; `nil` for a line that differs from what was written.
  private static func parse(_ line: [UInt8]) -> (entry: Entry, record: Range<Int>)? {
    guard line.starts(with: entryKey), line.count > endingCount else { return nil }
    let body = line[..<(line.count - endingCount)]
    guard Array(line[body.endIndex...]) == checksumKey + Array(checksum([body]).utf8) + Array("\"}\n".utf8),
      let start = recordStart(body), start - recordKey.count > entryKey.count,
      let json = try? JSONReader(Array(body[entryKey.count..<(start - recordKey.count)])).value(), let entry = Entry(json)
    else { return nil }
    return (entry, start..<body.endIndex)
  }

  private static func load(_ path: String, into state: inout State) throws { try load(InputFile(path), into: &state) }

  private static func load(_ file: InputFile, into state: inout State) throws {
    var pending: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    var offset: Int64 = 0
    while true {
      let count = try buffer.withUnsafeMutableBytes { try file.read(into: $0) }
      if count == 0 { break }
      var rest = buffer[..<count]
      while let newline = rest.firstIndex(of: 0x0A) {
        pending += rest[...newline]
        rest = rest[(newline + 1)...]
        defer {
          offset += Int64(pending.count)
          state.end = offset
          pending.removeAll(keepingCapacity: true)
        }
        guard let (entry, record) = parse(pending) else {
          state.stale += 1
          if pending.starts(with: Array("{\"head\":".utf8)) { state.unchecked += 1 } else { state.damaged += 1 }
          continue
        }
        let line = Line(entry: entry, offset: offset + Int64(record.lowerBound), length: record.count)
        if state.lines.updateValue(line, forKey: entry.id) != nil { state.stale += 1 }
      }
      pending += rest
    }
  }
}

extension Journal.Entry {
  fileprivate var json: JSONValue {
    var members: [String: JSONValue] = [
      "id": .string(id), "location": .string(location), "pipeline_sha256": .string(pipeline),
      "tool_version": .string(toolVersion), "outcome": .string(outcome.rawValue), "reader": JSONValue(reader),
      "stamp": JSONValue(stamp), "input_sha256": JSONValue(inputDigest), "shard": JSONValue(shard),
      "frames_in": JSONValue(framesIn), "frames_out": JSONValue(framesOut), "split_group": JSONValue(splitGroup), "keys": JSONValue(keys),
      "had_twin": .bool(hadDuplicateFolder),
      "seconds": .number(seconds),
    ]
    if framesRepeated > 0 { members["frames_repeated"] = JSONValue(framesRepeated) }
    if let take { members["take"] = .string(take) }
    if let part { members["part"] = JSONValue(part) }
    if let parts { members["parts"] = JSONValue(parts) }
    return .object(members)
  }

  fileprivate init?(_ json: JSONValue) {
    guard let id = json["id"]?.string, let location = json["location"]?.string,
      let pipeline = json["pipeline_sha256"]?.string, let version = json["tool_version"]?.string,
      let outcome = json["outcome"]?.string.flatMap(TakeRecord.Outcome.init)
    else { return nil }
    self.init(
      id: id, location: location, pipeline: pipeline, toolVersion: version, outcome: outcome,
      reader: json["reader"]?.string, stamp: json["stamp"]?.string, inputDigest: json["input_sha256"]?.string,
      shard: json["shard"]?.string, framesIn: Int(json["frames_in"]?.integer ?? 0),
      framesOut: Int(json["frames_out"]?.integer ?? 0), splitGroup: json["split_group"]?.string, keys: json["keys"]?.string,
      hadDuplicateFolder: json["had_twin"]?.bool ?? false,
      seconds: json["seconds"]?.double ?? 0)
    framesRepeated = Int(clamping: json["frames_repeated"]?.integer ?? 0)
    take = json["take"]?.string
    part = json["part"]?.integer.map { Int(clamping: $0) }
    parts = json["parts"]?.integer.map { Int(clamping: $0) }
  }
}
