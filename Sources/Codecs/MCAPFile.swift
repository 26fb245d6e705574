/// Writes an MCAP file front to back: messages in chunks, each with an index, and a summary.
///
/// Source: the format's specification at version 0 ("MCAP Format Specification", mcap.dev/spec).
package struct MCAPFile {
  /// The first and the last bytes of a file.
  package static let magic: [UInt8] = [0x89, 0x4D, 0x43, 0x41, 0x50, 0x30, 0x0D, 0x0A]

  /// Kinds of records.
  package enum Kind: UInt8 {
    case header = 0x01
    case footer, schema, channel, message, chunk, messageIndex, chunkIndex, attachment, attachmentIndex, statistics, metadata
    case metadataIndex, summaryOffset, dataEnd
  }

  private struct Chunk {
    var records: [UInt8] = []
    var first = UInt64.max, last: UInt64 = 0
    /// Times and places of the messages, by channel.
    var places: [UInt16: [(time: UInt64, offset: UInt64)]] = [:]
  }

  private let write: (UnsafeRawBufferPointer) throws -> Void
  private let compression: ChunkCodec?
  private let chunkBytes: Int
  private var offset: UInt64 = 0
  private var chunk = Chunk()
  private var schemas: [[UInt8]] = [], channels: [[UInt8]] = []
  private var chunkIndexes: [[UInt8]] = [], attachmentIndexes: [[UInt8]] = [], metadataIndexes: [[UInt8]] = []
  private var counts: [UInt16: UInt64] = [:]
  private var first = UInt64.max, last: UInt64 = 0

  /// - Parameters:
  ///   - profile: The conventions that messages follow, such as `ros2`; empty for none.
  ///   - chunkBytes: Bytes of messages after which a chunk ends. A message larger than that is a chunk by itself.
  ///   - write: Appends bytes to the file.
  package init(
    library: String, profile: String = "", compression: ChunkCodec? = nil, chunkBytes: Int = 4 << 20,
    _ write: @escaping (UnsafeRawBufferPointer) throws -> Void
  ) throws {
    (self.write, self.compression, self.chunkBytes) = (write, compression, chunkBytes)
    try append(Self.magic)
    var header = Bytes()
    header.add(profile)
    header.add(library)
    try append(.header, header.bytes)
  }

  // MARK: Schemas, channels and messages

  /// Adds a topic, before the first message. The number is that of its messages.
  package mutating func addChannel(_ topic: String, schema name: String, _ schema: [UInt8], schemaEncoding: String, encoding: String) throws
    -> UInt16
  {
    var body = Bytes()
    body.add(name)
    body.add(schemaEncoding)
    body.add(UInt32(schema.count))
    body.bytes += schema
    // Topics share a schema; numbers begin at 1.
    let known = schemas.firstIndex { $0.dropFirst(2) == body.bytes[...] }
    let place = UInt16((known ?? schemas.count) + 1)
    if known == nil {
      var record = Bytes()
      record.add(place)
      schemas.append(record.bytes + body.bytes)
      try append(.schema, schemas[schemas.count - 1])
    }
    var channel = Bytes()
    let number = UInt16(channels.count)
    channel.add(number)
    channel.add(place)
    channel.add(topic)
    channel.add(encoding)
    channel.add(UInt32(0))  // no metadata
    channels.append(channel.bytes)
    try append(.channel, channel.bytes)
    return number
  }

  /// - Parameters:
  ///   - logged: Time in nanoseconds by which viewers order messages.
  ///   - sequence: The number of the row.
  package mutating func addMessage(_ data: [UInt8], on channel: UInt16, sequence: Int, at logged: UInt64) throws {
    if !chunk.records.isEmpty, chunk.records.count + data.count + 31 > chunkBytes { try endChunk() }
    chunk.places[channel, default: []].append((logged, UInt64(chunk.records.count)))
    (chunk.first, chunk.last) = (min(chunk.first, logged), max(chunk.last, logged))
    var head = Bytes()
    head.add(Kind.message.rawValue)
    head.add(UInt64(22 + data.count))
    head.add(channel)
    head.add(UInt32(truncatingIfNeeded: sequence))
    head.add(logged)
    head.add(logged)
    chunk.records += head.bytes
    chunk.records += data
    counts[channel, default: 0] += 1
  }

  private mutating func endChunk() throws {
    guard !chunk.records.isEmpty else { return }
    let start = offset
    let size = UInt64(chunk.records.count)
    var head = Bytes()
    head.add(chunk.first)
    head.add(chunk.last)
    head.add(size)
    head.add(chunk.records.withUnsafeBytes { ChunkCodec.checksum($0) })
    head.add(compression?.rawValue ?? "")
    let stored = try compression?.compress(chunk.records) ?? chunk.records
    head.add(UInt64(stored.count))
    try append(.chunk, head.bytes, stored)
    let indexStart = offset
    var offsets = Bytes()
    for (channel, places) in chunk.places.sorted(by: { $0.key < $1.key }) {
      offsets.add(channel)
      offsets.add(offset)
      var index = Bytes()
      index.add(channel)
      index.add(UInt32(16 * places.count))
      for place in places {
        index.add(place.time)
        index.add(place.offset)
      }
      try append(.messageIndex, index.bytes)
    }
    var index = Bytes()
    for number in [chunk.first, chunk.last, start, indexStart - start] { index.add(number) }
    index.add(UInt32(offsets.bytes.count))
    index.bytes += offsets.bytes
    index.add(offset - indexStart)
    index.add(compression?.rawValue ?? "")
    index.add(UInt64(stored.count))
    index.add(size)
    chunkIndexes.append(index.bytes)
    (first, last) = (min(first, chunk.first), max(last, chunk.last))
    chunk = Chunk()
  }

  // MARK: Files beside the messages

  /// Adds a file, after the last message.
  package mutating func attach(_ data: [UInt8], named name: String, mediaType: String) throws {
    try endChunk()
    let time = first == .max ? 0 : first
    var body = Bytes()
    body.add(time)
    body.add(time)
    body.add(name)
    body.add(mediaType)
    body.add(UInt64(data.count))
    body.bytes += data
    body.add(body.bytes.withUnsafeBytes { ChunkCodec.checksum($0) })
    var index = Bytes()
    index.add(offset)
    index.add(UInt64(body.bytes.count + 9))
    index.add(time)
    index.add(time)
    index.add(UInt64(data.count))
    index.add(name)
    index.add(mediaType)
    attachmentIndexes.append(index.bytes)
    try append(.attachment, body.bytes)
  }

  /// Adds texts by name, after the last message.
  package mutating func addMetadata(_ name: String, _ texts: [String: String]) throws {
    try endChunk()
    var map = Bytes()
    for (key, value) in texts.sorted(by: { $0.key < $1.key }) {
      map.add(key)
      map.add(value)
    }
    var body = Bytes()
    body.add(name)
    body.add(UInt32(map.bytes.count))
    body.bytes += map.bytes
    var index = Bytes()
    index.add(offset)
    index.add(UInt64(body.bytes.count + 9))
    index.add(name)
    metadataIndexes.append(index.bytes)
    try append(.metadata, body.bytes)
  }

  // MARK: The end

  /// Writes the summary.
  package mutating func finish() throws {
    try endChunk()
    var end = Bytes()
    end.add(UInt32(0))  // no checksum of all before
    try append(.dataEnd, end.bytes)
    let start = offset
    let groups: [(Kind, [[UInt8]])] = [
      (.schema, schemas), (.channel, channels), (.statistics, [statistics]), (.chunkIndex, chunkIndexes),
      (.attachmentIndex, attachmentIndexes), (.metadataIndex, metadataIndexes),
    ]
    var offsets: [[UInt8]] = []
    for (kind, records) in groups where !records.isEmpty {
      var group = Bytes()
      group.add(kind.rawValue)
      group.add(offset)
      let before = offset
      for record in records { try append(kind, record) }
      group.add(offset - before)
      offsets.append(group.bytes)
    }
    let offsetsStart = offset
    for record in offsets { try append(.summaryOffset, record) }
    var footer = Bytes()
    footer.add(start)
    footer.add(offsetsStart)
    footer.add(UInt32(0))
    try append(.footer, footer.bytes)
    try append(Self.magic)
  }

  private var statistics: [UInt8] {
    var body = Bytes()
    body.add(counts.values.reduce(0, +))
    body.add(UInt16(schemas.count))
    for count in [channels.count, attachmentIndexes.count, metadataIndexes.count, chunkIndexes.count] { body.add(UInt32(count)) }
    body.add(first == .max ? 0 : first)
    body.add(last)
    body.add(UInt32(10 * counts.count))
    for (channel, count) in counts.sorted(by: { $0.key < $1.key }) {
      body.add(channel)
      body.add(count)
    }
    return body.bytes
  }

  private mutating func append(_ kind: Kind, _ body: [UInt8], _ rest: [UInt8] = []) throws {
    var head = Bytes()
    head.add(kind.rawValue)
    head.add(UInt64(body.count + rest.count))
    try append(head.bytes + body)
    if !rest.isEmpty { try append(rest) }
  }

  private mutating func append(_ bytes: [UInt8]) throws {
    try bytes.withUnsafeBytes(write)
    offset += UInt64(bytes.count)
  }
}
