import Foundation
import Simulate
import Uploader

/// A simulated phone: its key, the id that a server gave it, and the number of its last signature.
struct DeviceIdentity: Codable, Sendable {
  enum Signing: String, Codable, Sendable, CaseIterable {
    /// Nothing: the text that would be signed, as the app really sends it.
    case s0
    /// The text of `s0`, signed by the key.
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
    guard let identity = try? JSONDecoder().decode(DeviceIdentity.self, from: data), identity.secret.count == 32 else {
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

  private var key: SigningKey { SigningKey(secret: Array(secret)) }

  /// A new secret number.
  static func newSecret() -> Data { Data(SigningKey(seed: .random(in: 0 ... .max)).secret) }

  /// The public key: 04, X and Y.
  var publicPoint: Data { Data(key.publicPoint) }

  mutating func nextCounter() -> UInt32 {
    counter += 1
    return counter
  }

  /// `X-Device-Signature` of a request, in base64.
  ///
  /// - Parameters:
  ///   - timestamp: Milliseconds since 1970.
  ///   - digest: Lowercase hexadecimal SHA-256 of the whole body.
  func signature(_ signing: Signing, method: String, path: String, timestamp: Int64, digest: String, appID: String) -> String {
    let text = Data("\(method)\n\(path)\n\(timestamp)\n\(device_id)".utf8)
    switch signing {
    case .s0: return text.base64EncodedString()
    case .s1: return Data(key.sign(Array(text))).base64EncodedString()
    case .s2: return assertion(over: Array("\(timestamp)|\(digest)".utf8), appID: appID).base64EncodedString()
    }
  }

  /// An App Attest assertion over `clientData`, with the present counter.
  func assertion(over clientData: [UInt8], appID: String) -> Data {
    Data(key.assertion(over: clientData, appID: appID, counter: counter))
  }
}
