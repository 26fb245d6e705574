#if canImport(CryptoKit) && canImport(Compression)
  import Compression
  import CryptoKit
  import Foundation
  import TakesetRecorder

  /// SHA-256 by CryptoKit.
  public struct CryptoKitHasher: FrameHasher {
    private var hasher = CryptoKit.SHA256()
    public init() {}
    public mutating func update(_ bytes: UnsafeRawBufferPointer) { hasher.update(bufferPointer: bytes) }
    public mutating func finish() -> [UInt8] { Array(hasher.finalize()) }
  }

  /// Raw deflate by the Compression framework, which calls it zlib.
  public let compressionDeflate: Deflate = { next, write in
    try withoutActuallyEscaping(write) { write in
      let filter = try OutputFilter(.compress, using: .zlib) { data in if let data { try write(Array(data)) } }
      while let piece = try next() { try filter.write(Data(piece)) }
      try filter.finalize()
    }
  }
#endif
