import Evidence

/// The attestation that App Attest made on a phone when its key was born: CBOR of format, two certificates, and data of the authenticator.
struct AttestationObject: Equatable {
  /// DER of the key's certificate and of its issuer.
  var leaf: [UInt8]
  var intermediate: [UInt8]
  /// The bytes that the nonce covers.
  var authenticatorData: [UInt8]

  /// Throws `Refusal`.
  init(_ bytes: [UInt8]) throws(Refusal) {
    let object: CBOR
    do { object = try CBOR(bytes) } catch { throw Refusal("the attestation is not CBOR: \(error)") }
    guard object.isMap else { throw Refusal("the attestation is not a map") }
    guard object["fmt"]?.string == "apple-appattest" else { throw Refusal("the attestation's format is not apple-appattest") }
    guard let certificates = object["attStmt"]?["x5c"]?.elements else { throw Refusal("the attestation has no certificates") }
    guard certificates.count == 2 else {
      throw Refusal("number of certificates: \(certificates.count), expected a leaf and one intermediate")
    }
    guard let leaf = certificates[0].byteString, let intermediate = certificates[1].byteString else {
      throw Refusal("the attestation's certificates are not byte strings")
    }
    guard let data = object["authData"]?.byteString else { throw Refusal("the attestation has no authenticator data") }
    self.leaf = leaf
    self.intermediate = intermediate
    authenticatorData = data
  }
}

/// The fields of an attestation's authenticator data (WebAuthn, section 6.1).
struct AuthenticatorData: Equatable {
  /// SHA-256 of the app id.
  var appDigest: [UInt8]
  var flags: UInt8
  var counter: UInt32
  /// The environment of App Attest that made the key.
  var environment: [UInt8]
  var credentialID: [UInt8]
  /// 65 bytes: 04, X and Y.
  var publicKey: [UInt8]

  static let production = Array("appattest".utf8) + [UInt8](repeating: 0, count: 7)
  static let development = Array("appattestdevelop".utf8)

  /// Throws `Refusal`, also if bytes follow the key.
  init(_ bytes: [UInt8]) throws(Refusal) {
    guard bytes.count >= 55 else { throw Refusal("authenticator data has \(bytes.count) bytes, expected more than 55") }
    appDigest = Array(bytes[..<32])
    flags = bytes[32]
    counter = bytes[33..<37].reduce(0) { $0 << 8 | UInt32($1) }
    environment = Array(bytes[37..<53])
    let length = Int(bytes[53]) << 8 | Int(bytes[54])
    guard bytes.count - 55 > length else { throw Refusal("authenticator data ends within the credential") }
    credentialID = Array(bytes[55..<55 + length])
    let key: CBOR
    do { key = try CBOR(Array(bytes[(55 + length)...])) } catch { throw Refusal("the credential's key is not CBOR: \(error)") }
    // COSE (RFC 9053): an elliptic curve key with two coordinates, on P-256, for ES256.
    guard key[1]?.integer == 2, key[-1]?.integer == 1, key[3]?.integer == -7 else {
      throw Refusal("the credential's key is not an ES256 key on P-256")
    }
    guard let x = key[-2]?.byteString, let y = key[-3]?.byteString, x.count == 32, y.count == 32 else {
      throw Refusal("the credential's key has no coordinates of 32 bytes")
    }
    publicKey = [4] + x + y
  }
}

/// The reason why an attestation proves nothing: for the log, not for the client. Contains no text that a client sent, but for printable
/// ASCII.
struct Refusal: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) {
    let isPrintable: (Unicode.Scalar) -> Bool = { (" "..."~").contains($0) }
    self.description = String(String.UnicodeScalarView(description.unicodeScalars.prefix(600).map { isPrintable($0) ? $0 : "?" }))
  }
}
