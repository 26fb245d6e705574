import Foundation
import Model

/// A system call on a file that failed: what was tried, on which path, and the system's own words.
package struct FileError: Error, CustomStringConvertible, Equatable {
  package var action: String
  package var path: String
  package var code: Int32

  /// Takes `errno` at once.
  package init(_ action: String, _ path: String, code: Int32 = errno) {
    self.action = action
    self.path = path
    self.code = code
  }

  package var reason: String { String(cString: strerror(code)) }
  package var description: String { "cannot \(action) \(path): \(reason)" }

  /// What it costs a take, naming the file by its path inside of it.
  func failure(_ file: String? = nil) -> TakeFailure {
    TakeFailure(code == EACCES ? .permission : .unreadable, "cannot \(action): \(reason)", file: file)
  }
}
