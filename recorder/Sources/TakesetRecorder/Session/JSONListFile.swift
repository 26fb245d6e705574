import Foundation

/// A JSON file of a list that grows, and is valid after every write: one write replaces the closing bracket by an entry and a new one.
final class JSONListFile {
  private static let end = Array("\n]\n".utf8)

  let path: String
  private let descriptor: Int32
  private var count = 0
  private(set) var entries = 0

  /// Creates the file with an empty list.
  init(creating path: String) throws {
    self.path = path
    descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw RecordingError.system("cannot be created", path) }
    try write(Array("[]\n".utf8), at: 0)
  }

  deinit { close(descriptor) }

  /// Adds an entry: JSON text, indented by two.
  func append(_ entry: String) throws {
    // Where only a part of it is written, what follows the last entry is written again with the next one.
    let start = entries == 0 ? 1 : count - Self.end.count
    try write(Array((entries == 0 ? "\n" : ",\n").utf8) + Array(entry.utf8) + Self.end, at: start)
    entries += 1
  }

  private func write(_ bytes: [UInt8], at start: Int) throws {
    let written = bytes.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, off_t(start)) }
    guard written == bytes.count else {
      let code = written < 0 ? errno : ENOSPC
      restore(start, of: bytes.count)
      throw RecordingError.system("cannot be written", path, code)
    }
    count = start + bytes.count
  }

  /// Makes the list what it was after a write that the disk had no room for: the old end fits where it was.
  private func restore(_ start: Int, of length: Int) {
    let end = entries == 0 ? Array("[]\n".utf8) : Self.end
    let place = entries == 0 ? 0 : start
    _ = end.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, off_t(place)) }
    ftruncate(descriptor, off_t(place + end.count))
  }

  func sync() { fsync(descriptor) }
}
