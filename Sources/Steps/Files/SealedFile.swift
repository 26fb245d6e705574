import CLinux
package import Evidence
import Foundation
import Model

/// Puts files in place so that a name holds either the complete file or nothing, even after a power loss: written under a temporary name
/// in the same directory, fsynced, renamed, and the directory fsynced.
///
///     try SealedFile.write(path) { append in
///       for piece in pieces { try piece.withUnsafeBytes(append) }
///     }
package enum SealedFile {
  /// The temporary name for a file, by which a leftover of a killed run is recognized.
  package static func temporaryPath(for path: String) -> String {
    let url = URL(fileURLWithPath: path)
    return url.deletingLastPathComponent().path + "/.\(url.lastPathComponent).partial"
  }

  /// Whether a name has the form of `temporaryPath`: `.NAME.partial`.
  package static func isTemporary(_ name: String) -> Bool { name.hasPrefix(".") && name.hasSuffix(".partial") }

  /// Moves a finished temporary file to its name.
  ///
  /// - Parameter replacing: Whether a file of that name is replaced; `FileError` with `EEXIST` otherwise.
  package static func seal(_ temporary: String, as path: String, replacing: Bool = true) throws {
    let descriptor = open(temporary, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw FileError("open", temporary) }
    let status = fsync(descriptor)
    let code = errno
    close(descriptor)
    // A failed fsync is final: the kernel may have dropped the pages, and a second one would report success.
    guard status == 0 else { throw FileError("fsync", temporary, code: code) }
    // A link replaces nothing; some file systems have none.
    if !replacing {
      if link(temporary, path) == 0 {
        unlink(temporary)
        return try syncDirectory(of: path)
      }
      guard errno != EEXIST, try Directory.kind(at: path) == nil else { throw FileError("create", path, code: EEXIST) }
    }
    guard rename(temporary, path) == 0 else { throw FileError("rename to", path) }
    try syncDirectory(of: path)
  }

  /// Copies a file with its permissions, where there are such, within the kernel, which shares blocks where the file system can. There must be none of the other name.
  package static func copy(_ source: String, to target: String) throws {
    let file = try InputFile(source)
    let descriptor = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw FileError("create", target) }
    defer { close(descriptor) }
    guard clinux_copy(file.descriptor, descriptor, file.stamp.bytes) == file.stamp.bytes else { throw FileError("copy", source) }
    var status = stat()
    // Some file systems have none.
    if fstat(file.descriptor, &status) == 0 { fchmod(descriptor, status.st_mode & 0o777) }
  }

  /// Makes the names in a path's directory survive a power loss. `fsync`.
  package static func syncDirectory(of path: String) throws {
    let directory = URL(fileURLWithPath: path).deletingLastPathComponent().path
    let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw FileError("open", directory) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw FileError("fsync", directory) }
  }

  /// Writes a file in pieces and seals it. `body` receives a function that appends bytes.
  package static func write(_ path: String, _ body: ((UnsafeRawBufferPointer) throws -> Void) throws -> Void) throws {
    let temporary = temporaryPath(for: path)
    let descriptor = try create(temporary)
    do {
      defer { close(descriptor) }
      // Pieces are collected: a manifest has several for every take.
      var collected: [UInt8] = []
      collected.reserveCapacity(collectedAtMost)
      func flush() throws {
        try collected.withUnsafeBytes { try append($0, to: descriptor, path: temporary) }
        collected.removeAll(keepingCapacity: true)
      }
      try body { piece in
        if collected.count + piece.count > collectedAtMost { try flush() }
        if piece.count > collectedAtMost { return try append(piece, to: descriptor, path: temporary) }
        collected.append(contentsOf: piece)
      }
      try flush()
    } catch {
      unlink(temporary)
      throw error
    }
    do {
      try seal(temporary, as: path)
    } catch {
      unlink(temporary)
      throw error
    }
  }

  /// Creates a file in place of what has that name, such as the leftover of a killed command or a link, which is never written through.
  ///
  /// Returns the descriptor, for writing. Throws `FileError`, also where another command creates it at the same time.
  static func create(_ path: String, mode: mode_t = 0o644) throws -> Int32 {
    if unlink(path) != 0, errno != ENOENT { throw FileError("replace", path) }
    let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode)
    guard descriptor >= 0 else { throw FileError("create", path) }
    return descriptor
  }

  /// Replaces a file that need not survive a power loss: readers see the old or the new one.
  package static func replace(_ path: String, by bytes: [UInt8]) throws {
    let temporary = temporaryPath(for: path)
    let descriptor = try create(temporary)
    do {
      defer { close(descriptor) }
      try bytes.withUnsafeBytes { try append($0, to: descriptor, path: temporary) }
    } catch {
      unlink(temporary)
      throw error
    }
    guard rename(temporary, path) == 0 else {
      let error = FileError("rename to", path)
      unlink(temporary)
      throw error
    }
  }

  private static let collectedAtMost = 1 << 16

  /// Writes all bytes at the descriptor's position, however many calls that takes. Throws `FileError`, perhaps after some of them.
  package static func append(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32, path: String) throws {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
      if count < 0 {
        if errno == EINTR { continue }
        throw FileError("write", path)
      }
      rest = rest.dropFirst(count)
    }
  }

  /// Digest and length of a file, read back.
  package static func digest(of path: String) throws -> (digest: Digest, bytes: Int64) {
    let file = try InputFile(path)
    return (try file.finish(), file.stamp.bytes)
  }
}
