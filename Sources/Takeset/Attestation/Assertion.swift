import Model

/// A signature that a phone's Secure Enclave made through Apple's App Attest service: CBOR (RFC 8949) of a map of
/// `signature` and `authenticatorData`.
struct Assertion: Equatable {
  let signature: [UInt8]
  /// 32-byte digest of the app id, a byte of flags, a 32-bit counter, most significant byte first.
  let authenticatorData: [UInt8]

  var appDigest: [UInt8] { Array(authenticatorData.prefix(32)) }
  var counter: UInt32 { authenticatorData[33..<37].reduce(0) { $0 << 8 | UInt32($1) } }

  init(signature: [UInt8], authenticatorData: [UInt8]) {
    self.signature = signature
    self.authenticatorData = authenticatorData
  }

  /// - Throws: `Malformed` with a message.
  init(cbor bytes: [UInt8]) throws {
    var reader = CBORReader(bytes)
    var members: [String: [UInt8]] = [:]
    for _ in 0..<(try reader.mapCount()) {
      guard let key = try reader.text() else { throw Malformed("a key of the map is not text") }
      if let value = try reader.bytes() { members[key] = value }
    }
    guard reader.isAtEnd else { throw Malformed("bytes follow the map") }
    guard let signature = members["signature"], let data = members["authenticatorData"] else {
      throw Malformed("the map lacks signature or authenticatorData")
    }
    guard data.count >= 37 else { throw Malformed("authenticatorData has \(data.count) bytes, expected at least 37") }
    self.init(signature: signature, authenticatorData: data)
  }

  struct Malformed: Error {
    var message: String
    init(_ message: String) { self.message = message }
  }

  /// Whether `key` made this signature over `clientDataHash`. Apple signs the digest of a nonce that is itself a digest:
  /// nonce = SHA-256(authenticatorData ‖ clientDataHash), and ECDSA hashes the nonce once more.
  func isSigned(by key: P256.PublicKey, clientDataHash: [UInt8]) -> Bool {
    key.verifies(signature, of: Digest.of(authenticatorData + clientDataHash).bytes)
  }
}

/// The subset of CBOR that an assertion needs: a map of text keys and values, nested only a few levels deep.
private struct CBORReader {
  private var rest: ArraySlice<UInt8>

  init(_ bytes: [UInt8]) { rest = bytes[...] }

  var isAtEnd: Bool { rest.isEmpty }

  private typealias Malformed = Assertion.Malformed

  mutating func mapCount() throws -> Int {
    let (type, count) = try head()
    guard type == 5, count <= 16 else { throw Malformed("expected a map, found a value of major type \(type)") }
    return Int(count)
  }

  mutating func text() throws -> String? {
    let (type, count) = try head()
    guard type == 3 else { return nil }
    return String(validating: try take(count), as: UTF8.self)
  }

  /// A byte string; other values are skipped.
  mutating func bytes() throws -> [UInt8]? {
    let (type, count) = try head()
    if type == 2 { return Array(try take(count)) }
    try skip(type, count, depth: 0)
    return nil
  }

  private mutating func skip(_ type: UInt8, _ count: UInt64, depth: Int) throws {
    switch type {
    case 0, 1, 7: break
    case 2, 3: _ = try take(count)
    case 4, 5, 6:
      guard depth < 8, count <= 64 || type == 6 else { throw Malformed("nested too deeply") }
      for _ in 0..<(type == 6 ? 1 : Int(count) * (type == 5 ? 2 : 1)) {
        let (type, count) = try head()
        try skip(type, count, depth: depth + 1)
      }
    default: throw Malformed("an unknown kind of value")
    }
  }

  private mutating func take(_ count: UInt64) throws -> ArraySlice<UInt8> {
    guard count <= UInt64(rest.count) else { throw Malformed("it ends within a value") }
    defer { rest = rest.dropFirst(Int(count)) }
    return rest.prefix(Int(count))
  }

  /// Major type and argument of the next value.
  private mutating func head() throws -> (type: UInt8, argument: UInt64) {
    guard let first = rest.popFirst() else { throw Malformed("it ends too early") }
    let (type, short) = (first >> 5, first & 31)
    guard short >= 24 else { return (type, UInt64(short)) }
    guard short <= 27 else { throw Malformed("a value without a length") }
    return (type, try take(1 << UInt64(short - 24)).reduce(0) { $0 << 8 | UInt64($1) })
  }
}
