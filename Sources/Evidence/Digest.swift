import CCrypto

/// A SHA-256 digest.
package struct Digest: Hashable, Comparable, Sendable, CustomStringConvertible {
  private var words: SIMD4<UInt64>

  fileprivate init(words: SIMD4<UInt64>) { self.words = words }

  init(bigEndian state: (UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32, UInt32)) {
    func pair(_ first: UInt32, _ second: UInt32) -> UInt64 { (UInt64(first) << 32 | UInt64(second)).bigEndian }
    words = [pair(state.0, state.1), pair(state.2, state.3), pair(state.4, state.5), pair(state.6, state.7)]
  }

  /// 64 lower-case hexadecimal digits.
  package var description: String {
    func digit(_ value: UInt8) -> UInt8 { value < 10 ? 48 + value : 87 + value }
    var words = words
    return withUnsafeBytes(of: &words) { bytes in
      String(unsafeUninitializedCapacity: 64) { text in
        for (index, byte) in bytes.enumerated() { (text[2 * index], text[2 * index + 1]) = (digit(byte >> 4), digit(byte & 15)) }
        return 64
      }
    }
  }

  /// Creates a digest from 64 hexadecimal digits.
  package init?(hex text: String) {
    guard text.utf8.count == 64 else { return nil }
    var words = SIMD4<UInt64>()
    let isHexadecimal = withUnsafeMutableBytes(of: &words) { bytes in
      for (index, digit) in text.utf8.enumerated() {
        switch digit {
        case 48...57: bytes[index / 2] = bytes[index / 2] << 4 | (digit - 48)
        case 97...102: bytes[index / 2] = bytes[index / 2] << 4 | (digit - 87)
        default: return false
        }
      }
      return true
    }
    guard isHexadecimal else { return nil }
    self.init(words: words)
  }

  package init?(bytes: ArraySlice<UInt8>) {
    guard bytes.count == 32 else { return nil }
    words = bytes.withUnsafeBytes { $0.loadUnaligned(as: SIMD4<UInt64>.self) }
  }

  /// The 32 bytes.
  package var bytes: [UInt8] {
    var words = words
    return withUnsafeBytes(of: &words) { Array($0) }
  }

  /// The order of the hexadecimal digits.
  package static func < (a: Digest, b: Digest) -> Bool {
    for index in 0..<4 where a.words[index] != b.words[index] {
      return a.words[index].bigEndian < b.words[index].bigEndian
    }
    return false
  }

  /// Returns the SHA-256 of bytes in memory. Contiguous storage is hashed in place, other sequences are copied first.
  package static func of(_ bytes: some Sequence<UInt8>) -> Digest {
    let hasher = SHA256()
    if bytes.withContiguousStorageIfAvailable({ hasher.update(UnsafeRawBufferPointer($0)) }) == nil { hasher.update(Array(bytes)) }
    return hasher.finish()
  }

  /// The digest of pieces, one after the other. Joining them first takes longer than hashing them.
  package static func of(pieces: some Sequence<[UInt8]>) -> Digest {
    let hasher = SHA256()
    for piece in pieces { hasher.update(piece) }
    return hasher.finish()
  }

  /// Returns the SHA-256 of a text's UTF-8 bytes, without a line end or a terminator.
  package static func of(_ text: String) -> Digest { of(text.utf8) }
}

extension Digest: Codable {
  package init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    guard let digest = Digest(hex: try container.decode(String.self)) else {
      throw DecodingError.dataCorruptedError(in: container, debugDescription: "expected 64 hexadecimal digits")
    }
    self = digest
  }

  /// Encodes the digest as 64 hexadecimal digits in lower case.
  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(description)
  }
}

/// SHA-256 of bytes that arrive in pieces, by libcrypto, which uses the processor's SHA instructions. One hasher serves one thread.
///
///     let hasher = SHA256()
///     for piece in pieces { hasher.update(piece) }
///     let digest = hasher.finish()
package final class SHA256 {
  private let context = EVP_MD_CTX_new()

  package init() { restart() }

  deinit { EVP_MD_CTX_free(context) }

  /// Adds bytes to the message. They are not kept.
  package func update(_ bytes: UnsafeRawBufferPointer) { EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) }

  /// Adds bytes to the message. They are not kept.
  package func update(_ bytes: [UInt8]) { bytes.withUnsafeBytes { update($0) } }

  /// The digest of all bytes since the start; the hasher is then reset.
  package func finish() -> Digest {
    var words = SIMD4<UInt64>()
    withUnsafeMutableBytes(of: &words) { bytes in
      _ = EVP_DigestFinal_ex(context, bytes.bindMemory(to: UInt8.self).baseAddress, nil)
    }
    restart()
    return Digest(words: words)
  }

  // Fetching the algorithm takes a lock and a search, which would be noticeable for small files.
  private static let algorithm = UInt(bitPattern: EVP_MD_fetch(nil, "SHA256", nil))

  private func restart() { EVP_DigestInit_ex(context, OpaquePointer(bitPattern: Self.algorithm), nil) }
}
