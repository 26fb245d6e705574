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

  /// Creates a digest from 64 hexadecimal digits.
  package init?(hex text: String) {
    let digits = Array(text.utf8)
    guard digits.count == 64 else { return nil }
    func value(_ digit: UInt8) -> UInt8? {
      switch digit {
      case 48...57: digit - 48
      case 97...102: digit - 87
      default: nil
      }
    }
    var bytes: [UInt8] = []
    for index in stride(from: 0, to: 64, by: 2) {
      guard let high = value(digits[index]), let low = value(digits[index + 1]) else { return nil }
      bytes.append(high << 4 | low)
    }
    self.init(bytes: bytes[...])
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

  package static func of(_ bytes: some Sequence<UInt8>) -> Digest {
    let hasher = SHA256()
    hasher.update(Array(bytes))
    return hasher.finish()
  }

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

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(description)
  }
}

/// SHA-256 of bytes that arrive in pieces, by libcrypto, which uses the processor's SHA instructions. One hasher serves one thread.
package final class SHA256 {
  private let context = EVP_MD_CTX_new()

  package init() { restart() }

  deinit { EVP_MD_CTX_free(context) }

  package func update(_ bytes: UnsafeRawBufferPointer) { EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) }

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
