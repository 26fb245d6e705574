import CDeflate

/// A decoder of stored chunks to their logical bytes, outside libhdf5 and on the caller's thread. One decoder serves one thread.
package final class ChunkDecoder {
  private let decompressor: OpaquePointer
  private var shuffled: [UInt8] = []

  package init() throws {
    guard let decompressor = libdeflate_alloc_decompressor() else {
      throw HDF5Error(call: "libdeflate_alloc_decompressor", target: "chunk", message: "out of memory")
    }
    self.decompressor = decompressor
  }

  deinit { libdeflate_free_decompressor(decompressor) }

  /// Decodes a chunk into `output`, which has the length of a complete chunk.
  ///
  /// `skipped`: Bit i set means that filter i of the layout was not applied.
  package func decode(
    _ stored: UnsafeRawBufferPointer, _ layout: Layout, skipped: UInt32, into output: UnsafeMutableRawBufferPointer
  ) throws {
    func damaged(_ message: String) -> HDF5Error { HDF5Error(call: "inflate", target: "chunk", message: message) }
    let deflateBit: UInt32 = layout.shuffles ? 0b10 : 0b1
    let isDeflated = layout.deflate != nil && skipped & deflateBit == 0
    let isShuffled = layout.shuffles && skipped & 0b1 == 0
    guard isShuffled || isDeflated else {
      guard stored.count == output.count else { throw damaged("it has \(stored.count) bytes, expected \(output.count)") }
      return output.copyMemory(from: stored)
    }
    guard isShuffled else { return try inflate(stored, into: output) }
    if !isDeflated {
      guard stored.count == output.count else { throw damaged("it has \(stored.count) bytes, expected \(output.count)") }
      return unshuffle(stored, elementSize: layout.type.size, into: output)
    }
    if shuffled.count != output.count { shuffled = [UInt8](repeating: 0, count: output.count) }
    try shuffled.withUnsafeMutableBytes { try inflate(stored, into: $0) }
    shuffled.withUnsafeBytes { unshuffle($0, elementSize: layout.type.size, into: output) }
  }

  private func inflate(_ stored: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer) throws {
    var used = 0
    let status = libdeflate_zlib_decompress_ex(decompressor, stored.baseAddress, stored.count, output.baseAddress, output.count, &used, nil)
    guard status == LIBDEFLATE_SUCCESS, used == stored.count else {
      throw HDF5Error(call: "inflate", target: "chunk", message: "its compressed data are damaged")
    }
  }
}

/// Restores byte k of every element from plane k, the inverse of `shuffle`.
func unshuffle(_ source: UnsafeRawBufferPointer, elementSize: Int, into target: UnsafeMutableRawBufferPointer) {
  let count = source.count / elementSize
  for plane in 0..<elementSize {
    for index in 0..<count { target[index * elementSize + plane] = source[plane * count + index] }
  }
}
