import Codecs
import Evidence
import Media
import Model
import Steps

/// One reading of one file, from front to back.
struct MCAPPass {
  private let log: MCAPLog
  private let number: Int
  private let notes: FindingCollector
  /// Of all bytes before the end of the data; 0 where the file does not say.
  private let expected: UInt32
  private var checksum: UInt32 = 0
  private var damage: (count: Int, first: String) = (0, "")
  private var messages: UInt64 = 0
  private var hasLooseMessages = false
  /// The number of messages by the summary.
  private var announced: UInt64?
  private var channels: [UInt16: MCAPRecord.Channel] = [:]
  /// Numbers of channels that are defined in two ways.
  private var ambiguous: Set<UInt16> = []

  private var path: String { log.files[number].path }
  private var slice: FileSlice { log.files[number].slice }

  init(_ log: MCAPLog, _ number: Int, _ notes: FindingCollector) throws {
    (self.log, self.number, self.notes) = (log, number, notes)
    expected = try Self.checksum(of: log.files[number].slice)
  }

  /// The record at the end of a file, and what it leads to; `nil` in a file without one.
  private static func footer(of slice: FileSlice) throws -> (start: Int64, summary: Int64, checksum: UInt32)? {
    let start = slice.count - Int64(MCAPRecord.headBytes + 20 + MCAPRecord.magic.count)
    guard start > 0 else { return nil }
    let last = try slice.bytes(start..<slice.count)
    guard last.first == MCAPRecord.Kind.footer.rawValue, last.suffix(8) == MCAPRecord.magic[...] else { return nil }
    return last.withUnsafeBytes { bytes in
      var reader = ByteReader(bytes, at: MCAPRecord.headBytes)
      guard let summary: UInt64 = try? reader.integer(), (try? reader.integer(UInt64.self)) != nil, let sum: UInt32 = try? reader.integer()
      else { return nil }
      return (start, Int64(clamping: summary), sum)
    }
  }

  /// Reads the definitions that the summary repeats, which count where the chunk that has them is damaged.
  private mutating func defineBySummary(_ define: (Int, MCAPLog.Definition) -> Void) throws {
    guard let footer = try Self.footer(of: slice), footer.summary > 0, footer.summary < footer.start,
      footer.start - footer.summary <= Int64(log.limits.chunk)
    else { return }
    // Its checksum is of all from its start to itself.
    let bytes = try slice.bytes(footer.summary..<(footer.start + Int64(MCAPRecord.headBytes + 16)))
    try? bytes.withUnsafeBytes { bytes in
      guard footer.checksum == 0 || ChunkCodec.checksum(bytes) == footer.checksum else { return }
      let records = UnsafeRawBufferPointer(rebasing: bytes[..<Int(footer.start - footer.summary)])
      try MCAPRecord.forEach(in: records) { _, _, _ in }
      try MCAPRecord.forEach(in: records) { kind, body, _ in
        let kind = MCAPRecord.Kind(rawValue: kind)
        if kind == .schema || kind == .channel { try self.define(kind, body, define) }
      }
    }
  }

  /// The checksum in the record at the end of the data, which the record at the end of the file leads to.
  private static func checksum(of slice: FileSlice) throws -> UInt32 {
    guard let footer = try footer(of: slice) else { return 0 }
    let (end, start) = (MCAPRecord.headBytes + 4, footer.start)
    let place = (footer.summary == 0 ? start : footer.summary) - Int64(end)
    guard place > 0, place < start else { return 0 }
    let record = try slice.bytes(place..<(place + Int64(end)))
    guard record.count == end, record[0] == MCAPRecord.Kind.dataEnd.rawValue else { return 0 }
    return record.withUnsafeBytes { UInt32(littleEndian: $0.loadUnaligned(fromByteOffset: MCAPRecord.headBytes, as: UInt32.self)) }
  }

