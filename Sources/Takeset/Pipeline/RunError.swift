import Foundation

/// The output cannot be written: disk full, not writable, vanished. The run stops; what is sealed stays.
package struct OutputFailure: Error, CustomStringConvertible {
  package var message: String
  package init(_ message: String) { self.message = message }

  init(_ error: any Error, writing path: String) {
    message = "cannot write \(path): \(error)"
    var space = statvfs()
    let directory = URL(fileURLWithPath: path).deletingLastPathComponent().path
    if statvfs(directory, &space) == 0 {
      let free = Double(space.f_bavail) * Double(space.f_frsize) / 1e6
      message += " (\(Int(free)) MB are free there)"
    }
    message += "; what is sealed stays, and the same command goes on from there"
  }

  package var description: String { message }
}

/// The command cannot be done as it was given: exit 64.
package struct UsageError: Error, CustomStringConvertible {
  package var message: String
  package init(_ message: String) { self.message = message }
  package var description: String { message }
}

/// No input is there at all; nothing was created.
package struct NoInputs: Error, CustomStringConvertible {
  package var description: String

  init(_ search: TakeSearch) {
    description = search.missed.map { "\($0.path): \($0.failure.message)" }.joined(separator: "\n")
  }
}
