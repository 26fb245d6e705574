import Foundation

/// A byte range of an open file, or all of it, readable at any offset from any thread.
package final class FileSlice: Sendable {
  /// Fills the start of a buffer with the bytes from an offset on, as many as one call gives, and returns the count; 0 at the end.
  package typealias Read = @Sendable (_ buffer: UnsafeMutableRawBufferPointer, _ offset: Int64) throws -> Int

  private let read: Read
  private let start: Int64
  package let count: Int64

  /// The shared file descriptor: a slice of a slice keeps the file open.
  private final class Descriptor: Sendable {
    let number: Int32
    init(_ number: Int32) { self.number = number }
    deinit { close(number) }
  }

  /// `descriptor`: Descriptor of a regular file; closed with its last slice.
  package convenience init(descriptor: Int32, count: Int64) {
    let descriptor = Descriptor(descriptor)
    self.init(count: count) { buffer, offset in
      while true {
        let got = pread(descriptor.number, buffer.baseAddress, buffer.count, off_t(offset))
        if got >= 0 { return got }
        if errno != EINTR { throw Failure(description: String(cString: strerror(errno))) }
      }
    }
  }

  /// Bytes from a source other than a file.
  package convenience init(count: Int64, read: @escaping Read) { self.init(read, start: 0, count: count) }

  private init(_ read: @escaping Read, start: Int64, count: Int64) {
    (self.read, self.start, self.count) = (read, start, count)
  }

  /// The bytes of this slice that lie in `range`.
  package subscript(range: Range<Int64>) -> FileSlice {
    let clamped = range.clamped(to: 0..<count)
    return FileSlice(read, start: start + clamped.lowerBound, count: Int64(clamped.count))
  }

  /// A failed read, described with the system's message.
  package struct Failure: Error, CustomStringConvertible {
    package var description: String
    package init(description: String) { self.description = description }
  }

  /// Fills the start of `buffer` with the bytes from `offset` on, up to the end of the slice, and returns the count.
  package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws -> Int {
    var done = 0
    while done < buffer.count {
      let wanted = Int(min(Int64(buffer.count - done), count - offset - Int64(done)))
      if wanted <= 0 { break }
      let got = try read(UnsafeMutableRawBufferPointer(rebasing: buffer[done..<(done + wanted)]), start + offset + Int64(done))
      if got == 0 { break }
      done += got
    }
    return done
  }

  /// The bytes of `range` that exist. The caller has checked that the count is reasonable.
  package func bytes(_ range: Range<Int64>) throws -> [UInt8] {
    let range = range.clamped(to: 0..<count)
    var bytes = [UInt8](repeating: 0, count: range.count)
    let got = try bytes.withUnsafeMutableBytes { try read(into: $0, at: range.lowerBound) }
    bytes.removeLast(bytes.count - got)
    return bytes
  }
}
