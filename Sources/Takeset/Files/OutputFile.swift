import Foundation
import Model

/// A single file that a command is told to write, such as a preview: what it would replace may be a recording, by a slip of the keyboard.
package enum OutputFile {
  /// Throws `UsageError` where something else is there than an earlier file of its kind or an empty one, or a file of an input, which may be
  /// of that kind, too.
  ///
  /// - Parameter start: The first bytes of files of this kind.
  /// - Parameter kind: What it is, in words: `a PNG image`.
  package static func check(_ path: String, startsWith start: [UInt8], _ kind: String, apartFrom inputs: [String]) throws {
    let absolute = OutputDirectory.absolute(path)
    guard let found = try Directory.kind(at: absolute) else { return }
    for input in inputs.map(OutputDirectory.absolute) where absolute == input || absolute.hasPrefix(input + "/") {
      throw UsageError("\(path) exists in \(input); name another file")
    }
    let isReplaceable =
      try found == .file && (FileStamp.of(absolute).bytes == 0 || InputFile.start(of: absolute, count: start.count) == start)
    guard isReplaceable else { throw UsageError("\(path) exists and is not \(kind); name another file") }
  }
}
