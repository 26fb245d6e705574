import Codecs
import Evidence
import Media
import Model
import Steps
import Synchronization

/// The place of a message's data, or of a part of it.
struct MessagePlace: Sendable {
  /// The chunk whose records it is among; -1 for a message outside of chunks.
  var chunk: Int32
  var file: Int32
  /// In the records of the chunk, or else in the file.
  var offset: Int64
  var count: Int
  /// Whether it is a message in JSON, which has its data as Base64.
  var isText = false

  func part(_ range: Range<Int>) -> MessagePlace {
    MessagePlace(chunk: chunk, file: file, offset: offset + Int64(range.lowerBound), count: range.count)
  }
}

/// The MCAP files of a recording, read once from front to back, and then message by message at any place, by any thread.
///
/// Files are read without their index, so that one that was never finished is read like any other, to its last whole chunk.
final class MCAPLog: Sendable {
  /// A message while the recording is read.
  struct Message {
    var file: Int
    var channel: UInt16
    var logged: UInt64
    var data: UnsafeRawBufferPointer
    var place: MessagePlace
  }

  /// What records beside the messages say.
  enum Definition {
    case library(String)
    case schema(MCAPRecord.Schema)
    case channel(MCAPRecord.Channel)
    case metadata(MCAPRecord.Metadata)
  }

  struct File: Sendable {
    var path: String
    var entry: Int
    var slice: FileSlice
  }

  /// A chunk's records as they are stored.
  struct Chunk {
    var file: Int32
    var offset: Int64
    var stored: Int
    /// Bytes of the records.
    var count: Int
    var codec: ChunkCodec?
  }

  /// What is read at most.
  struct Limits {
    /// Bytes of a chunk or record.
    var chunk: Int
    /// Bytes of all chunks together after they are decompressed.
    var total: Int64
  }

  let inputs: TakeInputs
  let files: [File]
  let limits: Limits
  private let chunks = Mutex<[Chunk]>([])
  /// The chunks that were decompressed last, the newest at the end.
  private let recent = Mutex<[(chunk: Int32, records: [UInt8])]>([])
  /// The chunks that are kept: two, or more where they are small, because topics may be recorded at other times than they have.
  private static let (kept, keptBytes) = (2, 64 << 20)

  /// - Parameter paths: In the order of the recording.
  init(_ paths: [String], in inputs: TakeInputs, _ limits: Limits) throws {
    (self.inputs, self.limits) = (inputs, limits)
    files = try paths.map { path in
      guard let entry = inputs.index(of: path) else {
        throw TakeFailure(.recordingInvalid, "the recording's metadata.yaml names it, and there is no such file", file: path)
      }
      return File(path: path, entry: entry, slice: try inputs.slice(entry))
    }
  }

  /// Reads all files; notes damage and missing ends.
  ///
  /// - Throws: `TakeFailure` where a file is none of the format, or something is over a limit.
  func read(_ notes: FindingCollector, define: (Int, Definition) -> Void, message: (Message) -> Void) throws {
    var total: Int64 = 0
    for number in files.indices {
      var pass = try naming(files[number].path) { try MCAPPass(self, number, notes) }
      try naming(files[number].path) { try pass.run(&total, define, message) }
    }
  }

  func add(_ chunk: Chunk) -> Int32 {
    chunks.withLock { chunks in
      chunks.append(chunk)
      return Int32(clamping: chunks.count - 1)
    }
  }

  // MARK: Any place

  /// Replaces `bytes` with those at a place that was found before. Throws `FileSlice.Failure`, `MessageFault` or `ChunkCodec.Failure`.
  func read(_ place: MessagePlace, into bytes: inout [UInt8]) throws {
    guard place.chunk >= 0 else { return try read(place.file, at: place.offset, place.count, into: &bytes) }
    let chunk = chunks.withLock { $0[Int(place.chunk)] }
    guard let codec = chunk.codec else {
      return try read(place.file, at: chunk.offset + place.offset, place.count, into: &bytes)
    }
    let range = Int(place.offset)..<(Int(place.offset) + place.count)
    // Threads that need the same chunk wait for the one that decompresses it.
    try recent.withLock { recent in
      if let index = recent.firstIndex(where: { $0.chunk == place.chunk }) {
        bytes = Array(recent[index].records[range])
        return
      }
      var stored: [UInt8] = []
      try read(chunk.file, at: chunk.offset, chunk.stored, into: &stored)
      let records = try stored.withUnsafeBytes { try codec.decompress($0, count: chunk.count) }
      bytes = Array(records[range])
      recent.append((place.chunk, records))
      while recent.count > Self.kept, recent.reduce(0, { $0 + $1.records.count }) > Self.keptBytes { recent.removeFirst() }
    }
  }

  private func read(_ file: Int32, at offset: Int64, _ count: Int, into bytes: inout [UInt8]) throws {
    if bytes.count != count { bytes = [UInt8](repeating: 0, count: count) }
    let got = try bytes.withUnsafeMutableBytes { try files[Int(file)].slice.read(into: $0, at: offset) }
    guard got == count else { throw MessageFault("the file ends in it") }
  }

  /// The place among the take's files: of a compressed chunk, its stored bytes.
  func origin(of place: MessagePlace, _ number: Int) throws -> SampleOrigin {
    var origin = try InputOrigin(inputs: inputs, entry: files[Int(place.file)].entry)()
    origin.record = SampleOrigin.Record(.message, number)
    guard place.chunk >= 0 else {
      origin.range = place.offset..<(place.offset + Int64(place.count))
      return origin
    }
    let chunk = chunks.withLock { $0[Int(place.chunk)] }
    if let codec = chunk.codec {
      origin.part = SampleOrigin.Part(name: "chunk", range: chunk.offset..<(chunk.offset + Int64(chunk.stored)))
      origin.compression = codec.rawValue
      origin.range = place.offset..<(place.offset + Int64(place.count))
    } else {
      origin.range = (chunk.offset + place.offset)..<(chunk.offset + place.offset + Int64(place.count))
    }
    return origin
  }
}

extension MCAPLog {
  /// The place of a message by its number among those of its topic; reads the files up to it.
  func origin(ofMessage number: Int, on topic: String) throws -> SampleOrigin? {
    var channels: [Int: Set<UInt16>] = [:]
    var (count, found): (Int, MessagePlace?) = (0, nil)
    // A log of its own, whose chunks are not added to those of this one.
    let log = try MCAPLog(files.map(\.path), in: inputs, limits)
    try log.read(FindingCollector()) { file, definition in
      if case .channel(let channel) = definition, channel.topic == topic { channels[file, default: []].insert(channel.id) }
    } message: { message in
      guard channels[message.file]?.contains(message.channel) ?? false else { return }
      if count == number { found = message.place }
      count += 1
    }
    return try found.map { try log.origin(of: $0, number) }
  }
}
