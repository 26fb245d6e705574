import Crypto
import Foundation
import NIOCore
import NIOPosix

/// The file of an upload, which grows from its offset. Blocking calls run on NIO's pool of threads; memory is one block.
///
/// `@unchecked Sendable`: one task uses it, one call after the other.
final class UploadFile: @unchecked Sendable {
  /// SHA-256 of the first bytes of an upload, so that a finished one need not be read again.
  struct Start: Sendable {
    var hasher = SHA256()
    var bytes: Int64 = 0
  }

  let path: String
  /// End of the bytes that arrived; those after `synced` may not be on the disk.
  private(set) var end: Int64
  private(set) var synced: Int64
  /// Digest up to `synced` or beyond; `nil` where the start of the file was not seen.
  private(set) var start: Start?
  private let descriptor: Int32
  private var written: Int64
  private var checksum: ChunkChecksum?
  private var block = ByteBuffer()
  private var syncedAt = ContinuousClock.now

  private static let blockSize = 64 << 10
  /// The offset is saved after so many bytes, or after so long: the most that a killed server loses.
  private static let bytesBetweenSaves: Int64 = 32 << 20
  private static let timeBetweenSaves = Duration.seconds(5)

  /// Opens or creates the file. Bytes after `offset` are dropped: they were never acknowledged.
  static func open(_ path: String, offset: Int64, start: Start?, checksum: ChunkChecksum?) async throws -> UploadFile {
    try await NIOThreadPool.singleton.runIfActive {
      let descriptor = Foundation.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o640)
      guard descriptor >= 0 else { throw DurableFile.failure("open", path) }
      let file = UploadFile(path, descriptor, offset: offset, start: start, checksum: checksum)
      guard ftruncate(descriptor, off_t(offset)) == 0 else { throw DurableFile.failure("truncate", path) }
      if offset == 0 { try DurableFile.syncFolder(String(path[..<(path.lastIndex(of: "/") ?? path.endIndex)])) }
      return file
    }
  }

  private init(_ path: String, _ descriptor: Int32, offset: Int64, start: Start?, checksum: ChunkChecksum?) {
    (self.path, self.descriptor, self.checksum) = (path, descriptor, checksum)
    (end, synced, written) = (offset, offset, offset)
    self.start = start?.bytes == offset ? start : offset == 0 ? Start() : nil
  }

  deinit { close(descriptor) }

  /// Bytes in the file; 0 where there is none.
  static func size(_ path: String) async throws -> Int64 {
    try await NIOThreadPool.singleton.runIfActive {
      var status = stat()
      if stat(path, &status) == 0 { return Int64(status.st_size) }
      guard errno == ENOENT else { throw DurableFile.failure("examine", path) }
      return 0
    }
  }

  func append(_ buffer: ByteBuffer) async throws {
    var buffer = buffer
    end += Int64(buffer.readableBytes)
    block.writeBuffer(&buffer)
    if block.readableBytes >= Self.blockSize { try await flush() }
  }

  /// Whether so much arrived since the last `sync` that its offset should be saved.
  var isDue: Bool {
    end - synced >= Self.bytesBetweenSaves || (end > synced && ContinuousClock.now - syncedAt >= Self.timeBetweenSaves)
  }

  /// All bytes up to `end` are on the disk when it returns.
  func sync() async throws {
    try await flush()
    try await NIOThreadPool.singleton.runIfActive { [descriptor, path] in
      guard fsync(descriptor) == 0 else { throw DurableFile.failure("sync", path) }
    }
    (synced, syncedAt) = (end, .now)
  }

  /// Whether the bytes since the file was opened have the checksum that they must have.
  func matchesChecksum() async throws -> Bool {
    try await flush()
    return checksum?.matches ?? true
  }

  /// Drops the bytes after an offset.
  func truncate(to offset: Int64) async throws {
    block.clear(minimumCapacity: 0)
    (end, written, start) = (offset, offset, offset == 0 ? Start() : nil)
    try await NIOThreadPool.singleton.runIfActive { [descriptor, path] in
      guard ftruncate(descriptor, off_t(offset)) == 0, fsync(descriptor) == 0 else { throw DurableFile.failure("truncate", path) }
    }
    synced = min(synced, offset)
  }

  /// SHA-256 of the whole file.
  func digest() async throws -> SHA256Digest {
    try await flush()
    if let start, start.bytes == end { return start.hasher.finalize() }
    return try await NIOThreadPool.singleton.runIfActive { [descriptor, path, end] in
      var (hasher, offset) = (SHA256(), Int64(0))
      var bytes = [UInt8](repeating: 0, count: 1 << 20)
      while offset < end {
        let count = pread(descriptor, &bytes, Int(min(Int64(bytes.count), end - offset)), off_t(offset))
        guard count > 0 else { throw DurableFile.failure("read", path) }
        bytes.withUnsafeBytes { hasher.update(bufferPointer: UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        offset += Int64(count)
      }
      return hasher.finalize()
    }
  }

  private func flush() async throws {
    guard block.readableBytes > 0 else { return }
    (start, checksum) = try await NIOThreadPool.singleton.runIfActive { [start, checksum, block, written, descriptor, path] in
      var (start, checksum) = (start, checksum)
      try block.withUnsafeReadableBytes { bytes in
        var (rest, offset) = (bytes, written)
        while !rest.isEmpty {
          let count = pwrite(descriptor, rest.baseAddress, rest.count, off_t(offset))
          if count < 0 {
            if errno == EINTR { continue }
            throw DurableFile.failure("write", path)
          }
          offset += Int64(count)
          rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
        start?.hasher.update(bufferPointer: bytes)
        start?.bytes += Int64(bytes.count)
        checksum?.update(bytes)
      }
      return (start, checksum)
    }
    written += Int64(block.readableBytes)
    block.clear(minimumCapacity: 0)
  }
}
