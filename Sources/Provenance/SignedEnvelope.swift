import Evidence
import Foundation
import Model

/// A DSSE envelope (version 1.0): a payload in base64, its type, and signatures over both.
package struct SignedEnvelope: Codable, Equatable {
  static let payloadType = "application/vnd.in-toto+json"

  struct Signature: Codable, Equatable {
    /// A hint; nothing is decided by it.
    var keyid: String?
    var sig: String
  }

  var payload: String
  var payloadType: String
  var signatures: [Signature]

  /// Signs a statement. Throws `Ed25519.KeyError`.
  init(signing statement: JSONValue, with key: Ed25519.PrivateKey) throws { try self.init(signing: statement.canonicalBytes, with: key) }

  /// Signs the canonical bytes of a statement. Throws `Ed25519.KeyError`.
  init(signing body: [UInt8], with key: Ed25519.PrivateKey) throws {
    payload = Data(body).base64EncodedString()
    payloadType = Self.payloadType
    let signature = try key.sign(Self.signed(body, type: payloadType))
    signatures = [Signature(keyid: try key.publicKey.id, sig: Data(signature).base64EncodedString())]
  }

  /// Reads an envelope in UTF-8. Throws `DecodingError`, also for a text that is not JSON.
  init(json: [UInt8]) throws {
    // Foundation takes UTF-16 and UTF-32, too, which other readers of the envelope do not, and in which ASCII has zeros.
    guard !json.contains(0) else {
      throw DecodingError.dataCorrupted(DecodingError.Context(codingPath: [], debugDescription: "it is not UTF-8"))
    }
    self = try JSONDecoder().decode(SignedEnvelope.self, from: Data(json))
  }

  var json: JSONValue {
    [
      "payload": .string(payload), "payloadType": .string(payloadType),
      "signatures": .array(signatures.map { ["keyid": JSONValue($0.keyid), "sig": .string($0.sig)] }),
    ]
  }

  /// The payload, if one of the signatures is this key's.
  func payload(signedBy key: Ed25519.PublicKey) -> [UInt8]? {
    guard payloadType == Self.payloadType, let body = Base64.decode(payload)?.bytes else { return nil }
    let message = Self.signed(body, type: payloadType)
    let isSigned = signatures.contains { Base64.decode($0.sig).map { key.verifies($0.bytes, of: message) } ?? false }
    return isSigned ? body : nil
  }

  /// The pre-authentication encoding: what is signed is the type and the body with their lengths, so neither passes for the other.
  static func signed(_ body: [UInt8], type: String) -> [UInt8] {
    Array("DSSEv1 \(type.utf8.count) \(type) \(body.count) ".utf8) + body
  }
}
