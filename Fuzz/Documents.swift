import Evidence
import Foundation
import Model

@testable import Datasets
@testable import Merging
@testable import Provenance
@testable import Readers
@testable import Steps

extension FuzzTarget {
  /// JSON, CBOR, and texts of a line.
  static let documents = [json, cbor, keys, envelope, words]

  /// What is skipped is what is read; the canonical form reads back as the same value, whatever pieces the text comes in.
  private static let json = FuzzTarget("json", throws: JSONError.self) { bytes in
    func skipped() -> JSONError? {
      let reader = JSONReader(bytes)
      do {
        try reader.skip()
        try reader.expectEnd()
        return nil
      } catch { return error as? JSONError }
    }
    let reader = JSONReader(bytes)
    let value: JSONValue
    do {
      value = try reader.value()
      try reader.expectEnd()
    } catch let error as JSONError {
      // Only keys that come twice are refused in values and skipped elsewhere.
      expect(skipped() != nil || error.message.contains("twice"), "skips what it does not read: \(error)")
      throw error
    }
    expect(skipped() == nil, "reads what it does not skip")
    var rest = bytes[...]
    let pieces = JSONReader { buffer in
      let piece = rest.prefix(min(7, buffer.count))
      buffer.copyBytes(from: piece)
      rest = rest.dropFirst(piece.count)
      return piece.count
    }
    let canonical = value.canonicalBytes
    expect(must("in pieces") { try pieces.value() }.canonicalBytes == canonical, "another value in pieces")
    let again = must("canonical") { try JSONReader(canonical).value() }
    expect(again.canonicalBytes == canonical, "the canonical form is not stable")
    _ = VerificationBadge(value)
  }

  private static let cbor = FuzzTarget("cbor", throws: CBOR.Malformed.self) { bytes in
    let start = try CBOR(startOf: bytes)
    if let whole = try? CBOR(bytes) { expect(whole == start, "the start of a value is not the value") }
    let assertion = try Assertion(cbor: bytes)
    expect(assertion.appDigest.count == 32, "an app's digest of \(assertion.appDigest.count) bytes")
    _ = assertion.counter
  }

  /// Keys of devices, and keys to sign and verify with.
  private static let keys = FuzzTarget("keys", throws: UsageError.self, Ed25519.KeyError.self) { bytes in
    guard let first = bytes.first else { return }
    let text = Array(bytes.dropFirst())
    switch first % 3 {
    case 0: _ = try DeviceKeys(text, name: "keys.json")
    case 1: _ = try Ed25519.PublicKey(pem: text).verifies([UInt8](repeating: 0, count: 64), of: text)
    default:
      let key = try Ed25519.PrivateKey(pem: text)
      let signature = must("signing") { try key.sign(text) }
      expect(must("public key") { try key.publicKey }.verifies(signature, of: text), "its own signature does not verify")
    }
  }

  private static let envelope = FuzzTarget("envelope", throws: DecodingError.self) { bytes in
    let envelope = try SignedEnvelope(json: bytes)
    expect(must("again") { try SignedEnvelope(json: envelope.json.canonicalBytes) } == envelope, "another envelope when read again")
    expect(envelope.payload(signedBy: signer) == nil, "a signature by a key that has signed nothing")
  }

  /// A key that has signed nothing.
  private static let signer = must("key") {
    try Ed25519.PublicKey(
      pem: Array(
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAfyLVOyJAHBNCtLJ0MLbhQqLFFpiiC165JO8TtN7bgS8=\n-----END PUBLIC KEY-----\n".utf8))
  }

  /// Texts of a line: the first byte selects the kind.
  private static let words = FuzzTarget("words", throws: UsageError.self) { bytes in
    guard let first = bytes.first else { return }
    let rest = bytes.dropFirst()
    let text = String(decoding: rest, as: UTF8.self)
    switch first % 7 {
    case 0:
      if let time = UnixTime.nanoseconds(rfc3339: text) {
        let written = UnixTime.rfc3339(seconds: time / 1_000_000_000)
        expect(UnixTime.nanoseconds(rfc3339: written) == time / 1_000_000_000 * 1_000_000_000, "\(text) is not \(written)")
      }
    case 1:
      if let digest = Base64.digest(text) { expect(digest.bytes.count == 32, "a digest of \(digest.bytes.count) bytes") }
    case 2:
      if let digest = Digest(hex: text) { expect(digest.description == text.lowercased(), "a digest that is written otherwise") }
    case 3:
      if let time = Timestamp(decimalSeconds: rest), let value = Double(text) {
        expect(abs(value * 1e9 - Double(time.nanoseconds)) <= max(1, abs(value) * 1e-6), "\(text) is not \(time.nanoseconds) ns")
      }
    case 4: _ = Day.inName(text)
    case 5:
      if let number = NumberedFiles.number(in: text[...]) { expect(number >= 0, "a frame of number \(number)") }
    default:
      let filter = try TakeFilter(text)
      let subject = TakeFilter.Subject(record: TakeRecord(id: EpisodeID(take: "a"), reader: nil, outcome: .written, findings: [])) { 1.5 }
      _ = try filter.matches(subject)
      _ = filter.misspelledStream(among: [])
    }
  }
}
