import Foundation

/// A failure of a recording's files, with the path and the system's reason.
public struct RecordingError: Error, Equatable, CustomStringConvertible {
  public var path: String
  public var reason: String
  /// The disk is full, or a limit of the file's size is reached.
  public var isFull = false
  /// Whether the recording itself cannot be read: nothing can be made of it.
  public var isDamage = false
  /// Another process records or recovers it.
  public var isBusy = false

  public var description: String { "\(path): \(reason)" }

  static func system(_ action: String, _ path: String, _ code: Int32 = errno) -> RecordingError {
    RecordingError(path: path, reason: "\(action): \(String(cString: strerror(code)))", isFull: [ENOSPC, EDQUOT, EFBIG].contains(code))
  }
}

/// A file's descriptor, which is closed after its last use.
final class FileDescriptor: Sendable {
  let number: Int32

  /// `nil` where the file cannot be opened; `errno` says why.
  init?(_ path: String, _ flags: Int32) {
    let opened = open(path, flags | O_CLOEXEC, 0o644)
    guard opened >= 0 else { return nil }
    number = opened
  }

  deinit { close(number) }

  /// Waits until the file's bytes are on the disk. Returns whether they are.
  func sync() -> Bool { fsync(number) == 0 }
}

/// A file that is written from front to back.
final class AppendedFile {
  let path: String
  let descriptor: FileDescriptor
  private(set) var count: UInt64 = 0
  /// A part of a write is in the file and could not be removed: nothing may follow it.
  private var isTorn = false

  /// Creates the file, which must not exist.
  init(creating path: String) throws {
    self.path = path
    guard let descriptor = FileDescriptor(path, O_WRONLY | O_CREAT | O_EXCL) else { throw RecordingError.system("cannot be created", path) }
    self.descriptor = descriptor
  }

  /// Appends bytes with one write where the system takes them at once. Where it does not take all, the file is as before.
  ///
  /// - Parameter end: The file's last bytes, in place of which the new ones are written.
  func append(_ bytes: UnsafeRawBufferPointer, over end: [UInt8] = []) throws {
    guard !isTorn else { throw RecordingError(path: path, reason: "a write before this one is incomplete") }
    let start = count - UInt64(end.count)
    if let code = write(bytes, at: start) {
      // What comes later must not follow a part. The old end fits where it was, also on a full disk.
      isTorn = end.withUnsafeBytes { write($0, at: start) } != nil || ftruncate(descriptor.number, off_t(count)) != 0
      throw RecordingError.system("cannot be written", path, code)
    }
    count = start + UInt64(bytes.count)
  }

  func append(_ bytes: [UInt8], over end: [UInt8] = []) throws { try bytes.withUnsafeBytes { try append($0, over: end) } }

  private func write(_ bytes: UnsafeRawBufferPointer, at start: UInt64) -> Int32? {
    Files.writeAll(bytes, at: start) { pwrite(descriptor.number, $0.baseAddress, $0.count, $1) }
  }

  /// Waits until the bytes are on the disk.
  func sync() throws {
    guard descriptor.sync() else { throw RecordingError.system("cannot be synced", path) }
  }
}

/// Tells other processes that a folder is in use, until its last use or the end of this process.
final class FolderLock {
  private let descriptor: FileDescriptor?

  /// `nil` where another process holds it. A folder that cannot be locked counts as free.
  init?(_ path: String) {
    descriptor = FileDescriptor(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    if let descriptor, flock(descriptor.number, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK { return nil }
  }
}

enum Files {
  /// Writes a file under a temporary name, syncs it and renames it, so that its name has all of it or nothing.
  static func write(_ bytes: [UInt8], to path: String) throws { try write(to: path) { try $0.append(bytes) } }

  static func write(to path: String, _ fill: (AppendedFile) throws -> Void) throws {
    let temporary = temporary(path)
    unlink(temporary)
    let file = try AppendedFile(creating: temporary)
    try fill(file)
    try file.sync()
    guard rename(temporary, path) == 0 else { throw RecordingError.system("cannot be renamed", temporary) }
  }

  static func temporary(_ path: String) -> String { path + ".part" }

  /// Writes bytes from a place on, in as many writes as the system needs.
  ///
  /// - Parameter put: As `pwrite`: it returns how many bytes it has written, or -1 and `errno`.
  /// - Returns: The system's error; `nil` where all bytes are written.
  static func writeAll(_ bytes: UnsafeRawBufferPointer, at start: UInt64, _ put: (UnsafeRawBufferPointer, off_t) -> Int) -> Int32? {
    var done = 0
    while done < bytes.count {
      let written = put(UnsafeRawBufferPointer(rebasing: bytes[done...]), off_t(start) + off_t(done))
      if written < 0, errno == EINTR { continue }
      guard written > 0 else { return written < 0 ? errno : ENOSPC }
      done += written
    }
    return nil
  }

  /// Makes the names in a folder durable.
  static func syncFolder(_ path: String) throws {
    guard let descriptor = FileDescriptor(path, O_RDONLY | O_DIRECTORY) else { throw RecordingError.system("cannot be opened", path) }
    guard descriptor.sync() else { throw RecordingError.system("cannot be synced", path) }
  }

  static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }
}
