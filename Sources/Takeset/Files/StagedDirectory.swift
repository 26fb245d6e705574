import Foundation
import Model

/// A directory that is written under a temporary name next to its own, so that the name holds a complete directory or nothing.
struct StagedDirectory: Sendable {
  /// Where to write until `commit`.
  let path: String
  /// The directory's own name, absolute.
  let output: String

  /// Makes the directory under its temporary name; what an interrupted command left there is removed.
  ///
  /// - Parameter inputs: Directories that must not contain the output or be inside it.
  /// - Parameter kind: What may be replaced, in words; `nil` if nothing may.
  /// - Parameter marker: The file by which a directory of this kind is recognized.
  ///
  /// Throws `OutputExists`, `UsageError`, `OutputFailure`.
  init(_ given: String, apartFrom inputs: [String], replacing kind: String?, markedBy marker: String) throws {
    output = OutputDirectory.absolute(given)
    for input in inputs {
      let source = OutputDirectory.absolute(input)
      if output == source || output.hasPrefix(source + "/") || source.hasPrefix(output + "/") {
        throw UsageError("the output \(given) and the dataset \(input) are inside one another; choose another directory")
      }
    }
    if try Directory.kind(at: output) != nil {
      guard let kind else { throw OutputExists(given, remedy: "choose another directory, or give --replace to replace it") }
      // Whatever else is there is somebody's work.
      guard try Directory.kind(at: output) == .directory, try Directory.kind(at: output + "/" + marker) == .file else {
        throw OutputExists(given, remedy: "it is not \(kind) of Takeset, so --replace leaves it alone; choose another directory")
      }
    }
    path = SealedFile.temporaryPath(for: output)
    do {
      if try Directory.kind(at: path) != nil { try FileManager.default.removeItem(atPath: path) }
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    } catch {
      throw OutputFailure("cannot create \(given): \(error.localizedDescription)")
    }
  }

  /// Puts the directory in place, durably, in place of an earlier one.
  func commit() throws {
    // One flush of the file system instead of one for each of many small files.
    sync()
    let old = path + ".old"
    let isReplacing = try Directory.kind(at: output) != nil
    if isReplacing {
      // What a command that was killed between the two renames below and the removal has left.
      if try Directory.kind(at: old) != nil { try FileManager.default.removeItem(atPath: old) }
      guard rename(output, old) == 0 else { throw FileError("rename", output) }
    }
    guard rename(path, output) == 0 else {
      let error = FileError("rename to", output)
      if isReplacing { _ = rename(old, output) }
      throw error
    }
    try SealedFile.syncDirectory(of: output)
    if isReplacing { try FileManager.default.removeItem(atPath: old) }
  }

  func discard() { try? FileManager.default.removeItem(atPath: path) }
}
