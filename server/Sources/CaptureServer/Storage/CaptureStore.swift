import Foundation
import NIOCore
import NIOPosix

/// The place of finished captures.
protocol CaptureStore: Sendable {
  /// Takes over the files of a staged folder as those of a capture. They are durable when it returns, and the folder is gone. If it
  /// throws, some may be there.
  func publish(_ folder: String, as capture: String, files: [CaptureFile]) async throws
  /// Removes a capture's files; those that are not there are fine.
  func remove(_ capture: String) async throws
  /// A folder on this machine with the files of a capture, for as long as the closure runs.
  func withFolder<Result: Sendable>(
    of capture: String, files: [CaptureFile], _ body: @Sendable (String) async throws -> Result
  ) async throws -> Result
  /// The bytes of a file in a range, in blocks.
  func read(_ file: CaptureFile, _ range: Range<Int64>, _ body: (ByteBuffer) async throws -> Void) async throws
  /// Free bytes, where that is known.
  var freeBytes: Int64 { get }
}

extension CaptureStore {
  var freeBytes: Int64 { .max }
}

/// The store does not answer at the moment; nothing is wrong with a capture.
struct StoreUnavailable: Error, CustomStringConvertible {
  var description: String
}

/// Captures in folders of this machine.
struct LocalStore: CaptureStore {
  private let root: String
  /// Bytes of a block of a download, which a slow reader keeps in memory.
  private static let blockSize: Int64 = 64 << 10

  init(_ root: String) throws {
    self.root = root
    try DurableFile.makeFolders(root)
  }

  var freeBytes: Int64 { DurableFile.freeBytes(root) }

  private func folder(_ capture: String) -> String { root + "/" + capture }

  func publish(_ staged: String, as capture: String, files: [CaptureFile]) async throws {
    try await NIOThreadPool.singleton.runIfActive { [root] in
      try DurableFile.syncFolder(staged)
      try DurableFile.move(staged, to: root + "/" + capture)
      try DurableFile.syncFolder(root)
    }
  }

  func remove(_ capture: String) async throws {
    let path = folder(capture)
    try await NIOThreadPool.singleton.runIfActive { DurableFile.removeFolder(path) }
  }

  func withFolder<Result: Sendable>(
    of capture: String, files: [CaptureFile], _ body: @Sendable (String) async throws -> Result
  ) async throws -> Result {
    try await body(folder(capture))
  }

  func read(_ file: CaptureFile, _ range: Range<Int64>, _ body: (ByteBuffer) async throws -> Void) async throws {
    let path = folder(file.capture) + "/" + file.name
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw DurableFile.failure("open", path) }
    defer { close(descriptor) }
    var offset = range.lowerBound
    while offset < range.upperBound {
      let count = Int(min(Self.blockSize, range.upperBound - offset))
      let block = try await NIOThreadPool.singleton.runIfActive { [offset] in
        var block = ByteBufferAllocator().buffer(capacity: count)
        try block.writeWithUnsafeMutableBytes(minimumWritableBytes: count) { bytes in
          let got = pread(descriptor, bytes.baseAddress, count, off_t(offset))
          if got < 0 { throw DurableFile.failure("read", path) }
          return got
        }
        return block
      }
      guard block.readableBytes > 0 else { throw DurableFile.failure("read", path) }
      offset += Int64(block.readableBytes)
      try await body(block)
    }
  }
}
