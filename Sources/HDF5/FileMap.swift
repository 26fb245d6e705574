/// A map of the chunks of a file, read from its structure without the library: superblock, object headers, links and chunk indices as
/// `File` writes them (HDF5 File Format Specification 3.0: superblock 2, object headers 2, compact links, layout 3, version 1 B-trees).
///
/// Whoever opens a file of others with the library makes a map of it first: the library has been seen to crash on damaged files, and it
/// follows what leads out of the file. So the map refuses soft and external links, arrays that are stored in other files, and arrays that
/// are views of others. Every number is checked before it is used.
///
///     let map = try FileMap(size: slice.count, read: slice.bytes)
///     map.chunks["data/demo_0/obs/depth"]?[3].offset
package struct FileMap: Sendable {
  /// The place of a chunk: its byte offset and length in the file, and the filters that its bytes did not go through, as bits.
  package struct Chunk: Equatable, Sendable {
    /// Number of the chunk's first row.
    package var row: Int
    package var offset: Int64
    package var count: Int
    package var skipped: UInt32
  }

  /// A file whose structure is damaged, or is none that `File` writes, with the reason as the end of a sentence about it.
  package struct Damaged: Error, CustomStringConvertible, Equatable {
    package var description: String
    package init(description: String) { self.description = description }
  }

  /// The bytes of a range of the file, fewer where it ends.
  package typealias Read = @Sendable (Range<Int64>) throws -> [UInt8]

  /// Chunks of each chunked array, in the order of their rows, by path from the root without a leading slash.
  package private(set) var chunks: [String: [Chunk]] = [:]
  /// Byte offset and length of each contiguous array, by path.
  package private(set) var whole: [String: (offset: Int64, count: Int)] = [:]
  private let read: Read
  private let size: Int64
  private var objects = 0
  /// Bytes of chunk indices and object headers that may still be read. Each is somewhere in the file, so that those which refer to one
  /// another many times over cannot cost more than the file is long.
  private var budget: Int64
  /// Bytes of the file that were read last, and where they start.
  private var (window, windowStart): ([UInt8], Int64) = ([], 0)

  private static let windowBytes = 4096
  private static let objectLimit = 100_000
  private static let depthLimit = 32
  private static let undefined: UInt64 = .max

  package init(size: Int64, read: @escaping Read) throws {
    (self.size, self.read, budget) = (size, read, size)
    let superblock = try bytes(0, 48)
    guard superblock.prefix(8) == [0x89, 0x48, 0x44, 0x46, 0x0D, 0x0A, 0x1A, 0x0A] else {
      throw Damaged(description: "it does not start as an HDF5 file")
    }
    guard superblock[8] == 2, superblock[9] == 8, superblock[10] == 8 else {
      throw Damaged(description: "its superblock has another version")
    }
    try visit(Self.number(superblock, 36, 8), path: "", depth: 0)
    window = []
  }

  /// The byte ranges of the file that belong to no chunk, ascending.
  ///
  /// - Throws: `Damaged` when chunks overlap or lie outside of the file.
  package func structure() throws -> [Range<Int64>] {
    var ranges: [Range<Int64>] = []
    var position: Int64 = 0
    for chunk in chunks.values.joined().sorted(by: { $0.offset < $1.offset }) where chunk.count > 0 {
      guard chunk.offset >= position, chunk.offset <= size - Int64(chunk.count) else { throw Damaged(description: "its chunks overlap") }
      if chunk.offset > position { ranges.append(position..<chunk.offset) }
      position = chunk.offset + Int64(chunk.count)
    }
    if position < size { ranges.append(position..<size) }
    return ranges
  }

  // MARK: Bytes

  private mutating func bytes(_ offset: Int64, _ count: Int) throws -> ArraySlice<UInt8> {
    guard offset >= 0, count >= 0, Int64(count) <= size, offset <= size - Int64(count) else {
      throw Damaged(description: "it refers to bytes beyond its end")
    }
    if offset < windowStart || offset + Int64(count) > windowStart + Int64(window.count) {
      // What belongs together is close together, so one call reads several objects.
      window = try read(offset..<min(offset + Int64(max(count, Self.windowBytes)), size))
      windowStart = offset
    }
    let start = Int(offset - windowStart)
    guard window.count >= start + count else { throw Damaged(description: "it is shorter than it was") }
    return window[start..<(start + count)]
  }

  private mutating func spend(_ count: Int) throws {
    budget -= Int64(count)
    guard budget >= 0 else {
      throw Damaged(description: "its objects refer to one another more often than in any file that Takeset writes")
    }
  }

  private static func number(_ bytes: some RandomAccessCollection<UInt8>, _ offset: Int, _ count: Int) throws -> UInt64 {
    guard offset >= 0, offset + count <= bytes.count else { throw Damaged(description: "a header is truncated") }
    let start = bytes.index(bytes.startIndex, offsetBy: offset)
    return bytes[start..<bytes.index(start, offsetBy: count)].reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  private func address(_ value: UInt64) throws -> Int64 {
    guard let address = Int64(exactly: value), address < size else { throw Damaged(description: "it refers to an address beyond its end") }
    return address
  }

  // MARK: Objects

  private mutating func visit(_ header: UInt64, path: String, depth: Int) throws {
    objects += 1
    guard depth < Self.depthLimit, objects < Self.objectLimit else {
      throw Damaged(description: "it has more objects than any file that Takeset writes")
    }
    var links: [(String, UInt64)] = []
    var layout: ArraySlice<UInt8>?
    var place: Int64 = 0
    try forEachMessage(of: try address(header)) { type, body, offset in
      switch type {
      case 0x06: links.append(try Self.hardLink(body))
      case 0x07: throw Damaged(description: "the bytes of \(path) are in another file")
      case 0x11: throw Damaged(description: "a group's links are in a table of their own")
      case 0x02:
        // Link info: Takeset writes no groups with a heap of links.
        let flags = try Self.number(body, 1, 1)
        if try Self.number(body, flags & 1 == 1 ? 10 : 2, 8) != Self.undefined {
          throw Damaged(description: "a group's links are in a heap")
        }
      case 0x08: (layout, place) = (body, offset)
      default: break
      }
    }
    if let layout { try note(layout, at: place, path) }
    for (name, target) in links { try visit(target, path: path.isEmpty ? name : path + "/" + name, depth: depth + 1) }
  }

  private mutating func note(_ layout: ArraySlice<UInt8>, at place: Int64, _ path: String) throws {
    switch try Self.number(layout, 1, 1) {
    case 0: whole[path] = (place + 4, Int(try Self.number(layout, 2, 2)))
    case 1:
      let start = try Self.number(layout, 2, 8)
      guard let count = Int(exactly: try Self.number(layout, 10, 8)), Int64(count) <= size else {
        throw Damaged(description: "an array is longer than the file")
      }
      // An array without elements has no address.
      whole[path] = start == Self.undefined ? (0, 0) : (try address(start), count)
    case 2: chunks[path] = try index(layout)
    default: throw Damaged(description: "\(path) is a view of other arrays")
    }
  }

  /// Passes each message of an object to `body`: its type, its contents, and their offset in the file.
  private mutating func forEachMessage(of header: Int64, _ body: (UInt64, ArraySlice<UInt8>, Int64) throws -> Void) throws {
    let prefix = try bytes(header, Int(min(64, size - header)))
    guard prefix.starts(with: Array("OHDR".utf8)), try Self.number(prefix, 4, 1) == 2 else {
      throw Damaged(description: "an object header is damaged")
    }
    let flags = try Self.number(prefix, 5, 1)
    var start = 6
    if flags & 0x20 != 0 { start += 16 }
    if flags & 0x10 != 0 { start += 4 }
    let width = 1 << Int(flags & 3)
    let length = try Self.number(prefix, start, width)
    var pieces = [(header + Int64(start + width), length)]
    var done = 0
    while done < pieces.count {
      let (offset, length) = pieces[done]
      done += 1
      guard done < 64, let count = Int(exactly: length), count <= 1 << 26 else { throw Damaged(description: "an object header is damaged") }
      try spend(count)
      let messages = try bytes(offset, count)
      let head = flags & 0x04 != 0 ? 6 : 4
      var position = 0
      while position + head <= messages.count {
        let type = try Self.number(messages, position, 1)
        let length = Int(try Self.number(messages, position + 1, 2))
        guard position + head + length <= messages.count else { throw Damaged(description: "an object header is damaged") }
        let message = messages.dropFirst(position + head).prefix(length)
        position += head + length
        if type == 0x10 {
          let next = try address(Self.number(message, 0, 8)), size = try Self.number(message, 8, 8)
          guard size >= 8, try bytes(next, 4).elementsEqual("OCHK".utf8) else { throw Damaged(description: "an object header is damaged") }
          pieces.append((next + 4, size - 8))
        } else {
          try body(type, message, offset + Int64(message.startIndex - messages.startIndex))
        }
      }
    }
  }

  /// Name and header address of a hard link. Throws `Damaged` for links of other kinds.
  private static func hardLink(_ message: ArraySlice<UInt8>) throws -> (String, UInt64) {
    let flags = try number(message, 1, 1)
    var position = 2
    var isHard = true
    if flags & 0x08 != 0 {
      isHard = try number(message, position, 1) == 0
      position += 1
    }
    if flags & 0x04 != 0 { position += 8 }
    if flags & 0x10 != 0 { position += 1 }
    let width = 1 << Int(flags & 3)
    guard let length = Int(exactly: try number(message, position, width)) else { throw Damaged(description: "a link is damaged") }
    position += width
    guard length <= message.count - position else { throw Damaged(description: "a link is damaged") }
    let start = message.startIndex + position
    let name = String(decoding: message[start..<(start + length)], as: UTF8.self)
    guard isHard else { throw Damaged(description: "\(name) is a link to something else") }
    return (name, try number(message, position + length, 8))
  }

  // MARK: Chunk indices

  /// The chunks of a layout message of class 2.
  private mutating func index(_ layout: ArraySlice<UInt8>) throws -> [Chunk] {
    guard try Self.number(layout, 0, 1) == 3 else { throw Damaged(description: "a chunked array has a layout that Takeset does not write") }
    let rank = Int(try Self.number(layout, 2, 1))
    let tree = try Self.number(layout, 3, 8)
    guard (2...33).contains(rank) else { throw Damaged(description: "a chunked array has \(rank - 1) dimensions") }
    if tree == Self.undefined { return [] }
    var chunks: [Chunk] = []
    try walk(try address(tree), keySize: 8 + 8 * rank, depth: 0, into: &chunks)
    return chunks.sorted { $0.row < $1.row }
  }

  private mutating func walk(_ node: Int64, keySize: Int, depth: Int, into chunks: inout [Chunk]) throws {
    let head = try bytes(node, 24)
    guard depth < 16, head.starts(with: Array("TREE".utf8)), try Self.number(head, 4, 1) == 1 else {
      throw Damaged(description: "a chunk index is damaged")
    }
    let (level, used) = (Int(try Self.number(head, 5, 1)), Int(try Self.number(head, 6, 2)))
    guard depth == 0 || level < 16, used <= 1 << 14 else { throw Damaged(description: "a chunk index is damaged") }
    try spend(24 + used * (keySize + 8))
    let body = try bytes(node + 24, used * (keySize + 8))
    for entry in 0..<used {
      let key = entry * (keySize + 8)
      let child = try address(Self.number(body, key + keySize, 8))
      if level > 0 {
        try walk(child, keySize: keySize, depth: depth + 1, into: &chunks)
        continue
      }
      guard let row = Int(exactly: try Self.number(body, key + 8, 8)) else { throw Damaged(description: "a chunk index is damaged") }
      chunks.append(
        Chunk(
          row: row, offset: child, count: Int(try Self.number(body, key, 4)),
          skipped: UInt32(truncatingIfNeeded: try Self.number(body, key + 4, 4))))
    }
  }
}
