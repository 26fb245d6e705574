import Foundation
import Model

/// A directory that is removed at the end of the test.
package final class TemporaryDirectory {
  package let path: String

  package init() throws {
    let url = FileManager.default.temporaryDirectory.appendingPathComponent("takeset-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    path = url.path
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  /// Writes a file, creating its parent directories, and returns its path.
  @discardableResult
  package func write(_ name: String, _ contents: some Sequence<UInt8>) throws -> String {
    let url = URL(fileURLWithPath: path + "/" + name)
    try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(contents).write(to: url)
    return url.path
  }

  /// Returns the bytes of a file in the directory.
  package func read(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: path + "/" + name))) }
}
