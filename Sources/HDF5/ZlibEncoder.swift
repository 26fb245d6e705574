import CDeflate

/// A compressor to zlib streams (RFC 1950) with libdeflate, as any zlib inflates them. One encoder serves one thread.
package final class ZlibEncoder {
  private let compressor: OpaquePointer

  /// - Parameter level: 1 (fastest) to 9.
  package init(level: Int) throws {
    guard let compressor = libdeflate_alloc_compressor(Int32(level)) else {
      throw HDF5Error(call: "libdeflate_alloc_compressor", target: "level \(level)", message: "out of memory")
    }
    self.compressor = compressor
  }

  deinit { libdeflate_free_compressor(compressor) }

  /// Returns the bytes as one zlib stream (RFC 1950). It may be longer than they are.
  package func encode(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
    let bound = libdeflate_zlib_compress_bound(compressor, bytes.count)
    return [UInt8](unsafeUninitializedCapacity: bound) { output, count in
      count = libdeflate_zlib_compress(compressor, bytes.baseAddress, bytes.count, output.baseAddress, output.count)
    }
  }
}
