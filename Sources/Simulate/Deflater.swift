import CZlib
import Model
package import TakesetRecorder

/// Compression of depth parts.
package enum Deflater {
  /// Raw deflate, for the recorder.
  package static let raw: Deflate = { next, write in try deflate(windowBits: -15, next, write) }

  /// Deflates `pieces` to the same bytes every time: gzip's time is 0.
  ///
  /// - Parameter windowBits: 31 for gzip, 15 for zlib, -15 for raw deflate.
  package static func deflate(_ pieces: some Sequence<[UInt8]>, windowBits: Int32) -> [UInt8] {
    var pieces = pieces.makeIterator()
    var output: [UInt8] = []
    deflate(windowBits: windowBits, { pieces.next() }, { output += $0 })
    return output
  }

  private static func deflate(windowBits: Int32, _ next: () throws -> [UInt8]?, _ write: ([UInt8]) throws -> Void) rethrows {
    var stream = z_stream()
    guard czlib_deflate_init(&stream, 5, windowBits) == Z_OK else { return }
    defer { deflateEnd(&stream) }
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    func run(_ piece: inout [UInt8], _ flush: Int32) throws {
      stream.avail_in = UInt32(piece.count)
      try piece.withUnsafeMutableBufferPointer { piece in
        stream.next_in = piece.baseAddress
        repeat {
          let written = buffer.withUnsafeMutableBufferPointer { buffer in
            stream.next_out = buffer.baseAddress
            stream.avail_out = UInt32(buffer.count)
            CZlib.deflate(&stream, flush)
            return buffer.count - Int(stream.avail_out)
          }
          try write(Array(buffer[..<written]))
        } while stream.avail_out == 0
      }
    }
    while var piece = try next() { try run(&piece, Z_NO_FLUSH) }
    var end: [UInt8] = []
    try run(&end, Z_FINISH)
  }

  /// Returns the bytes that gzip has compressed.
  static func inflate(_ bytes: [UInt8]) -> [UInt8] {
    var stream = z_stream()
    var output: [UInt8] = []
    guard czlib_inflate_init(&stream, 31) == Z_OK else { return [] }
    defer { inflateEnd(&stream) }
    var bytes = bytes
    var buffer = [UInt8](repeating: 0, count: 1 << 20)
    bytes.withUnsafeMutableBufferPointer { bytes in
      stream.next_in = bytes.baseAddress
      stream.avail_in = UInt32(bytes.count)
      var status = Z_OK
      while status == Z_OK {
        buffer.withUnsafeMutableBufferPointer { buffer in
          stream.next_out = buffer.baseAddress
          stream.avail_out = UInt32(buffer.count)
          status = CZlib.inflate(&stream, Z_NO_FLUSH)
        }
        output += buffer[..<(buffer.count - Int(stream.avail_out))]
      }
    }
    return output
  }
}
