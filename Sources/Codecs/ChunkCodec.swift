import CDeflate
import CLZ4
import CZstd

/// A compression of a chunk as a whole, whose size is known: the frames of LZ4 and of Zstandard.
package enum ChunkCodec: String, Sendable {
  case lz4, zstd

  package struct Failure: Error, CustomStringConvertible {
    package var description: String
  }

  /// Returns the contents of a chunk.
  ///
  /// - Parameter count: Their size, which the caller has limited. Nothing larger is ever allocated.
  /// - Throws: `Failure` where the data are damaged, or are of another size.
  package func decompress(_ bytes: UnsafeRawBufferPointer, count: Int) throws -> [UInt8] {
    try [UInt8](unsafeUninitializedCapacity: count) { output, done in
      done = try decompress(bytes, into: UnsafeMutableRawBufferPointer(output))
      guard done == count else { throw Failure(description: "it has \(done) bytes, where \(count) are listed") }
    }
  }

  private func decompress(_ bytes: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer) throws -> Int {
    switch self {
    case .zstd:
      let got = ZSTD_decompress(output.baseAddress, output.count, bytes.baseAddress, bytes.count)
      guard ZSTD_isError(got) == 0 else { throw Failure(description: String(cString: ZSTD_getErrorName(got))) }
      return got
    case .lz4:
      var context: OpaquePointer?
      guard LZ4F_isError(LZ4F_createDecompressionContext(&context, UInt32(LZ4F_VERSION))) == 0 else {
        throw Failure(description: "out of memory")
      }
      defer { LZ4F_freeDecompressionContext(context) }
      var (read, written) = (0, 0)
      while true {
        var (taken, made) = (bytes.count - read, output.count - written)
        // An empty buffer has no address.
        let target = made == 0 ? output.baseAddress : output.baseAddress?.advanced(by: written)
        let hint = LZ4F_decompress(context, target, &made, bytes.baseAddress?.advanced(by: read), &taken, nil)
        guard LZ4F_isError(hint) == 0 else { throw Failure(description: String(cString: LZ4F_getErrorName(hint))) }
        (read, written) = (read + taken, written + made)
        // Another frame may follow.
        if hint == 0, read == bytes.count { return written }
        guard taken > 0 || made > 0 else {
          throw Failure(description: written == output.count ? "it has more bytes than are listed" : "it is cut off")
        }
      }
    }
  }

  /// Returns the bytes as one frame. Throws `Failure`.
  package func compress(_ bytes: [UInt8]) throws -> [UInt8] {
    let bound = self == .zstd ? ZSTD_compressBound(bytes.count) : LZ4F_compressFrameBound(bytes.count, nil)
    return try [UInt8](unsafeUninitializedCapacity: bound) { output, count in
      count = bytes.withUnsafeBytes { bytes in
        self == .zstd
          ? ZSTD_compress(output.baseAddress, bound, bytes.baseAddress, bytes.count, ZSTD_CLEVEL_DEFAULT)
          : LZ4F_compressFrame(output.baseAddress, bound, bytes.baseAddress, bytes.count, nil)
      }
      let isError = self == .zstd ? ZSTD_isError(count) : LZ4F_isError(count)
      guard isError == 0 else { throw Failure(description: "it cannot be compressed") }
    }
  }

  /// CRC-32 as in zip and PNG files, which continues that of the bytes before.
  package static func checksum(_ bytes: UnsafeRawBufferPointer, after before: UInt32 = 0) -> UInt32 {
    libdeflate_crc32(before, bytes.baseAddress, bytes.count)
  }
}
