import Evidence
import Foundation
import Testing

@testable import Provenance

@Suite struct SignedEnvelopeTests {
  /// The key of the first test vector of RFC 8032, section 7.1, as PKCS#8 and as SubjectPublicKeyInfo (RFC 8410).
  private static let secret = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
  private static let point = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"

  private static func bytes(_ hex: String) -> [UInt8] {
    let digits = hex.utf8.compactMap { UInt8(String(UnicodeScalar($0)), radix: 16) }
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
  }

  private static func pem(_ label: String, _ der: [UInt8]) -> [UInt8] {
    Array("-----BEGIN \(label)-----\n\(Data(der).base64EncodedString())\n-----END \(label)-----\n".utf8)
  }

  private static let privatePEM = pem("PRIVATE KEY", bytes("302e020100300506032b657004220420" + secret))
  private static let publicPEM = pem("PUBLIC KEY", bytes("302a300506032b6570032100" + point))

  @Test func signsTheEmptyMessageAsTheStandardDoes() throws {
    let expected = """
      e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b
      """
    let key = try Ed25519.PrivateKey(pem: Self.privatePEM)
    #expect(try key.sign([]) == Self.bytes(expected))
    let publicKey = try Ed25519.PublicKey(pem: Self.publicPEM)
    #expect(publicKey.verifies(Self.bytes(expected), of: []))
    #expect(!publicKey.verifies(Self.bytes(expected), of: [0]))
    #expect(try key.publicKey.id == publicKey.id)
  }

  @Test func encodesTypeAndBodyWithTheirLengths() {
    // The example of the DSSE protocol.
    let encoded = SignedEnvelope.signed(Array("hello world".utf8), type: "http://example.com/HelloWorld")
    #expect(String(decoding: encoded, as: UTF8.self) == "DSSEv1 29 http://example.com/HelloWorld 11 hello world")
  }

  @Test func givesThePayloadToTheKeyThatSignedIt() throws {
    let envelope = try SignedEnvelope(signing: ["a": 1], with: Ed25519.PrivateKey(pem: Self.privatePEM))
    let key = try Ed25519.PublicKey(pem: Self.publicPEM)
    #expect(envelope.payload(signedBy: key) == Array(#"{"a":1}"#.utf8))
    #expect(try SignedEnvelope(json: envelope.json.canonicalBytes) == envelope)
    var other = envelope
    other.payload = Data(#"{"a":2}"#.utf8).base64EncodedString()
    #expect(other.payload(signedBy: key) == nil)
  }

  @Test func refusesKeysThatAreNotOfThisKind() {
    #expect(throws: Ed25519.KeyError.self) { try Ed25519.PrivateKey(pem: Self.publicPEM) }
    #expect(throws: Ed25519.KeyError.self) { try Ed25519.PublicKey(pem: Self.privatePEM) }
    #expect(throws: Ed25519.KeyError.self) { try Ed25519.PrivateKey(pem: Array(Self.privatePEM.dropLast(40))) }
    #expect(throws: Ed25519.KeyError.self) { try Ed25519.PublicKey(pem: []) }
  }

  /// What a key has signed as something else proves nothing of a dataset.
  @Test func refusesAnotherTypeThoughTheKeySignedIt() throws {
    let key = try Ed25519.PrivateKey(pem: Self.privatePEM)
    var envelope = try SignedEnvelope(signing: ["a": 1], with: key)
    envelope.payloadType = "application/json"
    let message = SignedEnvelope.signed(Array(#"{"a":1}"#.utf8), type: envelope.payloadType)
    envelope.signatures[0].sig = Data(try key.sign(message)).base64EncodedString()
    #expect(envelope.payload(signedBy: try key.publicKey) == nil)
  }
}
