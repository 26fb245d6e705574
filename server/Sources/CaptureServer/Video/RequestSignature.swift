import Crypto
import Evidence
import Foundation

/// A device's signature of a request, and whether it is proven.
struct RequestSignature: Sendable {
  enum Scheme: String, Codable, Sendable {
    /// The text without a signature: `METHOD\nPATH\nTIMESTAMP\nDEVICE` itself, which the apps send.
    case s0
    /// The same text, signed by the device's registered key. The body is not covered.
    case s1
    /// An App Attest assertion over the timestamp and the body's digest.
    case s2
    /// The text that debug builds of the app send where there is no Secure Enclave.
    case mock
  }

  let scheme: Scheme
  private(set) var isVerified: Bool
  /// The counter of an S2 signature.
  private(set) var counter: UInt32?
  /// A number that only this signature of a device with a key has: the counter of S2, a larger number for S1.
  private(set) var number: Int64?
  /// The key that an S2 signature has still to be checked with, once the body's digest is known.
  private let pending: (assertion: Assertion, key: Evidence.P256.PublicKey)?

  /// Recognizes a signature, and checks what can be checked before the body has come.
  ///
  /// - Parameter paths: The request's path, as the server and as the client may know it.
  /// - Throws: `Failure` 401 for a signature that is wrong, or that the policy does not allow.
  init(_ headers: DeviceHeaders, method: String, paths: [String], device: Device, _ configuration: Configuration) throws {
    let key = device.key
    let texts = paths.map { Array("\(method)\n\($0)\n\(headers.sentTimestamp)\n\(headers.sentID)".utf8) }
    var pending: (assertion: Assertion, key: Evidence.P256.PublicKey)?
    if texts.contains(headers.signature) {
      (scheme, isVerified) = (.s0, false)
    } else if headers.signature.elementsEqual("debug-mock-assertion".utf8) {
      (scheme, isVerified) = (.mock, false)
    } else if let assertion = try? Assertion(cbor: headers.signature) {
      (scheme, isVerified) = (.s2, false)
      if let key {
        // Only keys that were attested belong to an app.
        if device.level == Device.attested {
          guard configuration.appIDs.contains(where: { assertion.appDigest.elementsEqual(SHA256.hash(data: Data($0.utf8))) }) else {
            throw Self.invalid("the assertion is of an app that --app-id does not name")
          }
        }
        guard assertion.counter > 0 else { throw Self.invalid("the assertion's counter is 0") }
        (counter, number) = (assertion.counter, Int64(assertion.counter))
        pending = (assertion, key)
      }
    } else if let key, texts.contains(where: { key.verifies(headers.signature, of: $0) }) {
      (scheme, isVerified) = (.s1, true)
      number = Self.number(ofSignature: headers.signature)
    } else if key == nil, Self.isDER(headers.signature) {
      (scheme, isVerified) = (.s1, false)
    } else {
      throw Self.invalid("the signature is of no known kind, or not by the device's key")
    }
    self.pending = pending
    if configuration.policy == .strict, !isVerified, pending == nil {
      throw Self.invalid("the policy strict wants a signature, this is \(scheme.rawValue)")
    }
  }

  /// Whether it is verified, or will be once the body has come and is what was signed.
  var mayBeVerified: Bool { isVerified || pending != nil }

  /// Checks a signature that covers the body. Throws `Failure` 401.
  mutating func check(_ headers: DeviceHeaders, body digest: SHA256Digest) throws {
    guard let (assertion, key) = pending else { return }
    let client = SHA256.hash(data: Data("\(headers.sentTimestamp)|\(Hex.text(digest))".utf8))
    guard assertion.isSigned(by: key, clientDataHash: Array(client)) else {
      throw Self.invalid("the assertion does not cover this timestamp and body, or is of another key")
    }
    isVerified = true
  }

  private static func invalid(_ reason: String) -> Failure {
    Failure(.unauthorized, "SIGNATURE_INVALID", "The request's signature is not valid", reason: reason)
  }

  /// A number of 63 bits, larger than all counters, for a valid ECDSA signature: a digest of its first half r. Whoever has seen a signature
  /// can make up another second half for the same message, but no other r.
  private static func number(ofSignature bytes: [UInt8]) -> Int64 {
    let r = bytes.count == 64 ? bytes[..<32] : bytes.dropFirst(4).prefix(bytes.count > 3 ? Int(bytes[3]) : 0)
    let digest = SHA256.hash(data: Array(r.drop { $0 == 0 }))
    return Int64(digest.prefix(8).reduce(0) { $0 << 8 | UInt64($1) } >> 1 | 1 << 62)
  }

  /// Whether these bytes have the shape of an ECDSA signature of P-256: a sequence that holds all of them.
  private static func isDER(_ bytes: [UInt8]) -> Bool {
    (8...72).contains(bytes.count) && bytes[0] == 0x30 && Int(bytes[1]) == bytes.count - 2 && bytes[2] == 0x02
  }
}

extension Device {
  /// The level of a device whose key Apple vouches for.
  static let attested = "secure_enclave"

  /// Its registered key; `nil` for a device that registered none.
  var key: Evidence.P256.PublicKey? { level == "unverified" ? nil : publicKey.flatMap { Evidence.P256.PublicKey(point: Array($0)) } }
}
