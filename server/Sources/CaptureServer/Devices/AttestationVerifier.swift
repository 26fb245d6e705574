import Crypto
import Foundation
import SwiftASN1
@_spi(FixedExpiryValidationTime) import X509

/// Verifies App Attest attestations: that a key was made in the Secure Enclave of a genuine phone, by one of our apps, for our challenge.
struct AttestationVerifier: Sendable {
  private let roots: [Certificate]
  private let appDigests: [[UInt8]]
  private let allowsDevelopment: Bool

  /// The extension of the leaf certificate that holds the nonce.
  private static let nonceExtension: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 8, 2]

  /// `nil` without roots: then no attestation can be verified. Throws `Mistake`.
  init?(_ configuration: Configuration) throws {
    guard let path = configuration.appAttestRoot else { return nil }
    guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { throw Mistake("--app-attest-root \(path): cannot be read") }
    do {
      roots = try PEMDocument.parseMultiple(pemString: text).map { try Certificate(pemDocument: $0) }
    } catch {
      throw Mistake("--app-attest-root \(path): expected certificates in PEM")
    }
    guard !roots.isEmpty else { throw Mistake("--app-attest-root \(path): no certificate in it") }
    guard !configuration.appIDs.isEmpty else {
      throw Mistake("--app-attest-root needs --app-id: the apps that may attest, such as ABCDE12345.com.example.app")
    }
    appDigests = configuration.appIDs.map { Array(SHA256.hash(data: Data($0.utf8))) }
    allowsDevelopment = configuration.allowsDevelopment
  }

  /// - Parameters:
  ///   - keyID: SHA-256 of the key, as the phone names it.
  ///   - challenge: The 32 bytes that the phone was given.
  ///   - time: Time at which the certificates must be valid.
  /// - Returns: The attested key: 65 bytes 04, X and Y.
  /// - Throws: `Refusal` with the first step that fails.
  func key(attestedBy bytes: [UInt8], keyID: [UInt8], challenge: [UInt8], at time: Date) async throws -> [UInt8] {
    let object = try AttestationObject(bytes)
    let leaf = try Self.certificate(object.leaf, "leaf")
    let intermediate = try Self.certificate(object.intermediate, "intermediate")
    try await checkChain(leaf, intermediate, at: time)

    let clientDataHash = Array(SHA256.hash(data: challenge))
    let nonce = Array(SHA256.hash(data: object.authenticatorData + clientDataHash))
    guard try Self.nonce(of: leaf) == nonce else { throw Refusal("wrong nonce: the attestation was made for another challenge or data") }

    guard let key = Crypto.P256.Signing.PublicKey(leaf.publicKey).map({ Array($0.x963Representation) }) else {
      throw Refusal("the leaf certificate's key is not on P-256")
    }
    guard Array(SHA256.hash(data: key)) == keyID else { throw Refusal("wrong key id: it is not the digest of the leaf certificate's key") }

    let data = try AuthenticatorData(object.authenticatorData)
    guard appDigests.contains(data.appDigest) else { throw Refusal("wrong app: the attestation is of an app that is not configured") }
    guard data.flags & 0x40 != 0 else { throw Refusal("authenticator data has no attested credential") }
    guard data.counter == 0 else { throw Refusal("the counter is \(data.counter), expected 0") }
    switch data.environment {
    case AuthenticatorData.production: break
    case AuthenticatorData.development:
      guard allowsDevelopment else { throw Refusal("wrong environment: the app is a development build") }
    default: throw Refusal("wrong environment: the authenticator is not App Attest")
    }
    guard data.credentialID == keyID else { throw Refusal("wrong credential id: it is not the key id") }
    guard data.publicKey == key else { throw Refusal("wrong credential key: it is not the leaf certificate's key") }
    return key
  }

  private static func certificate(_ der: [UInt8], _ name: String) throws(Refusal) -> Certificate {
    do { return try Certificate(derEncoded: der) } catch { throw Refusal("the \(name) certificate cannot be read: \(error)") }
  }

  /// Checks that the chain is leaf, intermediate, root and nothing else, and what each may be used for.
  private func checkChain(_ leaf: Certificate, _ intermediate: Certificate, at time: Date) async throws {
    /// A text in which a certificate is a word, not a page.
    func named(_ text: String) -> String {
      [(leaf, "LEAF"), (intermediate, "INTERMEDIATE")].reduce(text) { text, entry in
        text.replacingOccurrences(of: String(reflecting: entry.0), with: entry.1).replacingOccurrences(of: "\(entry.0)", with: entry.1)
      }
    }
    var verifier = Verifier(rootCertificates: CertificateStore(roots)) { RFC5280Policy(fixedExpiryValidationTime: time) }
    var remarks: [String] = []
    let result = await verifier.validate(leaf: leaf, intermediates: CertificateStore([intermediate])) { remarks.append(named("\($0)")) }
    guard case .validCertificate(let chain) = result else {
      guard case .couldNotValidate(let failures) = result, let failure = failures.first else {
        let last = remarks.last { !$0.hasPrefix("Could not validate leaf") } ?? ""
        throw Refusal("the certificates do not lead to a configured root: \(last)")
      }
      throw Refusal("the chain of certificates is not valid: \(named("\(failure.policyFailureReason)"))")
    }
    guard chain.count == 3, Array(chain)[1] == intermediate else {
      throw Refusal("the chain of certificates is not leaf, intermediate and root")
    }
    // The verifier leaves these to its caller.
    for issuer in Array(chain)[1...] where issuer.version != .v3 { throw Refusal("a certificate of the chain is not of version 3") }
    do {
      if case .isCertificateAuthority = try leaf.extensions.basicConstraints { throw Refusal("the leaf certificate is an authority") }
      if let usage = try leaf.extensions.keyUsage, !usage.digitalSignature {
        throw Refusal("the leaf certificate is not for signatures")
      }
      for issuer in Array(chain)[1...] {
        if let usage = try issuer.extensions.keyUsage, !usage.keyCertSign {
          throw Refusal("a certificate of the chain is not for signing certificates")
        }
      }
    } catch let refusal as Refusal {
      throw refusal
    } catch {
      throw Refusal("an extension of a certificate cannot be read: \(error)")
    }
  }

  /// The octets in `SEQUENCE { [1] EXPLICIT OCTET STRING }`.
  private static func nonce(of leaf: Certificate) throws(Refusal) -> [UInt8] {
    guard let value = leaf.extensions[oid: nonceExtension]?.value else { throw Refusal("wrong nonce: the leaf certificate has none") }
    do {
      return try DER.sequence(try DER.parse(value), identifier: .sequence) { nodes in
        try DER.explicitlyTagged(&nodes, tagNumber: 1, tagClass: .contextSpecific) { Array(try ASN1OctetString(derEncoded: $0).bytes) }
      }
    } catch {
      throw Refusal("wrong nonce: the leaf certificate's extension cannot be read")
    }
  }
}
