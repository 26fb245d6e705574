package import Evidence
import Foundation
import HDF5
import Media
import Model
import Rasters
import Steps

/// A closed shard as bytes: read without libhdf5, by the map of its chunks.
package struct WrittenShard: Sendable {
  let slice: FileSlice
  let map: FileMap
  /// The file's stamp when it was opened.
  let stamp: FileStamp
  var size: Int64 { slice.count }

  /// Throws `FileError`, `TakeFailure` where it is not a regular file, or `FileMap.Damaged`.
  package init(_ path: String) throws {
    try Self.checkFolder(of: path)
    let file = try InputFile(path)
    stamp = file.stamp
    let slice = try file.slice()
    self.slice = slice
    map = try FileMap(size: slice.count) { try slice.bytes($0) }
  }

  /// Throws `FileMap.Damaged` where the folder of a shard is a link, which may lead out of the dataset.
  package static func checkFolder(of path: String) throws {
    let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
    if try Directory.kind(at: folder) == .link { throw FileMap.Damaged(description: "its folder is a symbolic link") }
  }

  /// Whether a text is in the file where the library keeps texts of any length: in a global heap, after its length as 64 bits.
  func holds(_ text: String) throws -> Bool {
    let bytes = withUnsafeBytes(of: UInt64(text.utf8.count).littleEndian) { Array($0) } + Array(text.utf8)
    return try map.structure().contains { range in
      // A heap is short, and so is what lies between chunks.
      guard range.count <= 1 << 26 else { return false }
      return Data(try slice.bytes(range)).range(of: Data(bytes)) != nil
    }
  }

  /// Digest of every byte that belongs to no chunk, in file order.
  package func structureDigest() throws -> Digest {
    let hasher = SHA256()
    try withBuffer(of: 1 << 16) { buffer in
      for range in try map.structure() {
        var offset = range.lowerBound
        while offset < range.upperBound {
          let wanted = Int(min(Int64(buffer.count), range.upperBound - offset))
          let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])
          guard try slice.read(into: piece, at: offset) == wanted else { throw FileMap.Damaged(description: "it has become shorter") }
          hasher.update(UnsafeRawBufferPointer(piece))
          offset += Int64(wanted)
        }
      }
    }
    return hasher.finish()
  }

  /// Digest of an array's logical content, read from the file.
  ///
  /// - Parameter checksums: Checksums of its stored chunks, if these are to be checked.
  func digest(of path: String, _ layout: Layout, checksums: ArraySlice<Int64>? = nil) throws -> Digest {
    let hasher = SHA256()
    guard layout.chunk != nil else {
      guard let place = map.whole[path] else { throw FileMap.Damaged(description: "\(path) is missing") }
      hasher.update(try slice.bytes(place.offset..<(place.offset + Int64(place.count))))
      return hasher.finish()
    }
    var rest = layout.dims.reduce(layout.type.size, *)
    try forEachChunk(of: path, layout, checksums: checksums) { row, chunk in
      switch chunk {
      case .success(let bytes):
        hasher.update(UnsafeRawBufferPointer(rebasing: bytes.prefix(rest)))
        rest -= min(rest, bytes.count)
      case .failure(let error): throw FileMap.Damaged(description: "the chunk from row \(row) on: \(error.message)")
      }
    }
    guard rest == 0 else { throw FileMap.Damaged(description: "chunks of \(path) are missing") }
    return hasher.finish()
  }

  /// Passes the logical bytes of each chunk, or its error, to `body`, in order of rows.
  func forEachChunk(
    of path: String, _ layout: Layout, checksums: ArraySlice<Int64>?,
    _ body: (_ row: Int, _ bytes: Result<UnsafeRawBufferPointer, HDF5Error>) throws -> Void
  ) throws {
    let decoder = try ChunkDecoder()
    var stored: [UInt8] = []
    var logical = [UInt8](repeating: 0, count: layout.chunkBytes)
    for (number, chunk) in (map.chunks[path] ?? []).enumerated() {
      stored.resize(to: chunk.count)
      guard try stored.withUnsafeMutableBytes({ try slice.read(into: $0, at: chunk.offset) }) == chunk.count else {
        throw FileMap.Damaged(description: "it has become shorter")
      }
      let failure = stored.withUnsafeBytes { stored -> HDF5Error? in
        do {
          try logical.withUnsafeMutableBytes { try decoder.decode(stored, layout, skipped: chunk.skipped, into: $0) }
        } catch {
          return error as? HDF5Error
        }
        guard let checksums, number >= checksums.count || checksums[checksums.startIndex + number] != Int64(chunkChecksum(stored)) else {
          return nil
        }
        return HDF5Error(call: "compare", target: path, message: "its stored bytes have changed")
      }
      try logical.withUnsafeBytes { try body(chunk.row, failure.map { .failure($0) } ?? .success($0)) }
    }
  }

  /// Rows whose content does not match their digests, with the reason.
  func changedRows(
    of path: String, _ layout: Layout, digests: [UInt8], checksums: ArraySlice<Int64>?
  ) throws -> [(row: Int, reason: String)] {
    var changed: [(row: Int, reason: String)] = []
    let hasher = SHA256()
    var expected = 0
    try forEachChunk(of: path, layout, checksums: checksums) { row, chunk in
      guard row < layout.dims[0] else { return }
      changed += (expected..<max(expected, row)).map { ($0, "the row is missing") }
      expected = row + 1
      switch chunk {
      case .success(let bytes):
        hasher.update(bytes)
        if hasher.finish() != Digest(bytes: digests[(32 * row)..<(32 * row + 32)]) {
          changed.append((row, "its content has changed"))
        }
      case .failure(let error): changed.append((row, error.message))
      }
    }
    return changed + (min(expected, layout.dims[0])..<layout.dims[0]).map { ($0, "the row is missing") }
  }

  /// The checksums of the stored chunks of each deflated array.
  func checksums(of arrays: [(path: String, layout: Layout)]) throws -> [String: ArraySlice<Int64>] {
    guard let place = map.whole["\(ShardNames.meta)/\(ShardNames.checksums)"] else {
      throw FileMap.Damaged(description: "the checksums of its chunks are missing")
    }
    let all = try slice.bytes(place.offset..<(place.offset + Int64(place.count))).withUnsafeBytes { bytes in
      (0..<(bytes.count / 8)).map { Int64(littleEndian: bytes.loadUnaligned(fromByteOffset: 8 * $0, as: Int64.self)) }
    }
    var (sums, next): ([String: ArraySlice<Int64>], Int) = ([:], 0)
    for array in arrays where array.layout.deflate != nil {
      let end = next + array.layout.chunkCount
      guard end <= all.count else { throw FileMap.Damaged(description: "there are fewer checksums than chunks") }
      sums[array.path] = all[next..<end]
      next = end
    }
    return sums
  }
}

extension WrittenShard {
  /// Whether a file is a shard that Takeset wrote for this episode.
  package static func isShard(_ path: String, of id: String) -> Bool {
    // Nobody has recorded what the file was, so the library must not see it: it may be damaged.
    let times = "\(ShardNames.meta)/\(ShardNames.times)"
    // Of a long take the times are in chunks.
    guard let shard = try? WrittenShard(path), shard.map.whole[times] != nil || shard.map.chunks[times] != nil else { return false }
    return (try? shard.holds(id)) == true
  }
}
