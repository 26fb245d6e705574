import Crypto
import Foundation

/// A simulated phone: its key, the id that a server gave it, and the number of its last signature.
struct DeviceIdentity: Codable, Sendable {
  enum Signing: String, Codable, Sendable, CaseIterable {
    /// Nothing: the text that would be signed, as the app really sends it.
    case s0
    /// That text, signed by the key.
    case s1
    /// An App Attest assertion over time and body.
    case s2
  }

  var server: String
  var device_id: String
  /// The secret number of a P-256 key.
  var secret: Data
  var counter: UInt32

  /// Reads a file, `nil` where there is none. Throws `UploaderProblem` where it is another server's, or none of these files.
  static func read(_ path: String, server: String) throws -> DeviceIdentity? {
    guard let data = FileManager.default.contents(atPath: path) else {
      if access(path, F_OK) != 0 { return nil }
      throw UploaderProblem("\(path): it cannot be read")
    }
    guard let identity = try? JSONDecoder().decode(DeviceIdentity.self, from: data), (try? identity.key) != nil else {
      throw UploaderProblem("\(path): it holds no simulated device")
    }
    guard identity.server == server else { throw UploaderProblem("\(path): its device is registered at \(identity.server)") }
    return identity
  }

  /// Replaces a file, which only its owner can read.
  func write(_ path: String) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    let temporary = path + ".new"
    let descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw UploaderProblem("cannot write \(path): \(String(cString: strerror(errno)))") }
    let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    do {
      try file.write(contentsOf: try encoder.encode(self) + Data("\n".utf8))
      try file.synchronize()
      try file.close()
    } catch {
      throw UploaderProblem("cannot write \(path)")
    }
    guard rename(temporary, path) == 0 else { throw UploaderProblem("cannot write \(path): \(String(cString: strerror(errno)))") }
  }

  private var key: P256.Signing.PrivateKey { get throws { try P256.Signing.PrivateKey(rawRepresentation: secret) } }

  /// The public key: 04, X and Y.
  var publicPoint: Data { get throws { try key.publicKey.x963Representation } }

  mutating func nextCounter() -> UInt32 {
    counter += 1
    return counter
  }

  /// `X-Device-Signature` of a request, in base64.
  ///
  /// - Parameters:
  ///   - timestamp: Milliseconds since 1970.
  ///   - digest: Lowercase hexadecimal SHA-256 of the whole body.
  func signature(_ signing: Signing, method: String, path: String, timestamp: Int64, digest: String, appID: String) throws -> String {
    let text = Data("\(method)\n\(path)\n\(timestamp)\n\(device_id)".utf8)
    switch signing {
    case .s0: return text.base64EncodedString()
    case .s1: return try key.signature(for: text).derRepresentation.base64EncodedString()
    case .s2: return try assertion(over: Data("\(timestamp)|\(digest)".utf8), appID: appID).base64EncodedString()
    }
  }

  /// An App Attest assertion with the present counter: CBOR `{signature, authenticatorData}`, whose signature is over
  /// SHA-256(authenticatorData ‖ SHA-256(clientData)).
  func assertion(over clientData: Data, appID: String) throws -> Data {
    var authenticatorData = Data(SHA256.hash(data: Data(appID.utf8)))
    authenticatorData.append(0x40)
    withUnsafeBytes(of: counter.bigEndian) { authenticatorData.append(contentsOf: $0) }
    let nonce = Data(SHA256.hash(data: authenticatorData + Data(SHA256.hash(data: clientData))))
    let signature = try key.signature(for: nonce).derRepresentation
    func text(_ text: String) -> Data { Data([0x60 | UInt8(text.utf8.count)] + Array(text.utf8)) }
    func bytes(_ bytes: Data) -> Data { Data([0x58, UInt8(bytes.count)]) + bytes }
    return Data([0xA2]) + text("signature") + bytes(signature) + text("authenticatorData") + bytes(authenticatorData)
  }
}
