import CLinux
import Foundation
import Model

/// A directory that is written under a temporary name next to its own, so that the name holds a complete directory or nothing.
///
/// The temporary directory is locked: of two commands with one output, one writes and the other says so. What a killed command left there
/// is removed by the next one.
///
///     let staged = try StagedDirectory("out")
///     try writeFiles(into: staged.path)
///     try staged.commit()                          // or `discard()` after an error
package final class StagedDirectory: Sendable {
  /// The kind of directory that may be replaced.
  package struct Kind: Sendable {
    /// The kind in words: `a dataset`.
    package var name: String
    /// Returns the reason why a directory is not one, or not only one, as the end of a sentence about it; `nil` where it is.
    var shortcoming: @Sendable (_ path: String) throws -> String?

    package init(name: String, shortcoming: @escaping @Sendable (_ path: String) throws -> String?) {
      (self.name, self.shortcoming) = (name, shortcoming)
    }
  }

  /// Path for writing until `commit`.
  package let path: String
  /// The directory's own name, absolute.
  let output: String
  private let kind: Kind?
  /// The locked directory.
  private let lock: Int32
  /// The locked directory that is to be replaced, which no run can write into meanwhile; -1 where there is none.
  private let replaced: Int32

  /// Makes the directory under its temporary name.
  ///
  /// - Parameter inputs: Directories that must not contain the output or be inside it.
  /// - Parameter kind: The kind of directory that may be replaced; `nil` if nothing may.
  ///
  /// Throws `OutputExists`, also while another command writes there, `UsageError`, `OutputFailure`.
  package init(_ given: String, apartFrom inputs: [String] = [], replacing kind: Kind? = nil) throws {
    output = Directory.absolute(given)
    self.kind = kind
    for input in inputs {
      let source = Directory.absolute(input)
      if output == source || output.hasPrefix(source + "/") || source.hasPrefix(output + "/") {
        throw UsageError("the output \(given) and the dataset \(input) are inside one another; choose another directory")
      }
    }
    try Self.checkIsFree(output, given, kind)
    path = SealedFile.temporaryPath(for: output)
    lock = try Self.claim(path, for: given)
    do {
      for member in try Directory.members(of: path) { try FileManager.default.removeItem(atPath: path + "/" + member.name) }
      // Another command may have finished since the first look.
      try Self.checkIsFree(output, given, kind)
      replaced = try Self.hold(output, given)
    } catch {
      rmdir(path)
      close(lock)
      throw error is OutputExists ? error : OutputFailure("cannot empty \(path): \(error)")
    }
  }

  deinit {
    close(lock)
    if replaced >= 0 { close(replaced) }
  }

  private static func checkIsFree(_ output: String, _ given: String, _ kind: Kind?) throws {
    guard let found = try Directory.kind(at: output) else { return }
    guard let kind else { throw OutputExists(given, remedy: "choose another directory, or give --replace to replace it") }
    // Whatever else is there is somebody's work.
    guard let shortcoming = found == .directory ? try kind.shortcoming(output) : "it is not \(kind.name) of Takeset" else { return }
    throw OutputExists(given, remedy: "\(shortcoming), so --replace leaves it alone; choose another directory")
  }

  /// Locks the directory that is to be replaced, as a run would; returns its descriptor, or -1 where there is none.
  private static func hold(_ output: String, _ given: String) throws -> Int32 {
    guard try Directory.kind(at: output) == .directory else { return -1 }
    let descriptor = open(output, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    guard descriptor >= 0 else { throw FileError("open", output) }
    try lock(descriptor, given)
    return descriptor
  }

  /// Locks an open directory, or closes it and throws.
  private static func lock(_ descriptor: Int32, _ given: String) throws {
    if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return }
    defer { close(descriptor) }
    throw errno == EWOULDBLOCK ? OutputExists(beingWritten: given) : OutputFailure(withoutLocks: given)
  }

  /// Makes and locks a directory; returns its descriptor.
  private static func claim(_ path: String, for given: String) throws -> Int32 {
    let parent = URL(fileURLWithPath: path).deletingLastPathComponent().path
    do {
      try Directory.create(parent)
    } catch {
      throw OutputFailure("cannot write \(given): \(error)")
    }
    for _ in 0..<100 {
      if mkdir(path, 0o777) != 0, errno != EEXIST {
        throw OutputFailure("cannot write \(given): \(FileError("write into the folder", parent))")
      }
      let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
      guard descriptor >= 0 else {
        // A file of this name is what earlier versions left.
        if errno == ENOENT || errno == ENOTDIR && unlink(path) == 0 { continue }
        throw OutputFailure("cannot write \(given): \(FileError("open", path))")
      }
      try lock(descriptor, given)
      // The command that had it may have renamed or removed it in the meantime.
      if Directory.isOpen(descriptor, at: path) { return descriptor }
      close(descriptor)
    }
    throw OutputExists(beingWritten: given)
  }

  /// Puts the directory in place, durably, in place of an earlier one. Throws `OutputExists` where another one is there by now, `FileError`.
  package func commit() throws {
    // One flush of the file system instead of one for each of many small files.
    sync()
    let old = path + ".old"
    let isReplacing = try replaced >= 0 && Directory.kind(at: output) != nil
    if isReplacing {
      try Self.checkIsFree(output, output, kind)
      guard Directory.isOpen(replaced, at: output) else { throw Self.appeared(output) }
      // What a command that was killed between the two renames below and the removal has left.
      if try Directory.kind(at: old) != nil { try FileManager.default.removeItem(atPath: old) }
      // The earlier one then has the temporary name.
      if clinux_exchange(path, output) == 0 {
        try SealedFile.syncDirectory(of: output)
        return discard()
      }
      guard rename(output, old) == 0 else { throw FileError("rename", output) }
    }
    // Replaces nothing but an empty directory.
    guard rename(path, output) == 0 else {
      let error = FileError("rename to", output)
      if isReplacing { _ = rename(old, output) }
      throw [EEXIST, ENOTEMPTY, ENOTDIR].contains(error.code) ? Self.appeared(output) : error
    }
    try SealedFile.syncDirectory(of: output)
    if isReplacing { try FileManager.default.removeItem(atPath: old) }
  }

  /// Puts a file of the directory in place, durably, and removes the directory. Throws as `commit` does.
  package func commit(file name: String) throws {
    do {
      try SealedFile.seal(path + "/" + name, as: output, replacing: false)
    } catch let error as FileError where error.code == EEXIST {
      throw Self.appeared(output)
    }
    discard()
  }

  private static func appeared(_ output: String) -> OutputExists {
    OutputExists(output, remedy: "it was made while this command ran, and stays; choose another name or remove it")
  }

  /// Removes what was written. The directory that was to be replaced stays.
  package func discard() { try? FileManager.default.removeItem(atPath: path) }
}
