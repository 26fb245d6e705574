import Foundation
package import Model

/// A failed system call on a file: the action, the path, and the system's error.
package struct FileError: Error, CustomStringConvertible, Equatable {
  package var action: String
  package var path: String
  package var code: Int32

  /// Creates an error from the current `errno`.
  package init(_ action: String, _ path: String, code: Int32 = errno) {
    self.action = action
    self.path = path
    self.code = code
  }

  package var reason: String { String(cString: strerror(code)) }
  package var description: String { "cannot \(action) \(path.onOneLine): \(reason)" }

  /// The failure of a take, naming the file by its path inside the take.
  package func failure(_ file: String? = nil) -> TakeFailure {
    TakeFailure(code == EACCES ? .permission : .unreadable, "cannot \(action): \(reason)", file: file)
  }
}
