import CZlib
import Media
import Model
import Steps

/// A file's bytes, inflated on demand, in constant memory. Serves one thread.
final class Inflater {
  /// Compression container of the bytes.
  enum Container: String, Sendable {
    case gzip, zlib, deflate, none

    fileprivate var windowBits: Int32 {
      switch self {
      case .gzip: 31
      case .zlib: 15
      case .deflate: -15
      case .none: 0
      }
    }
  }

  struct Damaged: Error {
    var message: String
    init(_ message: String) { self.message = message }
  }

  private let slice: FileSlice
  private let container: Container
  private let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
  private let input = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 16)
  private var offset: Int64 = 0
  private var isAtEnd = false
  /// Number of bytes output so far.
  private(set) var position: Int64 = 0
  /// Number of bytes after the end of the compressed data.
  private(set) var trailingBytes: Int64 = 0
  /// Number of gzip members; a gzip file may consist of several, one after another.
  private(set) var members = 1

  init(_ slice: FileSlice, _ container: Container) throws {
    self.slice = slice
    self.container = container
    stream.initialize(to: z_stream())
    guard container == .none || czlib_inflate_init(stream, container.windowBits) == Z_OK else { throw Damaged("out of memory") }
  }

  deinit {
    if container != .none { inflateEnd(stream) }
    stream.deallocate()
    input.deallocate()
  }

  /// Fills the start of `buffer` and returns the number of bytes; fewer than requested only at the end.
  func read(into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
    if container == .none {
      let count = try slice.read(into: buffer, at: position)
      position += Int64(count)
      return count
    }
    var done = 0
    while done < buffer.count, !isAtEnd {
      if stream.pointee.avail_in == 0 { try refill() }
      let room = min(buffer.count - done, 1 << 30)
      stream.pointee.next_out = buffer.baseAddress?.advanced(by: done).assumingMemoryBound(to: UInt8.self)
      stream.pointee.avail_out = UInt32(room)
      let status = inflate(stream, Z_NO_FLUSH)
      done += room - Int(stream.pointee.avail_out)
      switch status {
      case Z_OK: continue
      case Z_STREAM_END: try endMember()
      case Z_BUF_ERROR where stream.pointee.avail_in == 0 && offset < slice.count: continue
      case Z_BUF_ERROR: throw Damaged("the compressed data ends too early, after \(position + Int64(done)) inflated bytes")
      default:
        let words = stream.pointee.msg.map { String(cString: $0) } ?? "error \(status)"
        throw Damaged("the compressed data is damaged after \(position + Int64(done)) inflated bytes: \(words)")
      }
    }
    position += Int64(done)
    return done
  }

  private func refill() throws {
    let count = try slice.read(into: input, at: offset)
    if count == 0, offset < slice.count { throw Damaged("the file became shorter while it was read") }
    offset += Int64(count)
    stream.pointee.next_in = input.baseAddress?.assumingMemoryBound(to: UInt8.self)
    stream.pointee.avail_in = UInt32(count)
  }

  private func endMember() throws {
    if stream.pointee.avail_in == 0, offset < slice.count { try refill() }
    let rest = Int64(stream.pointee.avail_in) + slice.count - offset
    let next = stream.pointee.next_in
    if container == .gzip, stream.pointee.avail_in >= 2, next?[0] == 0x1F, next?[1] == 0x8B {
      members += 1
      inflateReset(stream)
    } else {
      trailingBytes = rest
      isAtEnd = true
    }
  }

  /// Skips everything up to `target`; false when the end comes first.
  func skip(to target: Int64) throws -> Bool {
    try withBuffer(of: 1 << 16) { buffer in
      while position < target {
        let wanted = Int(min(Int64(buffer.count), target - position))
        if try read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])) < wanted { return false }
      }
      return true
    }
  }
}
