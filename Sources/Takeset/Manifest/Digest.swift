import CCrypto

/// A SHA-256 digest.
package struct Digest: Hashable, Comparable, Sendable, CustomStringConvertible {
  private var words: SIMD4<UInt64>

  fileprivate init(words: SIMD4<UInt64>) { self.words = words }

  /// 64 lower-case hexadecimal digits.
  package var description: String {
    var words = words
    return withUnsafeBytes(of: &words) { bytes in
      let digits = Array("0123456789abcdef".utf8)
      return String(
        decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
  }

  /// The 32 bytes.
  package var bytes: [UInt8] {
    var words = words
    return withUnsafeBytes(of: &words) { Array($0) }
  }

  /// As the hexadecimal digits compare.
  package static func < (a: Digest, b: Digest) -> Bool {
    for index in 0..<4 where a.words[index] != b.words[index] {
      return a.words[index].bigEndian < b.words[index].bigEndian
    }
    return false
  }

  package static func of(_ bytes: some Sequence<UInt8>) -> Digest {
    let hasher = SHA256()
    hasher.update(Array(bytes))
    return hasher.finish()
  }

  package static func of(_ text: String) -> Digest { of(text.utf8) }
}

/// SHA-256 of bytes that come in pieces, by libcrypto, which uses the processor's SHA instructions. One hasher serves one thread.
package final class SHA256 {
  private let context = EVP_MD_CTX_new()

  package init() { restart() }

  deinit { EVP_MD_CTX_free(context) }

  package func update(_ bytes: UnsafeRawBufferPointer) { EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) }

  package func update(_ bytes: [UInt8]) { bytes.withUnsafeBytes { update($0) } }

  /// The digest of all bytes since the start; the hasher is then as new.
  package func finish() -> Digest {
    var words = SIMD4<UInt64>()
    withUnsafeMutableBytes(of: &words) { bytes in
      _ = EVP_DigestFinal_ex(context, bytes.bindMemory(to: UInt8.self).baseAddress, nil)
    }
    restart()
    return Digest(words: words)
  }

  // Looking the algorithm up takes a lock and a search; the digest of a small file would feel it.
  private static let algorithm = UInt(bitPattern: EVP_MD_fetch(nil, "SHA256", nil))

  private func restart() { EVP_DigestInit_ex(context, OpaquePointer(bitPattern: Self.algorithm), nil) }
}
