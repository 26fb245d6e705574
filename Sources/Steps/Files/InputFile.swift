package import Evidence
import Foundation
package import Media
import Model

/// Result of `stat` for a file; together with its path it shows whether the file has changed since.
package struct FileStamp: Hashable, Sendable, CustomStringConvertible {
  package var bytes: Int64
  package var modified: Int64
  package var inode: UInt64
  /// Time of the last inode change, which no program can set back, unlike the modification time.
  package var changed: Int64
  /// Names of the file. Making or removing one changes the inode.
  package var links: UInt64

  package var description: String { "\(bytes) \(modified) \(inode) \(changed)" }

  init(_ status: stat) {
    bytes = Int64(status.st_size)
    modified = Self.nanoseconds(status.st_mtim)
    inode = UInt64(status.st_ino)
    changed = Self.nanoseconds(status.st_ctim)
    links = UInt64(status.st_nlink)
  }

  /// Nanoseconds since 1970; the latest or earliest number for times that file systems know and 64 bits do not, after 2262.
  private static func nanoseconds(_ time: timespec) -> Int64 {
    let (seconds, overflow) = Int64(time.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
    return Timestamp(nanoseconds: overflow ? (time.tv_sec < 0 ? .min : .max) : seconds).advanced(by: Int64(time.tv_nsec)).nanoseconds
  }

  /// Whether the file is the one of an earlier stamp's description. Of a file with several names the inode's last change does not count:
  /// a program that writes into such a file and then sets the modification time back is not noticed.
  package func isSame(as description: String) -> Bool {
    if description == self.description { return true }
    return links > 1 && description.split(separator: " ").dropLast().elementsEqual(self.description.split(separator: " ").dropLast())
  }

  /// The stamp of a regular file; links are not followed, pipes and devices are not opened.
  package static func of(_ path: String) throws -> FileStamp {
    var status = stat()
    guard lstat(path, &status) == 0 else { throw FileError("look at", path) }
    guard status.st_mode & S_IFMT == S_IFREG else { throw InputFile.notRegular(path, status.st_mode) }
    return FileStamp(status)
  }

  /// The stamp of the folder that a file is in, which changes when a name in it does; `nil` where there is none.
  package static func ofFolder(around path: String) -> FileStamp? {
    var status = stat()
    return lstat(URL(fileURLWithPath: path).deletingLastPathComponent().path, &status) == 0 ? FileStamp(status) : nil
  }
}

/// A file of a take, open for reading; its digest is computed over exactly the bytes that are read.
package final class InputFile {
  package let path: String
  package let stamp: FileStamp
  package let descriptor: Int32
  private let hasher: SHA256
  /// The digest of all bytes, where they were read at once.
  private var digest: Digest?

  /// Opens a regular file; a symbolic link, pipe or device is refused without blocking.
  package init(_ path: String, hasher: SHA256 = SHA256()) throws {
    descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { throw FileError("open", path) }
    var status = stat()
    let isKnown = fstat(descriptor, &status) == 0
    guard isKnown, status.st_mode & S_IFMT == S_IFREG else {
      let error: any Error = isKnown ? InputFile.notRegular(path, status.st_mode) : FileError("look at", path)
      close(descriptor)
      throw error
    }
    self.path = path
    self.stamp = FileStamp(status)
    self.hasher = hasher
  }

  deinit { close(descriptor) }

  /// Whether files with this extension are never takes and need not be opened.
  static func isOther(_ ending: String) -> Bool {
    [
      "jpg", "jpeg", "png", "heic", "gif", "json", "jsonl", "csv", "txt", "md", "yaml", "yml", "h5", "hdf5", "npy", "npz", "pdf", "py",
      "swift",
      "m4a", "wav",
    ].contains(ending)
  }

  /// The first bytes of a regular file, to detect its format; empty for anything else, or where absent. Throws `FileError` where they
  /// cannot be read: the file may then be a take.
  package static func start(of path: String, count: Int) throws -> [UInt8] { try bytes(of: path, count: count, isEnd: false) }

  /// The last bytes, as `start` gives the first.
  package static func end(of path: String, count: Int) throws -> [UInt8] { try bytes(of: path, count: count, isEnd: true) }

  private static func bytes(of path: String, count: Int, isEnd: Bool) throws -> [UInt8] {
    do {
      let file = try InputFile(path)
      if isEnd { lseek(file.descriptor, off_t(max(0, file.stamp.bytes - Int64(count))), SEEK_SET) }
      var bytes = [UInt8](repeating: 0, count: count)
      let got = try bytes.withUnsafeMutableBytes { try file.readUndigested(into: $0) }
      return Array(bytes.prefix(got))
    } catch let error as FileError where [ENOENT, ENOTDIR, ELOOP, ENXIO].contains(error.code) {
      // A link or a socket is recognized as such.
      return []
    } catch is TakeFailure {
      return []
    }
  }

  /// Fills the start of `buffer` and returns the number of bytes; 0 at the end.
  package func read(into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
    let count = try readUndigested(into: buffer)
    hasher.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
    return count
  }

  private func readUndigested(into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
    while true {
      let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
      if count >= 0 { return count }
      if errno != EINTR { throw FileError("read", path) }
    }
  }

  /// Replaces `bytes` by the complete file, of which nothing was read before and which may not be larger than `limit`.
  package func readAll(limit: Int, into bytes: inout [UInt8]) throws {
    guard stamp.bytes <= limit else {
      throw TakeFailure(.inputTooLarge, "\(stamp.bytes) bytes are over the limit of \(limit)", file: path)
    }
    let count = Int(stamp.bytes)
    if bytes.count > count {
      bytes.removeLast(bytes.count - count)
    } else if bytes.count < count {
      bytes.append(contentsOf: repeatElement(0, count: count - bytes.count))
    }
    var done = 0
    try bytes.withUnsafeMutableBytes { buffer in
      while done < count {
        let read = try readUndigested(into: UnsafeMutableRawBufferPointer(rebasing: buffer[done...]))
        if read == 0 { break }
        done += read
      }
    }
    if done < count { bytes.removeLast(count - done) }
    if let lanes = DigestLanes.current {
      digest = lanes.digest(bytes)
    } else {
      hasher.update(bytes)
    }
  }

  /// Throws when the file has changed since it was opened: what was read may mix two versions.
  func checkUnchanged() throws {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw FileError("look at", path) }
    guard FileStamp(status) == stamp else { throw TakeFailure(.changedWhileReading, "the file was changed while it was read") }
  }

  /// The digest of the complete file, including the bytes not yet read. Throws `CancellationError` between two blocks.
  package func finish(isCancelled: () -> Bool = { false }) throws -> Digest {
    if let digest {
      var byte: UInt8 = 0
      guard try withUnsafeMutableBytes(of: &byte, readUndigested) == 0 else {
        throw TakeFailure(.changedWhileReading, "the file was changed while it was read")
      }
      return digest
    }
    try withBuffer(of: 1 << 16) { buffer in
      while try read(into: buffer) > 0 { if isCancelled() { throw CancellationError() } }
    }
    return hasher.finish()
  }

  static func notRegular(_ path: String, _ mode: mode_t) -> TakeFailure {
    let kind =
      switch mode & S_IFMT {
      case S_IFLNK: "a symbolic link, which is never followed"
      case S_IFDIR: "a directory"
      case S_IFIFO: "a pipe"
      case S_IFSOCK: "a socket"
      default: "a device"
      }
    return TakeFailure(.notARegularFile, "is \(kind); expected a regular file", file: path)
  }
}

extension InputFile {
  /// All bytes of the file, which stays open until the last slice is gone. Throws `FileError`.
  package func slice() throws -> FileSlice {
    let own = dup(descriptor)
    guard own >= 0 else { throw FileError("open", path) }
    return FileSlice(descriptor: own, count: stamp.bytes)
  }
}
