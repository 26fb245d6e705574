/// A signature that a phone's Secure Enclave made through Apple's App Attest service: CBOR (RFC 8949) of a map of
/// `signature` and `authenticatorData`.
public struct Assertion: Equatable, Sendable {
  public let signature: [UInt8]
  /// 32-byte digest of the app id, a byte of flags, a 32-bit counter, most significant byte first.
  public let authenticatorData: [UInt8]

  public var appDigest: [UInt8] { Array(authenticatorData.prefix(32)) }
  public var counter: UInt32 { authenticatorData[33..<37].reduce(0) { $0 << 8 | UInt32($1) } }

  package init(signature: [UInt8], authenticatorData: [UInt8]) {
    self.signature = signature
    self.authenticatorData = authenticatorData
  }

  /// - Throws: `CBOR.Malformed` with a message.
  public init(cbor bytes: [UInt8]) throws {
    let map = try CBOR(bytes)
    guard map.isMap else { throw CBOR.Malformed("expected a map") }
    guard let signature = map["signature"]?.byteString, let data = map["authenticatorData"]?.byteString else {
      throw CBOR.Malformed("the map lacks signature or authenticatorData")
    }
    guard data.count >= 37 else { throw CBOR.Malformed("authenticatorData has \(data.count) bytes, expected at least 37") }
    self.init(signature: signature, authenticatorData: data)
  }

  /// Whether `key` made this signature over `clientDataHash`. Apple signs the digest of a nonce that is itself a digest:
  /// nonce = SHA-256(authenticatorData ‖ clientDataHash), and ECDSA hashes the nonce once more.
  public func isSigned(by key: P256.PublicKey, clientDataHash: [UInt8]) -> Bool {
    key.verifies(signature, of: Digest.of(authenticatorData + clientDataHash).bytes)
  }
}
