import Foundation

/// A failure of a recording's files, with the path and the system's reason.
public struct RecordingError: Error, Equatable, CustomStringConvertible {
  public var path: String
  public var reason: String
  /// The disk is full, or a limit of the file's size is reached.
  public var isFull = false
  /// What was recorded cannot be read: nothing can be made of it.
  public var isDamage = false
  /// Another process records or recovers it.
  public var isBusy = false

  public var description: String { "\(path): \(reason)" }

  static func system(_ action: String, _ path: String, _ code: Int32 = errno) -> RecordingError {
    RecordingError(path: path, reason: "\(action): \(String(cString: strerror(code)))", isFull: [ENOSPC, EDQUOT, EFBIG].contains(code))
  }
}

/// A file that is written from front to back.
final class AppendedFile {
  let path: String
  private let descriptor: Int32
  private(set) var count: UInt64
  /// A part of a write is in the file and could not be removed: nothing may follow it.
  private var isTorn = false

  /// Creates the file, which must not exist.
  init(creating path: String) throws {
    self.path = path
    descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw RecordingError.system("cannot be created", path) }
    count = 0
  }

  deinit { close(descriptor) }

  /// Appends bytes with one write where the system takes them at once. Where it does not take all, the file is as before.
  func append(_ bytes: UnsafeRawBufferPointer) throws {
    guard !isTorn else { throw RecordingError(path: path, reason: "a write before this one is incomplete") }
    var rest = bytes
    while !rest.isEmpty {
      let written = write(descriptor, rest.baseAddress, rest.count)
      if written < 0, errno == EINTR { continue }
      guard written > 0 else {
        let error = RecordingError.system("cannot be written", path)
        // What comes later must not follow a part.
        isTorn = ftruncate(descriptor, off_t(count)) != 0
        throw error
      }
      rest = UnsafeRawBufferPointer(rebasing: rest[written...])
    }
    count += UInt64(bytes.count)
  }

  func append(_ bytes: [UInt8]) throws { try bytes.withUnsafeBytes { try append($0) } }

  /// Waits until the bytes are on the disk.
  func sync() throws {
    guard fsync(descriptor) == 0 else { throw RecordingError.system("cannot be synced", path) }
  }
}

/// Tells other processes that a folder is in use, until its last use or the end of this process.
final class FolderLock {
  private let descriptor: Int32

  /// `nil` where another has it. A folder that cannot be locked is nobody's.
  init?(_ path: String) {
    descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    guard descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK else {
      close(descriptor)
      return nil
    }
  }

  deinit { if descriptor >= 0 { close(descriptor) } }
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

  /// Makes the names in a folder durable.
  static func syncFolder(_ path: String) throws {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw RecordingError.system("cannot be opened", path) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw RecordingError.system("cannot be synced", path) }
  }

  static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }
}
