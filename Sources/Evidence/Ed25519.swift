import CCrypto

/// Ed25519 signatures (RFC 8032), by libcrypto, with keys in the PEM files that openssl writes.
package enum Ed25519 {
  /// Bytes of a signature.
  package static let signatureLength = 64

  /// The reason why the text of a key cannot be used, to follow the name of its file.
  package struct KeyError: Error, Equatable, CustomStringConvertible {
    package var description: String
  }

  /// A private key: PKCS#8 in PEM, without a passphrase.
  ///
  /// `@unchecked Sendable`: libcrypto only reads it, and counts references atomically.
  package final class PrivateKey: @unchecked Sendable {
    private let key: OpaquePointer

    /// Throws `KeyError`.
    package init(pem: [UInt8]) throws {
      // Without a callback libcrypto would ask for the passphrase on the terminal.
      key = try Ed25519.key(pem, isPrivate: true) { PEM_read_bio_PrivateKey($0, nil, { _, _, _, _ in -1 }, nil) }
    }

    deinit { EVP_PKEY_free(key) }

    package var publicKey: PublicKey {
      get throws {
        guard let der = Ed25519.publicDER(key), let copy = PublicKey(der: der) else {
          throw KeyError(description: "has no public key")
        }
        return copy
      }
    }

    /// The 64 bytes of the signature, which depend only on key and message.
    package func sign(_ message: [UInt8]) throws -> [UInt8] {
      var signature = [UInt8](repeating: 0, count: Ed25519.signatureLength)
      var count = signature.count
      let context = EVP_MD_CTX_new()
      defer { EVP_MD_CTX_free(context) }
      guard EVP_DigestSignInit(context, nil, nil, nil, key) == 1,
        EVP_DigestSign(context, &signature, &count, message, message.count) == 1, count == signature.count
      else { throw KeyError(description: "cannot sign: libcrypto refuses the key") }
      return signature
    }
  }

  /// A public key: SubjectPublicKeyInfo in PEM.
  ///
  /// `@unchecked Sendable`: libcrypto only reads it, and counts references atomically.
  package final class PublicKey: @unchecked Sendable {
    private let key: OpaquePointer
    /// SHA-256 of the key's DER, in hexadecimal: `openssl pkey -pubin -in KEY -outform DER | sha256sum`.
    package let id: String

    /// Throws `KeyError`.
    package init(pem: [UInt8]) throws {
      key = try Ed25519.key(pem, isPrivate: false) { PEM_read_bio_PUBKEY($0, nil, { _, _, _, _ in -1 }, nil) }
      let der = Ed25519.publicDER(key) ?? []
      id = Digest.of(der).description
      let lines = String(decoding: pem, as: UTF8.self).split(whereSeparator: \.isNewline)
      let body = lines.drop { !$0.hasPrefix("-----BEGIN") }.dropFirst().prefix { !$0.hasPrefix("-----END") }.joined()
      guard Base64.decode(body)?.bytes == der else { throw KeyError(description: "has other bytes beside the public key") }
      guard !Ed25519.isOfSmallOrder(Array(der.suffix(32))) else {
        throw KeyError(description: "is a key of small order, for which anybody can make signatures; no private key belongs to it")
      }
    }

    fileprivate init?(der: [UInt8]) {
      let key = der.withUnsafeBufferPointer { bytes in
        var start = bytes.baseAddress
        return d2i_PUBKEY(nil, &start, bytes.count)
      }
      guard let key else { return nil }
      self.key = key
      id = Digest.of(der).description
    }

    deinit { EVP_PKEY_free(key) }

    /// Whether the signature, of 64 bytes, is this key's over the message. False for a signature of another length.
    package func verifies(_ signature: [UInt8], of message: [UInt8]) -> Bool {
      guard signature.count == Ed25519.signatureLength, let context = EVP_MD_CTX_new() else { return false }
      defer { EVP_MD_CTX_free(context) }
      guard EVP_DigestVerifyInit(context, nil, nil, nil, key) == 1 else { return false }
      return EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
    }
  }

  /// Reads a key with `parse`; the errors tell apart what people give by mistake.
  private static func key(_ pem: [UInt8], isPrivate: Bool, _ parse: (OpaquePointer) -> OpaquePointer?) throws -> OpaquePointer {
    let text = String(decoding: pem.prefix(1 << 16), as: UTF8.self)
    func refuse(_ words: String) -> KeyError { KeyError(description: words) }
    if isPrivate, text.contains("-----BEGIN PUBLIC KEY-----"), !text.contains("PRIVATE KEY-----") {
      throw refuse("is a public key; sign with the private key")
    }
    if !isPrivate, text.contains("PRIVATE KEY-----") {
      throw refuse("is a private key, which verifying must not need; write its public key with openssl pkey -in KEY -pubout")
    }
    if text.contains("ENCRYPTED") {
      throw refuse("is protected by a passphrase; write it without one with openssl pkey -in KEY -out OTHER")
    }
    guard !pem.isEmpty, pem.count <= 1 << 16 else { throw refuse("is no PEM file of a key: it has \(pem.count) bytes") }
    let parsed = pem.withUnsafeBytes { bytes in
      guard let bio = BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count)) else { return nil as OpaquePointer? }
      defer { BIO_free(bio) }
      return parse(bio)
    }
    guard let parsed else {
      throw refuse(
        isPrivate
          ? "is no PEM file of a private key; make one with openssl genpkey -algorithm ed25519 -out KEY"
          : "is no PEM file of a public key; write one with openssl pkey -in KEY -pubout")
    }
    guard EVP_PKEY_is_a(parsed, "ED25519") == 1 else {
      let name = EVP_PKEY_get0_type_name(parsed).map { String(cString: $0) } ?? "another kind"
      EVP_PKEY_free(parsed)
      throw refuse("is a key of \(name); only Ed25519 is used: openssl genpkey -algorithm ed25519")
    }
    return parsed
  }

  /// Whether a point's multiples are eight at most, so that signatures prove nothing: the y coordinates of all such points, and encodings of
  /// them that are not reduced, whatever the sign of x (Chalkias, Garillot, Nikolaenko: Taming the many EdDSAs, 2020, table 1).
  static func isOfSmallOrder(_ point: [UInt8]) -> Bool {
    guard point.count == 32, let last = point.last else { return true }
    let y = (point.dropLast() + [last & 0x7F]).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    let zeros = String(repeating: "0", count: 62), ones = String(repeating: "f", count: 60)
    return [
      "00" + zeros, "01" + zeros, "ec\(ones)7f", "ed\(ones)7f", "ee\(ones)7f",
      "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
      "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    ].contains(y)
  }

  private static func publicDER(_ key: OpaquePointer) -> [UInt8]? {
    let count = Int(i2d_PUBKEY(key, nil))
    guard count > 0 else { return nil }
    var der = [UInt8](repeating: 0, count: count)
    let written = der.withUnsafeMutableBufferPointer { buffer in
      var next = buffer.baseAddress
      return i2d_PUBKEY(key, &next)
    }
    return Int(written) == count ? der : nil
  }
}
