import HDF5
import Media
import Model
import Rasters
import Steps

/// A shard that cursors open when they need it and close afterwards: a dataset may have more shards than a process may open files.
struct StoredFile: Sendable {
  let path: String
  /// The file's stamp when its structure was read.
  let stamp: FileStamp

  /// Opens the shard as bytes. Throws `FileError`, or `TakeFailure` where it is another file by now.
  func bytes() throws -> FileSlice {
    let file = try InputFile(path)
    try check(file.stamp)
    return try file.slice()
  }

  /// Opens the shard with the library. Throws as `bytes` does, or `HDF5Error`.
  func library() throws -> File {
    try check(FileStamp.of(path))
    return try File.open(path)
  }

  private func check(_ now: FileStamp) throws {
    // A new link to the file changes the time of its inode.
    guard (now.bytes, now.modified, now.inode) == (stamp.bytes, stamp.modified, stamp.inode) else {
      throw TakeFailure(.changedWhileReading, "the shard was changed while it was read", file: path)
    }
  }
}

/// The failure for a sample that could not be read when the dataset was made.
private func lostSample(_ name: String, _ row: Int) -> SampleFailure {
  SampleFailure(finding: Finding(.sampleMissing, "row \(row) of \(name) has no sample in the dataset"))
}

/// Rows of a chunked array, decoded without the library.
struct StoredSamples: SampleSource {
  let file: StoredFile
  /// One chunk for each row.
  let chunks: [FileMap.Chunk]
  let layout: Layout
  let isReadable: [UInt8]
  let name: StreamName

  var access: SampleAccess { .random }

  func makeCursor(_ request: SampleRequest) throws -> any SampleCursor {
    Cursor(source: self, slice: try file.bytes(), decoder: try ChunkDecoder())
  }

  private struct Cursor: SampleCursor {
    let source: StoredSamples
    let slice: FileSlice
    let decoder: ChunkDecoder
    var stored: [UInt8] = []
    var size: ImageSize? {
      source.layout.dims.count == 4 ? ImageSize(width: source.layout.dims[2], height: source.layout.dims[1]) : nil
    }

    mutating func read(_ index: Int, into bytes: inout [UInt8]) throws {
      guard source.isReadable.indices.contains(index), source.isReadable[index] == 1, source.chunks.indices.contains(index) else {
        throw lostSample(source.name.rawValue, index)
      }
      let chunk = source.chunks[index]
      guard chunk.row == index else { throw TakeFailure(.unreadable, "the chunk of row \(index) of \(source.name) is missing") }
      stored.resize(to: chunk.count)
      bytes.resize(to: source.layout.chunkBytes)
      let got = try stored.withUnsafeMutableBytes { try slice.read(into: $0, at: chunk.offset) }
      guard got == chunk.count else { throw TakeFailure(.unreadable, "the shard has become shorter") }
      try stored.withUnsafeBytes { stored in
        try bytes.withUnsafeMutableBytes { try decoder.decode(stored, source.layout, skipped: chunk.skipped, into: $0) }
      }
    }
  }
}

/// Rows of an array in a file that another program has written to, which may be stored in any way: read by the library.
struct RewrittenSamples: SampleSource {
  let file: StoredFile
  /// Path of the array.
  let dataset: String
  let isReadable: [UInt8]
  let size: ImageSize

  var access: SampleAccess { .random }

  func makeCursor(_ request: SampleRequest) throws -> any SampleCursor {
    let library = try file.library()
    return Cursor(source: self, library: library, array: try library.root.dataset(dataset))
  }

  private struct Cursor: SampleCursor {
    let source: RewrittenSamples
    /// Kept open, because closing it would close the array.
    let library: File
    let array: HDF5Array
    var size: ImageSize? { source.size }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      guard source.isReadable.indices.contains(index), source.isReadable[index] == 1 else { throw lostSample(source.dataset, index) }
      bytes = try array.read(rows: index..<(index + 1))
    }
  }
}

/// Rows of an array of JPEG or PNG files.
struct StoredImages: SampleSource {
  let file: StoredFile
  /// Path of the array.
  let dataset: String
  let isReadable: [UInt8]
  let size: ImageSize
  let isPNG: Bool

  var access: SampleAccess { .random }

  func makeCursor(_ request: SampleRequest) throws -> any SampleCursor {
    let reduction = isPNG ? 1 : JPEGDecoder.reduction(from: size, covering: request.minimumSize ?? size)
    let library = try file.library()
    return Cursor(
      source: self, library: library, dataset: try library.root.dataset(dataset), isEncoded: request.form == .encoded, reduction: reduction,
      decoder: try JPEGDecoder())
  }

  private struct Cursor: SampleCursor {
    let source: StoredImages
    /// Kept open, because closing it would close the dataset.
    let library: File
    let dataset: HDF5Array
    let isEncoded: Bool
    let reduction: Int
    let decoder: JPEGDecoder
    var size: ImageSize? { isEncoded ? nil : JPEGDecoder.reduced(source.size, by: reduction) }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      guard source.isReadable.indices.contains(index), source.isReadable[index] == 1 else { throw lostSample("the images", index) }
      let file = try dataset.readSequence(row: index)
      if isEncoded {
        bytes = file
      } else if source.isPNG {
        _ = try file.withUnsafeBytes { try PNG.decode($0, size: source.size, into: &bytes) }
      } else {
        _ = try file.withUnsafeBytes { try decoder.decode($0, reduction: reduction, into: &bytes) }
      }
    }
  }
}
