import CZlib
import Model

/// Compression of depth parts.
package enum Deflater {
  /// Deflates `pieces` to the same bytes every time: gzip's time is 0.
  ///
  /// - Parameter windowBits: 31 for gzip, 15 for zlib, -15 for raw deflate.
  package static func deflate(_ pieces: some Sequence<[UInt8]>, windowBits: Int32) -> [UInt8] {
    var stream = z_stream()
    var output: [UInt8] = []
    guard czlib_deflate_init(&stream, 5, windowBits) == Z_OK else { return [] }
    defer { deflateEnd(&stream) }
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    func run(_ flush: Int32) {
      repeat {
        let written = buffer.withUnsafeMutableBufferPointer { buffer in
          stream.next_out = buffer.baseAddress
          stream.avail_out = UInt32(buffer.count)
          CZlib.deflate(&stream, flush)
          return buffer.count - Int(stream.avail_out)
        }
        output += buffer[..<written]
      } while stream.avail_out == 0
    }
    for var piece in pieces {
      piece.withUnsafeMutableBufferPointer { piece in
        stream.next_in = piece.baseAddress
        stream.avail_in = UInt32(piece.count)
        run(Z_NO_FLUSH)
      }
    }
    run(Z_FINISH)
    return output
  }
}
