import Foundation

/// The right to send one item of a queue, among all processes that share the queue. The system takes it back when a process ends, however
/// that happens, so a killed uploader blocks nothing.
///
/// A lock of the open file description on one byte of a file beside the queue (fcntl, `F_OFD_SETLK`): unlike a process's locks it also
/// excludes other workers of the same process.
final class ItemLock: Sendable {
  private let descriptor: Int32

  // Not imported from the headers: both need _GNU_SOURCE.
  private static let setLock: Int32 = 37

  /// `nil` where another worker holds it. Throws `UploaderProblem` where the file cannot be opened.
  init?(_ item: Int64, file: String) throws {
    descriptor = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw UploaderProblem("cannot open \(file): \(String(cString: strerror(errno)))") }
    var lock = flock()
    lock.l_type = Int16(F_WRLCK)
    lock.l_whence = Int16(SEEK_SET)
    lock.l_start = off_t(item)
    lock.l_len = 1
    guard withUnsafeMutablePointer(to: &lock, { fcntl(descriptor, Self.setLock, $0) }) == 0 else {
      // The descriptor is closed by deinit, which also runs where an initializer fails this late.
      let code = errno
      if code == EAGAIN || code == EACCES { return nil }
      throw UploaderProblem("cannot lock \(file): \(String(cString: strerror(code)))")
    }
  }

  deinit { close(descriptor) }
}
