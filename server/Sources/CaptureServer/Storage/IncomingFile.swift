import Crypto
import Foundation
import NIOCore
import NIOPosix

/// A file that a request writes, a block at a time, with its digest. Blocking calls run on NIO's pool of threads, so a slow disk holds up
/// only this request. Memory is one block.
///
/// `@unchecked Sendable`: one task uses it, one call after the other.
final class IncomingFile: @unchecked Sendable {
  let path: String
  /// Bytes received so far.
  private(set) var bytes: Int64 = 0
  private let descriptor: Int32
  private var hasher = SHA256()
  private var block = ByteBuffer()
  private var isClosed = false
  private static let blockSize = 64 << 10

  /// Creates the file, which must not exist. Throws `Failure` 507 if the disk is full.
  init(path: String) throws {
    self.path = path
    descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o640)
    guard descriptor >= 0 else { throw Self.failure("create", path) }
  }

  deinit { if !isClosed { close(descriptor) } }

  func append(_ buffer: ByteBuffer) async throws {
    var buffer = buffer
    bytes += Int64(buffer.readableBytes)
    block.writeBuffer(&buffer)
    if block.readableBytes >= Self.blockSize { try await flush() }
  }

  /// All bytes are on the disk, and the file is closed. Its digest.
  func finish() async throws -> SHA256Digest {
    try await flush()
    isClosed = true
    try await NIOThreadPool.singleton.runIfActive { [descriptor, path] in
      let isSynced = fsync(descriptor) == 0
      let error = errno
      close(descriptor)
      if !isSynced {
        errno = error
        throw Self.failure("sync", path)
      }
    }
    return hasher.finalize()
  }

  private func flush() async throws {
    guard block.readableBytes > 0 else { return }
    hasher = try await NIOThreadPool.singleton.runIfActive { [hasher, block, descriptor, path] in
      var hasher = hasher
      try block.withUnsafeReadableBytes { bytes in
        hasher.update(bufferPointer: bytes)
        try DurableFile.write(bytes, to: descriptor, path)
      }
      return hasher
    }
    block.clear(minimumCapacity: 0)
  }

  static func failure(_ verb: String, _ path: String) -> Failure { DurableFile.failure(verb, path) }
}

/// Files and folders that are on the disk when a call returns.
enum DurableFile {
  static func write(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32, _ path: String) throws {
    var rest = bytes
    while !rest.isEmpty {
      let count = Foundation.write(descriptor, rest.baseAddress, rest.count)
      if count < 0 {
        if errno == EINTR { continue }
        throw failure("write", path)
      }
      rest = UnsafeRawBufferPointer(rebasing: rest[count...])
    }
  }

  /// What the system said of the last call, for the log. A full disk is 507, everything else 500.
  static func failure(_ verb: String, _ path: String) -> Failure {
    let code = errno
    let reason = "cannot \(verb) \(path): \(String(cString: strerror(code)))"
    if [ENOSPC, EDQUOT, EFBIG].contains(code) {
      var failure = Failure.insufficientStorage()
      failure.reason = reason
      return failure
    }
    return Failure(.internalServerError, "STORAGE_ERROR", "The upload could not be stored. Try again later.", reason: reason)
  }

  /// Makes the names in a folder durable.
  static func syncFolder(_ path: String) throws {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failure("open", path) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw failure("sync", path) }
  }

  static func makeFolder(_ path: String) throws {
    if mkdir(path, 0o750) != 0, errno != EEXIST { throw failure("create", path) }
  }

  /// Removes a folder and everything in it; what is not there is fine.
  static func removeFolder(_ path: String) {
    try? FileManager.default.removeItem(atPath: path)
  }

  static func rename(_ from: String, to: String) throws {
    guard Foundation.rename(from, to) == 0 else { throw failure("rename", from) }
  }
}
