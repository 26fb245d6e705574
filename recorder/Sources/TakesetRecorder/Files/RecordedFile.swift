import Foundation

/// A file of a recording that is read. Recordings come from elsewhere, so a link, pipe or device is refused without being waited for.
///
/// All errors are `RecordingError`s: what the system cannot read is never taken for something that was not recorded.
final class RecordedFile {
  let path: String
  /// Bytes when it was opened.
  let count: UInt64
  private let descriptor: FileDescriptor

  init(_ path: String) throws {
    guard let descriptor = FileDescriptor(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) else {
      throw errno == ELOOP ? Self.isNoFile(path) : Self.damage("cannot be opened", path)
    }
    var status = stat()
    guard fstat(descriptor.number, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { throw Self.isNoFile(path) }
    (self.path, self.descriptor, count) = (path, descriptor, UInt64(max(status.st_size, 0)))
  }

  /// Up to `limit` bytes from a place; fewer at the end only.
  func read(at start: UInt64, upTo limit: Int) throws -> [UInt8] {
    var failure: RecordingError?
    let bytes = [UInt8](unsafeUninitializedCapacity: limit) { buffer, filled in
      while filled < limit {
        let got = pread(descriptor.number, buffer.baseAddress.map { $0 + filled }, limit - filled, off_t(start) + off_t(filled))
        if got < 0, errno == EINTR { continue }
        if got < 0 { failure = Self.damage("cannot be read", path) }
        if got <= 0 { break }
        filled += got
      }
    }
    if let failure { throw failure }
    return bytes
  }

  /// The bytes of a range, in parts of 1 MiB. Throws where the file has become shorter.
  func read(_ range: Range<UInt64>, _ use: ([UInt8]) throws -> Void) throws {
    var start = range.lowerBound
    while start < range.upperBound {
      let part = try read(at: start, upTo: Int(min(range.upperBound - start, 1 << 20)))
      guard !part.isEmpty else { throw RecordingError(path: path, reason: "it became shorter while it was read") }
      try use(part)
      start += UInt64(part.count)
    }
  }

  /// All bytes of a file that may not be larger than `limit`.
  static func all(of path: String, limit: Int) throws -> [UInt8] {
    let file = try RecordedFile(path)
    guard file.count <= limit else {
      throw RecordingError(path: path, reason: "it has \(file.count) bytes; expected \(limit) or fewer", isDamage: true)
    }
    return try file.read(at: 0, upTo: Int(file.count))
  }

  private static func isNoFile(_ path: String) -> RecordingError {
    RecordingError(path: path, reason: "it is no regular file; links, pipes and devices are not read", isDamage: true)
  }

  private static func damage(_ action: String, _ path: String) -> RecordingError {
    var error = RecordingError.system(action, path)
    error.isDamage = true
    return error
  }
}
