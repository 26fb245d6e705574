import Foundation

/// The bytes of an open file, or a stretch of it, which can be read at any offset by any thread.
package final class FileSlice: Sendable {
  private let descriptor: Descriptor
  private let start: Int64
  package let count: Int64

  /// A slice of a slice keeps the file open.
  private final class Descriptor: Sendable {
    let number: Int32
    init(_ number: Int32) { self.number = number }
    deinit { close(number) }
  }

  /// - Parameter descriptor: Of a regular file; is closed with the last slice of it.
  package init(descriptor: Int32, count: Int64) {
    self.descriptor = Descriptor(descriptor)
    start = 0
    self.count = count
  }

  private init(_ descriptor: Descriptor, start: Int64, count: Int64) {
    self.descriptor = descriptor
    self.start = start
    self.count = count
  }

  /// The part of this slice that lies in `range`.
  package subscript(range: Range<Int64>) -> FileSlice {
    let clamped = range.clamped(to: 0..<count)
    return FileSlice(descriptor, start: start + clamped.lowerBound, count: Int64(clamped.count))
  }

  /// Reading failed; the system's own words.
  package struct Failure: Error, CustomStringConvertible {
    package var description: String
  }

  /// Fills the start of `buffer` with the bytes from `offset` on, as many as there are, and returns how many.
  package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws -> Int {
    var done = 0
    while done < buffer.count {
      let wanted = Int(min(Int64(buffer.count - done), count - offset - Int64(done)))
      if wanted <= 0 { break }
      let got = pread(descriptor.number, buffer.baseAddress?.advanced(by: done), wanted, off_t(start + offset + Int64(done)))
      if got < 0 {
        if errno == EINTR { continue }
        throw Failure(description: String(cString: strerror(errno)))
      }
      if got == 0 { break }
      done += got
    }
    return done
  }

  /// The bytes of `range`, as many of them as there are. The caller has checked how many these are.
  package func bytes(_ range: Range<Int64>) throws -> [UInt8] {
    let range = range.clamped(to: 0..<count)
    var bytes = [UInt8](repeating: 0, count: range.count)
    let got = try bytes.withUnsafeMutableBytes { try read(into: $0, at: range.lowerBound) }
    bytes.removeLast(bytes.count - got)
    return bytes
  }
}
