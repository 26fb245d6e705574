import Foundation
import HDF5
import Media
import Model

/// A closed shard as bytes: read without libhdf5, by the map of its chunks.
struct WrittenShard: Sendable {
  let slice: FileSlice
  let map: FileMap
  var size: Int64 { slice.count }

  /// Throws `FileError`, `TakeFailure` where it is not a regular file, or `FileMap.Damaged`.
  init(_ path: String) throws {
    let file = try InputFile(path)
    let descriptor = dup(file.descriptor)
    guard descriptor >= 0 else { throw FileError("open", path) }
    let slice = FileSlice(descriptor: descriptor, count: file.stamp.bytes)
    self.slice = slice
    map = try FileMap(size: slice.count) { try slice.bytes($0) }
  }

  /// Of every byte that belongs to no chunk, in file order.
  func structureDigest() throws -> Digest {
    let hasher = SHA256()
    try withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 16) { buffer in
      for range in try map.structure() {
        var offset = range.lowerBound
        while offset < range.upperBound {
          let wanted = Int(min(Int64(buffer.count), range.upperBound - offset))
          let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])
          guard try slice.read(into: piece, at: offset) == wanted else { throw FileMap.Damaged(description: "it is shorter than it was") }
          hasher.update(UnsafeRawBufferPointer(piece))
          offset += Int64(wanted)
        }
      }
    }
    return hasher.finish()
  }

  /// Of an array's logical content, read from the file.
  func digest(of path: String, _ layout: Layout) throws -> Digest {
    let hasher = SHA256()
    guard layout.chunk != nil else {
      guard let place = map.whole[path] else { throw FileMap.Damaged(description: "\(path) is missing") }
      hasher.update(try slice.bytes(place.offset..<(place.offset + Int64(place.count))))
      return hasher.finish()
    }
    var rest = layout.dims.reduce(layout.type.size, *)
    try forEachChunk(of: path, layout) { _, chunk in
      hasher.update(UnsafeRawBufferPointer(rebasing: chunk.prefix(rest)))
      rest -= min(rest, chunk.count)
    }
    guard rest == 0 else { throw FileMap.Damaged(description: "chunks of \(path) are missing") }
    return hasher.finish()
  }

  /// Hands the logical bytes of each chunk to `body`, in order of rows.
  ///
  /// - Parameter strict: As for `ChunkDecoder`.
  func forEachChunk(
    of path: String, _ layout: Layout, strict: Bool = false, _ body: (_ row: Int, _ bytes: UnsafeRawBufferPointer) throws -> Void
  ) throws {
    let decoder = try ChunkDecoder()
    var stored: [UInt8] = []
    var logical = [UInt8](repeating: 0, count: layout.chunkBytes)
    for chunk in map.chunks[path] ?? [] {
      stored.resize(to: chunk.count)
      guard try stored.withUnsafeMutableBytes({ try slice.read(into: $0, at: chunk.offset) }) == chunk.count else {
        throw FileMap.Damaged(description: "it is shorter than it was")
      }
      do {
        try stored.withUnsafeBytes { stored in
          try logical.withUnsafeMutableBytes { try decoder.decode(stored, layout, skipped: chunk.skipped, strict: strict, into: $0) }
        }
      } catch let error as HDF5Error {
        throw DamagedChunk(row: chunk.row, reason: error.message)
      }
      try logical.withUnsafeBytes { try body(chunk.row, $0) }
    }
  }

  struct DamagedChunk: Error {
    var row: Int
    var reason: String
  }
}
