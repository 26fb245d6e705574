import Foundation

/// Files and folders that are on the disk when a call returns.
enum DurableFile {
  static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32, _ path: String) throws {
    var rest = bytes
    while !rest.isEmpty {
      let count = Foundation.write(descriptor, rest.baseAddress, rest.count)
      if count < 0 {
        if errno == EINTR { continue }
        throw failure("write", path)
      }
      rest = UnsafeRawBufferPointer(rebasing: rest[count...])
    }
  }

  /// What the system said of the last call, for the log. A full disk is 507, everything else 500.
  static func failure(_ verb: String, _ path: String) -> Failure {
    let code = errno
    let reason = "cannot \(verb) \(path): \(String(cString: strerror(code)))"
    if [ENOSPC, EDQUOT, EFBIG].contains(code) {
      var failure = Failure.insufficientStorage()
      failure.reason = reason
      return failure
    }
    return Failure(.internalServerError, "STORAGE_ERROR", "The upload could not be stored. Try again later.", reason: reason)
  }

  /// Makes the names in a folder durable.
  static func syncFolder(_ path: String) throws {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failure("open", path) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw failure("sync", path) }
  }

  static func makeFolder(_ path: String) throws {
    if mkdir(path, 0o750) != 0, errno != EEXIST { throw failure("create", path) }
  }

  /// Removes a folder and everything in it; what is not there is fine.
  static func removeFolder(_ path: String) {
    try? FileManager.default.removeItem(atPath: path)
  }

  static func rename(_ from: String, to: String) throws {
    guard Foundation.rename(from, to) == 0 else { throw failure("rename", from) }
  }
}
