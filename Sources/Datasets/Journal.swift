import CZlib
import Evidence
import Foundation
import Model
import Steps
import Synchronization

/// `journal.jsonl`: one line for every finished take, synced before the next one counts; a resumed run reads it.
///
/// A line holds an entry, which determines whether the take must be rebuilt, the take's record for the manifest, and a checksum of both:
/// a line that has changed on disk is ignored. Only entries are kept in memory; records, which list every input file, are read from the
/// file when the manifest is written.
///
///     let journal = try Journal(path: path)
///     try journal.append(entry, record: record.canonicalBytes)
///     journal.entries[record.id.text]              // `entry`
package final class Journal: Sendable {
  struct Line: Sendable {
    var entry: Entry
    /// Byte offset and length of the record in the file.
    var offset: Int64
    var length: Int
  }

  package let path: String
  private let state: Mutex<State>

  fileprivate struct State {
    var descriptor: Int32
    var lines: [String: Line] = [:]
    var end: Int64 = 0
    var stale = 0
    /// Lines whose checksum is wrong.
    var damaged = 0
    /// Lines without a checksum, of an earlier version.
    var unchecked = 0
    /// Whether its first bytes are not those of a journal.
    var isForeign = false
    /// Texts that many lines have, such as the pipeline's digest, each once.
    var texts: [String: String] = [:]
    /// The file as it was before it was read.
    var stamp: FileStamp?
  }

  /// The contents of a journal, read without opening it for writing.
  package struct Contents: Sendable {
    fileprivate var state = State(descriptor: -1)
    package var entries: [String: Entry] { state.lines.mapValues(\.entry) }
    package var damaged: Int { state.damaged }
    package var unchecked: Int { state.unchecked }
    /// Whether it is a file of that name by somebody else.
    package var isForeign: Bool { state.isForeign && state.lines.isEmpty && state.unchecked == 0 }

    /// The record of a take, as canonical JSON, in the journal at a path; empty where it has none. Throws `FileError`.
    package func record(of id: String, at path: String) throws -> [UInt8] {
      guard let line = state.lines[id] else { return [] }
      let file = try InputFile(path)
      return try Journal.record(line, in: file.descriptor, of: path)
    }

    /// Whether the journal is still the file that was read, or still not there.
    package func isCurrent(at path: String) -> Bool { (try? FileStamp.of(path)) == state.stamp }
  }

  /// Opens the journal of an output directory, creating it if needed, and removes a line that a crash truncated.
  ///
  /// - Parameter known: Its contents from an earlier reading; an unchanged file is not read again.
  package init(path: String, known: Contents? = nil) throws {
    self.path = path
    let descriptor = try Self.descriptor(of: path)
    var state = State(descriptor: descriptor)
    do {
      if let known, let stamp = known.state.stamp, try FileStamp.of(path) == stamp {
        state = known.state
        state.descriptor = descriptor
      } else {
        try Self.load(path, into: &state)
      }
      try SealedFile.syncDirectory(of: path)
      let size = lseek(descriptor, 0, SEEK_END)
      if size > state.end, ftruncate(descriptor, off_t(state.end)) != 0 { throw FileError("truncate", path) }
    } catch {
      close(descriptor)
      throw error
    }
    self.state = Mutex(state)
  }

  private static func descriptor(of path: String, isOwn: Bool = false) throws -> Int32 {
    let descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw FileError("open", path) }
    var status = stat()
    guard !isOwn, fstat(descriptor, &status) == 0, status.st_nlink > 1 else { return descriptor }
    // Another name, such as a snapshot's, has the same file, and is not written through.
    close(descriptor)
    let file = try InputFile(path)
    try SealedFile.write(path) { write in
      try withUnsafeTemporaryAllocation(byteCount: 1 << 18, alignment: 16) { buffer in
        while case let count = try file.read(into: buffer), count > 0 { try write(UnsafeRawBufferPointer(rebasing: buffer[..<count])) }
      }
    }
    return try Self.descriptor(of: path, isOwn: true)
  }

  deinit { state.withLock { _ = close($0.descriptor) } }

  /// The contents of a journal; empty when there is none. Throws `UsageError` where something else has its name.
  package static func contents(at path: String) throws -> Contents {
    guard try exists(at: path) else { return Contents() }
    var state = State(descriptor: -1)
    try load(path, into: &state)
    return Contents(state: state)
  }

  /// The records of the pipeline that wrote last, in the order of the manifest, read without opening the journal for writing, so also
  /// while a run appends to it; empty when there is none. Throws `UsageError` where something else has its name.
  package static func records(at path: String) throws -> [TakeRecord] {
    guard try exists(at: path) else { return [] }
    let file = try InputFile(path)
    var state = State(descriptor: -1)
    try load(file, into: &state)
    guard let last = state.lines.values.max(by: { $0.offset < $1.offset }) else { return [] }
    let current = state.lines.values.filter { $0.entry.pipeline == last.entry.pipeline }.sorted { $0.entry.id < $1.entry.id }
    return try current.map { try TakeRecord(json: record($0, in: file.descriptor, of: path)) }
  }

  private static func exists(at path: String) throws -> Bool {
    switch try Directory.kind(at: path) {
    case nil: false
    case .file: true
    case .link: throw UsageError("\(path) is a symbolic link; the journal of a dataset is a file, and no link to one is followed")
    default: throw UsageError("\(path) is not a file; the journal of a dataset is one")
    }
  }

  package var entries: [String: Entry] { state.withLock { $0.lines.mapValues(\.entry) } }

  /// Writes a new journal; `record` returns the record of an entry.
  package static func write(_ entries: [Entry], to path: String, record: (Entry) throws -> [UInt8]) throws {
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
      if state.lines.updateValue(line, forKey: entry.id.text) != nil { state.stale += 1 }
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
    try Self.write(kept.sorted { $0.key < $1.key }.map(\.value.entry), to: path) { try record(of: $0.id.text) }
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

  /// A line of the journal, with the newline; also what a task leaves as its result.
  package static func encode(_ entry: Entry, record: [UInt8]) -> [UInt8] { line(entry, record).reduce([], +) }

  /// The entry of a line without its newline, and its record; `nil` for a line that differs from what was written.
  package static func decode(_ line: ArraySlice<UInt8>) -> (entry: Entry, record: [UInt8])? {
    let line = Array(line) + [UInt8(ascii: "\n")]
    var texts: [String: String] = [:]
    return line.withUnsafeBytes { parse($0, &texts) }.map { ($0.entry, Array(line[$0.record])) }
  }

  private static let entryKey = Array("{\"entry\":".utf8)
  private static let recordKey = Array(",\"record\":".utf8)
  private static let checksumKey = Array(",\"crc32\":\"".utf8)
  /// Length of the end of a line: the key, eight digits, quote, brace, newline.
  private static let endingCount = checksumKey.count + 8 + 3

  /// A line in pieces, so that the long record is not copied.
  private static func line(_ entry: Entry, _ record: [UInt8]) -> [[UInt8]] {
    var start = entryKey
    entry.contents.json.appendCanonical(to: &start)
    start += recordKey
    let checksum = checksum([start, record])
    return [start, record, checksumKey + Array(checksum.utf8) + Array("\"}\n".utf8)]
  }

  /// CRC-32 (ISO 3309) as eight hexadecimal digits.
  private static func checksum(_ pieces: [[UInt8]]) -> String {
    digits(pieces.reduce(crc32(0, nil, 0)) { sum, piece in piece.withUnsafeBytes { checksum($0, after: sum) } })
  }

  private static func checksum(_ bytes: UnsafeRawBufferPointer, after sum: UInt) -> UInt {
    crc32_z(sum, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count)
  }

  private static func digits(_ checksum: UInt) -> String { checksum.padded(to: 8, radix: 16) }

  /// The index where the record starts: after the first `,"record":`, which inside text would have its quotes escaped.
  private static func recordStart(_ line: UnsafeRawBufferPointer) -> Int? {
    var index = 0
    while let base = line.baseAddress, let comma = memchr(base + index, 0x2C, line.count - index) {
      index = UnsafeRawPointer(comma) - base
      guard line.count - index > recordKey.count else { return nil }
      if memcmp(base + index, recordKey, recordKey.count) == 0 { return index + recordKey.count }
      index += 1
    }
    return nil
  }

  /// The entry of a line and the range of its record; `nil` for a line that differs from what was written.
  ///
  /// - Parameter texts: Texts that other lines have had, and will have.
  private static func parse(_ line: UnsafeRawBufferPointer, _ texts: inout [String: String]) -> (entry: Entry, record: Range<Int>)? {
    guard line.starts(with: entryKey), line.count > endingCount else { return nil }
    let body = UnsafeRawBufferPointer(rebasing: line[..<(line.count - endingCount)])
    let ending = checksumKey + Array(digits(checksum(body, after: crc32(0, nil, 0))).utf8) + Array("\"}\n".utf8)
    guard line[body.count...].elementsEqual(ending), let start = recordStart(body), start - recordKey.count > entryKey.count,
      let entry = try? Entry(Entry.Contents(JSONReader(Array(body[entryKey.count..<(start - recordKey.count)])), &texts))
    else { return nil }
    return (entry, start..<body.count)
  }

  private static func load(_ path: String, into state: inout State) throws { try load(InputFile(path), into: &state) }

  private static func load(_ file: InputFile, into state: inout State) throws {
    state.stamp = file.stamp
    // As long as the longest line so far; what is read of the next one is at its start.
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    var filled = 0
    while true {
      if filled == buffer.count { buffer.append(contentsOf: repeatElement(0, count: buffer.count)) }
      let count = try buffer.withUnsafeMutableBytes { try file.read(into: UnsafeMutableRawBufferPointer(rebasing: $0[filled...])) }
      if count == 0 { break }
      // A power failure may leave zeros.
      if filled == 0, state.end == 0, let first = buffer.first, first != 0 {
        state.isForeign = !zip(buffer.prefix(count), Array("{\"entry\":".utf8)).allSatisfy { $0 == $1 }
      }
      let used = buffer.withUnsafeBytes { add($0[..<(filled + count)], searchedTo: filled, to: &state) }
      filled += count - used
      if used > 0 { buffer.withUnsafeMutableBytes { if let base = $0.baseAddress { memmove(base, base + used, filled) } } }
    }
  }

  /// Adds the complete lines of what was read; returns their length.
  private static func add(_ bytes: Slice<UnsafeRawBufferPointer>, searchedTo searched: Int, to state: inout State) -> Int {
    let bytes = UnsafeRawBufferPointer(rebasing: bytes)
    var (start, search) = (0, searched)
    while let base = bytes.baseAddress, let newline = memchr(base + search, 0x0A, bytes.count - search) {
      let end = UnsafeRawPointer(newline) - base + 1
      add(line: UnsafeRawBufferPointer(rebasing: bytes[start..<end]), to: &state)
      (start, search) = (end, end)
    }
    return start
  }

  private static func add(line bytes: UnsafeRawBufferPointer, to state: inout State) {
    let offset = state.end
    state.end += Int64(bytes.count)
    guard let (entry, record) = parse(bytes, &state.texts) else {
      state.stale += 1
      if bytes.starts(with: Array("{\"head\":".utf8)) { state.unchecked += 1 } else { state.damaged += 1 }
      return
    }
    let line = Line(entry: entry, offset: offset + Int64(record.lowerBound), length: record.count)
    if state.lines.updateValue(line, forKey: entry.id.text) != nil { state.stale += 1 }
  }
}

