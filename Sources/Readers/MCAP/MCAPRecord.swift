import Codecs

/// What the records of an MCAP file say.
///
/// Source: the format's specification at version 0 ("MCAP Format Specification", mcap.dev/spec).
enum MCAPRecord {
  typealias Kind = MCAPFile.Kind
  static let magic = MCAPFile.magic
  /// Bytes of the kind and the length that every record begins with.
  static let headBytes = 9

  /// The definition of messages.
  struct Schema: Equatable {
    var id: UInt16
    var name: String
    var encoding: String
    var data: [UInt8]

    init(_ body: UnsafeRawBufferPointer) throws {
      var reader = ByteReader(body)
      (id, name, encoding) = (try reader.integer(), try reader.text(), try reader.text())
      data = Array(body[try reader.skip(Int(reader.integer(UInt32.self)))])
      guard id != 0 else { throw MessageFault("its number is 0") }
    }
  }

  /// Messages of one topic by one publisher.
  struct Channel: Equatable {
    var id: UInt16
    var schema: UInt16
    var topic: String
    var encoding: String

    init(_ body: UnsafeRawBufferPointer) throws {
      var reader = ByteReader(body)
      (id, schema) = (try reader.integer(), try reader.integer())
      (topic, encoding) = (try reader.text(), try reader.text())
      _ = try reader.texts()
    }
  }

  /// The part of a message before its data.
  struct MessageHead {
    static let bytes = 22
    var channel: UInt16
    /// Nanoseconds, by the clock of the program that recorded it.
    var logged: UInt64

    init(_ body: UnsafeRawBufferPointer) throws {
      var reader = ByteReader(body)
      channel = try reader.integer()
      _ = try reader.integer(UInt32.self)
      logged = try reader.integer()
      _ = try reader.integer(UInt64.self)
    }
  }

  /// The part of a chunk before its records.
  struct ChunkHead {
    var count: UInt64
    /// Of the records before they were compressed; 0 where it was not computed.
    var checksum: UInt32
    var compression: String
    /// The records as they are stored, in the body of the chunk.
    var records: Range<Int>

    init(_ body: UnsafeRawBufferPointer) throws {
      var reader = ByteReader(body)
      _ = try (reader.integer(UInt64.self), reader.integer(UInt64.self))
      (count, checksum, compression) = (try reader.integer(), try reader.integer(), try reader.text())
      let stored: UInt64 = try reader.integer()
      guard let stored = Int(exactly: stored) else { throw MessageFault("its size is \(stored)") }
      records = try reader.skip(stored)
      guard reader.isAtEnd else { throw MessageFault("\(reader.left) bytes follow its records") }
    }
  }

  /// Texts by name.
  struct Metadata {
    var name: String
    var texts: [String: String]

    init(_ body: UnsafeRawBufferPointer) throws {
      var reader = ByteReader(body)
      (name, texts) = (try reader.text(), try reader.texts())
    }
  }

  /// Passes each record of a chunk to `body`, with the place of its contents. Throws `MessageFault` where one does not end in the chunk.
  static func forEach(in records: UnsafeRawBufferPointer, _ body: (UInt8, UnsafeRawBufferPointer, Int) throws -> Void) throws {
    var reader = ByteReader(records)
    while !reader.isAtEnd {
      let kind: UInt8 = try reader.integer()
      let count: UInt64 = try reader.integer()
      guard let count = Int(exactly: count) else { throw MessageFault("the length of a record is \(count)") }
      let range = try reader.skip(count)
      try body(kind, UnsafeRawBufferPointer(rebasing: records[range]), range.lowerBound)
    }
  }
}
