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
    guard descriptor >= 0 else { throw DurableFile.failure("create", path) }
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
        throw DurableFile.failure("sync", path)
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
}
