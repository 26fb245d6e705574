import Foundation
import Model

/// A failure to write the output: disk full, not writable, vanished. The run stops; sealed takes stay.
package struct OutputFailure: Error, CustomStringConvertible {
  package var message: String
  package init(_ message: String) { self.message = message }

  /// - Parameter path: The file that could not be written, or a directory; the message reports the free space of its file system.
  /// - Parameter isResumed: Whether the same command continues where it stopped.
  init(_ error: any Error, writing path: String, isResumed: Bool = true) {
    message = "cannot write \(path): \(error)"
    if let free = Self.freeBytes(at: path) { message += " (\(Int(free / 1e6)) MB are free there)" }
    if isResumed { message += "; sealed takes stay, and the same command resumes from there" }
  }

  /// The free bytes of the file system that has a path or its nearest parent; `nil` where it does not say.
  static func freeBytes(at path: String) -> Double? {
    var directory = OutputDirectory.absolute(path)
    while directory != "/", (try? Directory.kind(at: directory, followingLinks: true)) != .directory {
      directory = URL(fileURLWithPath: directory).deletingLastPathComponent().path
    }
    var space = statvfs()
    return statvfs(directory, &space) == 0 ? Double(space.f_bavail) * Double(space.f_frsize) : nil
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

  package init(path: String) { description = "there is no such file or directory: \(path)" }

  init(_ search: TakeSearch) {
    description = search.unmatched.map { "\($0.path): \($0.failure.message)" }.joined(separator: "\n")
  }
}
