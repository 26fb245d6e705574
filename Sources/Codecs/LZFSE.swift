/// Apple's LZFSE, of which this decodes what phones write: blocks of entropy-coded matches (`bvx2`) and stored ones (`bvx-`).
///
/// The format is that of Apple's reference implementation (https://github.com/lzfse/lzfse): integers are little-endian, a stream is blocks up to
/// the mark `bvx$`. Every count, state and distance of the input is checked before it is used.
package enum LZFSE {
  /// A stream that cannot be decoded, with the reason as the end of a sentence about it.
  package struct Failure: Error, Equatable, CustomStringConvertible {
    package let description: String
    init(_ description: String) { self.description = description }
  }

  /// Replaces `output` with the decoded stream.
  ///
  /// - Parameter count: Number of bytes that the stream must decode to, which also limits the memory.
  /// - Throws: `Failure` for a damaged stream, one of another length, and the kinds of blocks that only old or other encoders write.
  package static func decode(_ input: UnsafeRawBufferPointer, count: Int, into output: inout [UInt8]) throws(Failure) {
    if output.count != count { output = [UInt8](repeating: 0, count: count) }
    try output.withUnsafeMutableBufferPointer { output throws(Failure) in
      try decode(input, into: UnsafeMutableRawBufferPointer(output))
    }
  }

  /// Number of bytes that the headers of a stream's blocks announce; `nil` for a damaged stream and for blocks that are not read.
  package static func decodedCount(_ input: UnsafeRawBufferPointer) -> Int? {
    var (position, count) = (0, 0)
    while position + 4 <= input.count {
      switch input.loadUnaligned(fromByteOffset: position, as: UInt32.self).littleEndian {
      case mark("bvx$"): return count
      case mark("bvx-"):
        guard position + 8 <= input.count else { return nil }
        let size = Int(input.loadUnaligned(fromByteOffset: position + 4, as: UInt32.self).littleEndian)
        (position, count) = (position + 8 + size, count + size)
      case mark("bvx2"):
        guard let header = try? BlockHeader(UnsafeRawBufferPointer(rebasing: input[position...])) else { return nil }
        (position, count) = (position + header.size + header.payloadBytes, count + header.count)
      default: return nil
      }
    }
    return nil
  }

  private static func decode(_ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer) throws(Failure) {
    var position = 0
    var written = 0
    let scratch = BlockScratch()
    while true {
      guard position + 4 <= input.count else { throw Failure("the stream ends without its end mark") }
      let magic = input.loadUnaligned(fromByteOffset: position, as: UInt32.self).littleEndian
      switch magic {
      case Self.mark("bvx$"):
        guard written == output.count else { throw Failure("the stream holds \(written) bytes; expected \(output.count)") }
        return
      case Self.mark("bvx-"):
        guard position + 8 <= input.count else { throw Failure("a stored block ends in its header") }
        let count = Int(input.loadUnaligned(fromByteOffset: position + 4, as: UInt32.self).littleEndian)
        guard count <= input.count - position - 8 else { throw Failure("a stored block of \(count) bytes ends early") }
        guard count <= output.count - written else { throw Failure("the stream holds more than \(output.count) bytes") }
        UnsafeMutableRawBufferPointer(rebasing: output[written..<(written + count)])
          .copyMemory(from: UnsafeRawBufferPointer(rebasing: input[(position + 8)..<(position + 8 + count)]))
        position += 8 + count
        written += count
      case Self.mark("bvx2"):
        let header = try BlockHeader(UnsafeRawBufferPointer(rebasing: input[position...]))
        guard header.count <= output.count - written else { throw Failure("the stream holds more than \(output.count) bytes") }
        let block = UnsafeRawBufferPointer(rebasing: input[position..<(position + header.size + header.payloadBytes)])
        try scratch.decode(block, header, into: output, from: written)
        position += header.size + header.payloadBytes
        written += header.count
      case Self.mark("bvxn"): throw Failure("a block is LZVN, which is not read; phones write it for less than 4096 bytes only")
      case Self.mark("bvx1"): throw Failure("a block has uncompressed tables (bvx1), which only old encoders write")
      default: throw Failure("byte \(position) begins no LZFSE block")
      }
    }
  }

  private static func mark(_ text: StaticString) -> UInt32 {
    text.withUTF8Buffer { UInt32($0[0]) | UInt32($0[1]) << 8 | UInt32($0[2]) << 16 | UInt32($0[3]) << 24 }
  }
}
