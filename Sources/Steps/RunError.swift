import Foundation
import Model

/// A failure to write the output: disk full, not writable, vanished. The run stops; sealed takes stay.
package struct OutputFailure: Error, CustomStringConvertible {
  package var message: String
  /// The system's error, where there is one.
  var code: Int32?
  package init(_ message: String, code: Int32? = nil) { (self.message, self.code) = (message, code) }

  /// Makes the failure of a directory that cannot be locked, from the current `errno`.
  package init(withoutLocks directory: String) {
    let code = errno
    self.init(
      "the file system of \(directory.onOneLine) locks no directories (\(String(cString: strerror(code)))), so nothing keeps two commands from writing there at "
        + "once; choose a directory on another one", code: code)
  }

  /// The exit code of a task, for its scheduler: 73 for an output that cannot be created, 74 for a disk that fails, 75 where another attempt may
  /// succeed. Commands that no scheduler starts end with 1.
  package var taskExitCode: Int32 {
    switch code {
    case EACCES, EPERM, EROFS, ENOTDIR, EEXIST, EISDIR, ELOOP, ENAMETOOLONG, EXDEV, ENOLCK, ENOSYS, EOPNOTSUPP: 73
    case EIO: 74
    default: 75
    }
  }

  /// Creates it before what was written is removed, for the free space that it reports.
  ///
  /// - Parameter path: The file that could not be written, or a directory; the message reports the free space of its file system.
  /// - Parameter needed: The bytes, at most, of what was to be written.
  /// - Parameter isResumed: Whether the same command continues where it stopped.
  package init(_ error: any Error, writing path: String, needing needed: Double? = nil, isResumed: Bool = true) {
    if let failure = error as? OutputFailure {
      self = failure
      return
    }
    let space = Self.space(at: path)
    var cause = "\(error)"
    code = (error as? FileError)?.code ?? (error as? any StorageError)?.code
    // A library reports some failures of a full disk by their consequences only. A write that fails fills the disk first.
    if code == nil, error is any StorageError, let needed, let free = space?.bytes, free < min(needed, 1e6) {
      code = ENOSPC
      cause = String(cString: strerror(ENOSPC))
    }
    let isFull = code == ENOSPC || code == EDQUOT
    message = "cannot write \(path): \(code == ENOSPC ? "the disk is full: " : "")\(cause)"
    if isFull, let space, space.hasNoInodes, space.bytes >= needed ?? 0 {
      message += " (no more files can be made there: all inodes are in use)"
    } else if let free = space?.bytes {
      let more = isFull ? needed.map { ", up to \(Self.megabytes($0)) MB are needed" } : nil
      message += " (\(Self.megabytes(free)) MB are free there\(more ?? ""))"
    }
    if isResumed { message += "; sealed takes stay, and the same command resumes from there" }
  }

  private static func megabytes(_ bytes: Double) -> String {
    // A small take never needs 0.0 MB.
    if bytes > 0, bytes < 9.95e4 { return String(format: "%.3f", max(bytes / 1e6, 0.001)) }
    return bytes < 9.95e6 ? String(format: "%.1f", bytes / 1e6) : String(format: "%.0f", bytes / 1e6)
  }

  /// The free bytes of the file system that has a path or its nearest parent; `nil` where it does not say.
  package static func freeBytes(at path: String) -> Double? { space(at: path)?.bytes }

  private static func space(at path: String) -> (bytes: Double, hasNoInodes: Bool)? {
    var directory = Directory.absolute(path)
    while directory != "/", (try? Directory.kind(at: directory, followingLinks: true)) != .directory {
      directory = URL(fileURLWithPath: directory).deletingLastPathComponent().path
    }
    var space = statvfs()
    guard statvfs(directory, &space) == 0 else { return nil }
    // File systems without a fixed number of inodes report none at all. One or two may have become free since the file was refused.
    return (Double(space.f_bavail) * Double(space.f_frsize), space.f_files > 0 && space.f_favail < 3)
  }

  package var description: String { message }
}

/// A command that cannot be executed as given: exit code 64.
package struct UsageError: Error, CustomStringConvertible {
  package var message: String
  package init(_ message: String) { self.message = message }
  package var description: String { message }
}

/// A run none of whose inputs exists; nothing was created. Exit code 1.
package struct NoInputs: Error, CustomStringConvertible {
  package var description: String

  package init(path: String) { description = "there is no such file or directory: \(path.onOneLine)" }

  package init(_ sentences: String) { description = sentences }
}

/// A dataset that a format cannot hold: exit code 65. The message names the takes and the remedy.
package struct ExportRefusal: Error, CustomStringConvertible {
  package var description: String
  package init(_ message: String) { description = message }
}

/// A dataset that cannot be a source, because it is missing, not one, not finished or damaged. The exit code is that of the reason.
package struct UnusableSource: Error, CustomStringConvertible {
  package let directory: String
  package let reason: any Error
  package var description: String { "\(reason)" }
  package init(_ directory: String, _ reason: any Error) { (self.directory, self.reason) = (directory, reason) }
}

/// An output that exists already, or that another command is writing: exit code 73.
package struct OutputExists: Error, CustomStringConvertible {
  package var description: String
  package init(_ path: String, remedy: String) { description = "\(path) already exists; \(remedy)" }
  init(beingWritten path: String) { description = "another command is writing \(path); wait for it or choose another name" }
}

/// An error of the library that stores datasets.
package protocol StorageError: Error {
  /// The system's error, where the library tells it.
  var code: Int32? { get }
}