  mutating func run(_ total: inout Int64, _ define: (Int, MCAPLog.Definition) -> Void, _ message: (MCAPLog.Message) -> Void) throws {
    let magic = try slice.bytes(0..<Int64(MCAPRecord.magic.count))
    guard magic == MCAPRecord.magic else { throw TakeFailure(.recordingInvalid, "it does not begin as an MCAP file", file: path) }
    add(magic)
    try defineBySummary(define)
    var offset = Int64(magic.count)
    var (isData, isFinished) = (true, false)
    while offset < slice.count {
      let head = try slice.bytes(offset..<(offset + Int64(MCAPRecord.headBytes)))
      if head.starts(with: MCAPRecord.magic), !isData {
        isFinished = true
        break
      }
      guard head.count == MCAPRecord.headBytes else { break }
      let length = head.withUnsafeBytes { UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: 1, as: UInt64.self)) }
      let start = offset + Int64(MCAPRecord.headBytes)
      guard length <= UInt64(slice.count - start) else { break }
      let (kind, end) = (MCAPRecord.Kind(rawValue: head[0]), start + Int64(length))
      if kind == .dataEnd {
        isData = false
        if checksum != expected { try checksumDiffers() }
      }
      if isData { add(head) }
      switch kind {
      case .schema, .channel, .message, .chunk, .metadata, .header, .statistics:
        guard length <= UInt64(log.limits.chunk) else {
          throw TakeFailure(
            .limit, "a record at byte \(offset) has \(length) bytes, over the limit of \(log.limits.chunk) (max-chunk-mebibytes)",
            file: path)
        }
        let body = try slice.bytes(start..<end)
        if isData { add(body) }
        guard isData || kind == .statistics else {
          if kind == .chunk || kind == .message { addDamage("the record at byte \(offset) follows the end of the data") }
          break
        }
        do {
          try body.withUnsafeBytes { try record(kind, $0, at: start, &total, define, message) }
        } catch let fault as MessageFault {
          addDamage("the record at byte \(offset): \(fault)")
        } catch let failure as ChunkCodec.Failure {
          addDamage("the chunk at byte \(offset) cannot be decompressed: \(failure)")
        }
      default:
        // Attachments may be of any size, and nothing of them is needed but their checksum.
        if isData, expected != 0 {
          var next = start
          while next < end {
            let piece = try slice.bytes(next..<min(end, next + 1 << 20))
            if piece.isEmpty { break }
            add(piece)
            next += Int64(piece.count)
          }
        }
      }
      offset = end
    }
    noteEnd(isFinished: isFinished, at: offset)
  }

  private mutating func add(_ bytes: [UInt8]) {
    if expected != 0 { checksum = bytes.withUnsafeBytes { ChunkCodec.checksum($0, after: checksum) } }
  }

  private mutating func addDamage(_ words: String) {
    if damage.count == 0 { damage.first = words }
    damage.count += 1
  }

  /// Chunks have checksums of their own, which say where damage is.
  private mutating func checksumDiffers() throws {
    guard hasLooseMessages else { return addDamage("the checksum of the file differs") }
    throw TakeFailure(
      .recordingInvalid,
      "the file's checksum differs from the one that it lists, and its messages have none, so nobody knows which are damaged",
      file: path)
  }

  private mutating func record(
    _ kind: MCAPRecord.Kind?, _ body: UnsafeRawBufferPointer, at start: Int64, _ total: inout Int64,
    _ define: (Int, MCAPLog.Definition) -> Void, _ message: (MCAPLog.Message) -> Void
  ) throws {
    switch kind {
    case .chunk: try chunk(body, at: start, &total, define, message)
    case .message:
      hasLooseMessages = true
      try add(body, MessagePlace(chunk: -1, file: Int32(number), offset: start, count: body.count), message)
    case .statistics:
      var reader = ByteReader(body)
      announced = try reader.integer()
    default: try self.define(kind, body, define)
    }
  }

  private mutating func define(_ kind: MCAPRecord.Kind?, _ body: UnsafeRawBufferPointer, _ define: (Int, MCAPLog.Definition) -> Void) throws
  {
    switch kind {
    case .header:
      var reader = ByteReader(body)
      _ = try reader.text()
      define(number, .library(try reader.text()))
    case .schema: define(number, .schema(try MCAPRecord.Schema(body)))
    case .channel:
      let channel = try MCAPRecord.Channel(body)
      if let known = channels[channel.id], known != channel {
        ambiguous.insert(channel.id)
        throw MessageFault(
          "channel \(channel.id) is defined as \(known.topic.onOneLine.prefix(60)) and as \(channel.topic.onOneLine.prefix(60))")
      }
      channels[channel.id] = channel
      define(number, .channel(channel))
    case .metadata: define(number, .metadata(try MCAPRecord.Metadata(body)))
    default: break
    }
  }

  private mutating func add(_ body: UnsafeRawBufferPointer, _ place: MessagePlace, _ message: (MCAPLog.Message) -> Void) throws {
    let head = try MCAPRecord.MessageHead(body)
    guard channels[head.channel] != nil, !ambiguous.contains(head.channel) else {
      throw MessageFault("its channel \(head.channel) is not defined, or in two ways")
    }
    messages += 1
    let data = MCAPRecord.MessageHead.bytes..<body.count
    message(
      MCAPLog.Message(
        file: number, channel: head.channel, logged: head.logged, data: UnsafeRawBufferPointer(rebasing: body[data]),
        place: place.part(data)))
  }

  /// Reads the records of a chunk once all of it is known to be whole.
  private mutating func chunk(
    _ body: UnsafeRawBufferPointer, at start: Int64, _ total: inout Int64, _ define: (Int, MCAPLog.Definition) -> Void,
    _ message: (MCAPLog.Message) -> Void
  ) throws {
    let head = try MCAPRecord.ChunkHead(body)
    let codec = ChunkCodec(rawValue: head.compression)
    guard codec != nil || head.compression.isEmpty else {
      throw TakeFailure(
        .formatUnsupported, "a chunk is compressed by \(head.compression.onOneLine.prefix(40)); expected lz4, zstd or none", file: path)
    }
    guard head.count <= UInt64(log.limits.chunk) else {
      throw TakeFailure(
        .limit, "a chunk at byte \(start) has \(head.count) bytes, over the limit of \(log.limits.chunk) (max-chunk-mebibytes)", file: path)
    }
    total += Int64(head.count)
    guard total <= log.limits.total else {
      throw TakeFailure(
        .limit, "its chunks have more than \(log.limits.total) bytes after they are decompressed (max-archive-gibibytes)", file: path)
    }
    let stored = UnsafeRawBufferPointer(rebasing: body[head.records])
    let place = MCAPLog.Chunk(
      file: Int32(number), offset: start + Int64(head.records.lowerBound), stored: stored.count, count: Int(head.count), codec: codec)
    guard let codec else {
      guard stored.count == place.count else {
        throw MessageFault("it has \(stored.count) bytes of records, where \(place.count) are listed")
      }
      return try records(stored, head.checksum, log.add(place), define, message)
    }
    let bytes = try codec.decompress(stored, count: place.count)
    try bytes.withUnsafeBytes { try records($0, head.checksum, log.add(place), define, message) }
  }

  private mutating func records(
    _ records: UnsafeRawBufferPointer, _ expected: UInt32, _ chunk: Int32, _ define: (Int, MCAPLog.Definition) -> Void,
    _ message: (MCAPLog.Message) -> Void
  ) throws {
    guard expected == 0 || ChunkCodec.checksum(records) == expected else { throw MessageFault("its checksum differs") }
    try MCAPRecord.forEach(in: records) { _, _, _ in }
    try MCAPRecord.forEach(in: records) { kind, body, offset in
      let kind = MCAPRecord.Kind(rawValue: kind)
      do {
        guard kind != .chunk else { throw MessageFault("a chunk in a chunk") }
        guard kind == .message else { return try self.define(kind, body, define) }
        try add(body, MessagePlace(chunk: chunk, file: Int32(number), offset: Int64(offset), count: body.count), message)
      } catch let fault as MessageFault {
        addDamage("a record in chunk \(chunk): \(fault)")
      }
    }
  }

  private mutating func noteEnd(isFinished: Bool, at offset: Int64) {
    let rest = slice.count - offset - Int64(MCAPRecord.magic.count)
    if isFinished, rest > 0 { addDamage("\(rest) bytes follow the end of the recording, and are not read") }
    if damage.count > 0 {
      notes.add(
        .messagesUnreadable, "records or chunks that are damaged are skipped; the first: \(damage.first)", file: path, count: damage.count)
    }
    if !isFinished {
      notes.add(
        .recordingUnfinished,
        "the file ends without the end of a recording; it is read up to byte \(offset) of \(slice.count), to the last record that is whole",
        file: path)
    } else if let announced, announced > messages, damage.count == 0 {
      notes.add(
        .messagesUnreadable, "the summary counts \(announced) messages, and \(messages) are in the file", file: path,
        count: Int(clamping: announced - messages))
    }
  }
}
