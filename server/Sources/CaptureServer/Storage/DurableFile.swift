import Foundation
import Synchronization

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

  /// Returns the system's error of the last call, for the log. A full disk is 507, everything else 500.
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

  private static let removal = Mutex(())

  /// Removes a folder and everything in it; what is not there is fine. One at a time: of two tasks that remove the same folder, one would
  /// stop at a file that the other has removed, and return while there still is a folder.
  static func removeFolder(_ path: String) {
    removal.withLock { _ in try? FileManager.default.removeItem(atPath: path) }
  }

  /// Makes a folder and those above it, which are on the disk when it returns.
  static func makeFolders(_ path: String) throws {
    if access(path, F_OK) == 0 { return }
    var above = URL(fileURLWithPath: path).deletingLastPathComponent()
    while access(above.path, F_OK) != 0, above.path != "/" { above.deleteLastPathComponent() }
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o750])
    var made = URL(fileURLWithPath: path)
    while made != above, made.path != "/" {
      made.deleteLastPathComponent()
      try syncFolder(made.path)
    }
  }

  static func rename(_ from: String, to: String) throws {
    guard Foundation.rename(from, to) == 0 else { throw failure("rename", from) }
  }

  /// Moves a folder, which may come from another file system. Its files are on the disk when it returns.
  static func move(_ from: String, to: String) throws {
    if Foundation.rename(from, to) == 0 { return }
    guard errno == EXDEV else { throw failure("rename", from) }
    try copyFolder(from, to: to)
    removeFolder(from)
  }

  private static func copyFolder(_ from: String, to: String) throws {
    try makeFolder(to)
    for name in try FileManager.default.contentsOfDirectory(atPath: from) {
      let (source, target) = (from + "/" + name, to + "/" + name)
      var status = stat()
      guard lstat(source, &status) == 0 else { throw failure("examine", source) }
      if status.st_mode & S_IFMT == S_IFDIR { try copyFolder(source, to: target) } else { try copy(source, to: target) }
    }
    try syncFolder(to)
  }

  /// A second name for the same bytes, or, where the file system knows no such thing, a copy of them.
  static func link(_ path: String, to other: String) throws {
    if Foundation.link(path, other) == 0 { return }
    guard [EPERM, EOPNOTSUPP, EMLINK, EXDEV].contains(errno) else { throw failure("link", path) }
    try copy(path, to: other)
  }

  /// A copy that is on the disk when it returns.
  private static func copy(_ path: String, to other: String) throws {
    let source = open(path, O_RDONLY | O_CLOEXEC)
    guard source >= 0 else { throw failure("open", path) }
    defer { close(source) }
    try copy(source, path, to: other)
  }

  /// The same of a file that is open, and stays so. `other` must not be there.
  static func copy(_ source: Int32, _ path: String, to other: String) throws {
    let target = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o640)
    guard target >= 0 else { throw failure("create", other) }
    defer { close(target) }
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    var offset: off_t = 0
    while true {
      let count = pread(source, &bytes, bytes.count, offset)
      if count < 0 { throw failure("read", path) }
      if count == 0 { break }
      offset += off_t(count)
      try bytes.withUnsafeBytes { try write(UnsafeRawBufferPointer(rebasing: $0[..<count]), to: target, other) }
    }
    guard fsync(target) == 0 else { throw failure("sync", other) }
  }

  /// Bytes of a file; 0 where it is not there.
  static func size(_ path: String) -> Int64 {
    var status = stat()
    return stat(path, &status) == 0 ? Int64(status.st_size) : 0
  }

  /// Bytes that this process may still write to the file system of a folder; 0 where it is not there.
  static func freeBytes(_ path: String) -> Int64 {
    var status = statvfs()
    guard statvfs(path, &status) == 0 else { return 0 }
    let (free, isTooLarge) = Int64(clamping: status.f_bavail).multipliedReportingOverflow(by: Int64(clamping: status.f_frsize))
    return isTooLarge ? .max : free
  }
}