extension Journal.Entry.Contents {
  fileprivate var json: JSONValue {
    var members: [String: JSONValue] = [
      "location": .string(location), "pipeline_sha256": .string(pipeline),
      "tool_version": .string(toolVersion), "outcome": .string(outcome.rawValue), "reader": JSONValue(reader),
      "stamp": JSONValue(stamp), "input_sha256": JSONValue(inputDigest), "shard": JSONValue(shard),
      "frames_in": JSONValue(framesIn), "frames_out": JSONValue(framesOut), "keys": JSONValue(keys),
      "had_twin": .bool(hadDuplicateFolder),
      "seconds": .number(seconds),
    ]
    if framesRepeated > 0 { members["frames_repeated"] = JSONValue(framesRepeated) }
    members["origin"] = origin?.json
    if let recording { members["recording"] = .string(recording) }
    id.addMembers(to: &members)
    if let parts { members["parts"] = JSONValue(parts) }
    if let labels { members["labels"] = .string(labels) }
    if let group { members["group"] = .string(group) }
    if firstRow != 0 { members["first_row_ns"] = .integer(firstRow) }
    if !added.isEmpty { members["added"] = .string(added.map(\.rawValue).joined(separator: " ")) }
    return .object(members)
  }

  /// Reads an entry. Throws for one that no version has written.
  ///
  /// - Parameter texts: Texts that other entries have, which are then stored once.
  fileprivate init(_ reader: JSONReader, _ texts: inout [String: String]) throws {
    var strings: [String: String] = [:]
    var counts: [String: Int] = [:]
    var (hadDuplicateFolder, seconds) = (false, 0.0)
    var origin: JSONValue?
    try reader.members { key in
      switch try reader.value() {
      case .string(let text): strings[key] = text
      case .bool(let value) where key == "had_twin": hadDuplicateFolder = value
      case .object(let members) where key == "origin": origin = .object(members)
      case .integer(let count) where key != "seconds": counts[key] = Int(clamping: count)
      case let value: if key == "seconds" { seconds = value.double ?? 0 }
      }
      return true
    }
    try reader.expectEnd()
    guard let name = strings["id"], let location = strings["location"],
      let pipeline = strings["pipeline_sha256"].flatMap(Digest.init(hex:))?.description,
      let version = strings["tool_version"], let outcome = strings["outcome"].flatMap(TakeRecord.Outcome.init)
    else { throw IncompleteRecord(member: "id, location, pipeline_sha256, tool_version or outcome") }
    func shared(_ text: String) -> String {
      if let known = texts[text] { return known }
      texts[text] = text
      return text
    }
    self.init(
      id: try EpisodeID(name, take: strings["take"], part: counts["part"]), location: location, pipeline: shared(pipeline),
      toolVersion: shared(version), outcome: outcome, reader: strings["reader"].map(shared), stamp: strings["stamp"],
      inputDigest: strings["input_sha256"], shard: strings["shard"], framesIn: counts["frames_in"] ?? 0,
      framesOut: counts["frames_out"] ?? 0)
    let group = strings["split_group"]
    self.origin = origin.map { TakeOrigin(json: $0, shared) } ?? group.map { TakeOrigin(group: $0) }
    (recording, keys) = (strings["recording"], strings["keys"].map(shared))
    (self.hadDuplicateFolder, self.seconds) = (hadDuplicateFolder, seconds)
    framesRepeated = counts["frames_repeated"] ?? 0
    parts = counts["parts"]
    (labels, firstRow) = (strings["labels"], Int64(counts["first_row_ns"] ?? 0))
    self.group = strings["group"]
    added = (strings["added"] ?? "").split(separator: " ").filter(StreamName.isName).map { StreamName(String($0)) }
    // Builds between 0.2.0 and 0.3.0 kept both in one text; their takes are converted again.
    if recording == nil, group?.dropLast(16).hasSuffix("\u{1F}") == true { throw IncompleteRecord(member: "recording") }
    guard PlainName(name) != nil else { throw IncompleteRecord(member: "a name that a file can have") }
    guard [framesIn, framesOut, framesRepeated, id.part ?? 0, parts ?? 1].allSatisfy(TakeRecord.isPlausibleCount) else {
      throw IncompleteRecord(member: "a count that a take can have")
    }
  }
}
