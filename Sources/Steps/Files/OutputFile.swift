import Foundation
import Model

/// A single file that a command is told to write, such as a preview: what it would replace may be a recording, by a slip of the keyboard.
package enum OutputFile {
  /// Throws `UsageError` where something else is there than an empty file or an earlier one that such a command wrote.
  ///
  /// - Parameter mark: A marker in the first 256 bytes of files that this command wrote.
  /// - Parameter kind: Its kind in words: `metrics of Takeset`.
  package static func check(_ path: String, markedBy mark: String, _ kind: String) throws {
    let absolute = Directory.absolute(path)
    guard let found = try Directory.kind(at: absolute) else { return }
    let isReplaceable =
      try found == .file
      && (FileStamp.of(absolute).bytes == 0 || Data(InputFile.start(of: absolute, count: 256)).range(of: Data(mark.utf8)) != nil)
    guard isReplaceable else { throw UsageError("\(path) exists and is not \(kind); name another file") }
  }
}
