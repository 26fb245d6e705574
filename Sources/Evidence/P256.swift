import CCrypto

/// ECDSA signatures on the curve NIST P-256 (FIPS 186-5), by libcrypto.
public enum P256 {
  /// A public key.
  ///
  /// `@unchecked Sendable`: libcrypto only reads it, and counts references atomically.
  public final class PublicKey: @unchecked Sendable {
    private let key: OpaquePointer

    /// DER of a SubjectPublicKeyInfo for prime256v1, up to the point (RFC 5480).
    private static let prefix: [UInt8] = [
      0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03,
      0x01, 0x07, 0x03, 0x42, 0x00,
    ]

    /// - Parameter point: 65 bytes: 04, X and Y. The result is `nil` for anything that is not a point of the curve.
    public init?(point: [UInt8]) {
      guard point.count == 65, point[0] == 4 else { return nil }
      let der = Self.prefix + point
      let key = der.withUnsafeBufferPointer { bytes in
        var start = bytes.baseAddress
        return d2i_PUBKEY(nil, &start, bytes.count)
      }
      guard let key else { return nil }
      self.key = key
    }

    deinit { EVP_PKEY_free(key) }

    /// Whether `signature` (ASN.1 DER, or 64 bytes r and s) is this key's ECDSA signature of the SHA-256 digest of `message`.
    public func verifies(_ signature: [UInt8], of message: [UInt8]) -> Bool {
      let der = signature.count == 64 ? P256.der(r: signature[..<32], s: signature[32...]) : signature
      guard let context = EVP_MD_CTX_new() else { return false }
      defer { EVP_MD_CTX_free(context) }
      guard EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1 else { return false }
      return EVP_DigestVerify(context, der, der.count, message, message.count) == 1
    }
  }

  /// The ASN.1 form of a signature: a sequence of two integers.
  package static func der(r: some Sequence<UInt8>, s: some Sequence<UInt8>) -> [UInt8] {
    func integer(_ bytes: some Sequence<UInt8>) -> [UInt8] {
      var digits = Array(bytes.drop { $0 == 0 })
      if digits.first.map({ $0 >= 0x80 }) ?? true { digits.insert(0, at: 0) }
      return [0x02, UInt8(digits.count)] + digits
    }
    let body = integer(r) + integer(s)
    return [0x30, UInt8(body.count)] + body
  }
}
