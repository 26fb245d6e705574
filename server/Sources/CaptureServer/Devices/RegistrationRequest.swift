import Evidence
import Foundation

/// The body of a registration, in one of three forms:
///
///     {"platform":"ios","model":"iPhone16,1","has_lidar":true,
///      "attestation":{"key_id":"…","attestation_object":"…","challenge":"…"}}
///     {"platform":"ios","model":"iPhone16,1","has_lidar":true,"device_id":"<key id>","attestation_object":"…","challenge":"…"}
///     {"platform":"simulated","model":"script","public_key":"<base64 of 65 bytes>"}
struct RegistrationRequest {
  enum Proof {
    case attestation(Attested)
    /// 65 bytes: 04, X and Y; a point of the curve.
    case publicKey([UInt8])
  }

  struct Attested {
    /// The text that was sent, or standard base64 where it is 32 bytes.
    var keyID: String
    /// SHA-256 of the key; `nil` if the id is no base64 of 32 bytes.
    var keyDigest: [UInt8]?
    /// `nil` if it is no base64.
    var object: [UInt8]?
    /// 32 bytes.
    var challenge: Data
    /// Whether these are the values of the app's debug builds.
    var isMock: Bool
  }

  var platform: String
  var model: String
  var hasLidar: Bool
  var proof: Proof

  /// Most bytes of a body.
  static let limit = 256 << 10

  private struct Body: Decodable {
    struct Attestation: Decodable { var key_id, attestation_object, challenge: String? }
    var platform, model: String?
    var has_lidar: Bool?
    var attestation: Attestation?
    var device_id, attestation_object, challenge, public_key: String?
  }

  /// Throws `Failure` 400, or 401 for a challenge of a wrong length.
  init(json: Data) throws {
    let body: Body
    do {
      body = try JSONDecoder().decode(Body.self, from: json)
    } catch DecodingError.typeMismatch(_, let context) where !context.codingPath.isEmpty {
      throw Failure.invalid("\(context.codingPath.map(\.stringValue).joined(separator: ".")) has a wrong type")
    } catch {
      throw Failure.invalid("The body is not a JSON object")
    }
    let isFlat = body.attestation == nil
    platform = body.platform ?? (isFlat && body.device_id != nil ? "ios" : "")
    guard ["ios", "android", "simulated"].contains(platform) else {
      throw Failure.invalid("platform must be ios, android or simulated")
    }
    model = try Self.line(body.model ?? (isFlat && body.device_id != nil ? "unknown" : nil), "model")
    hasLidar = body.has_lidar ?? false

    if platform == "simulated" {
      guard let text = body.public_key else { throw Failure.invalid("public_key is missing") }
      guard let point = Base64.decode(text)?.bytes, Evidence.P256.PublicKey(point: point) != nil else {
        throw Failure.invalid("public_key must be base64 of a P-256 key: 65 bytes, 04, X and Y")
      }
      proof = .publicKey(point)
      return
    }
    let sent =
      body.attestation ?? .init(key_id: body.device_id, attestation_object: body.attestation_object, challenge: body.challenge)
    let name = isFlat ? "" : "attestation."
    guard let object = sent.attestation_object else { throw Failure.invalid("\(name)attestation_object is missing") }
    guard let challenge = sent.challenge else { throw Failure.invalid("\(name)challenge is missing") }
    guard let challenge = Base64.decode(challenge)?.bytes, challenge.count == Challenges.length else {
      throw Failure(.unauthorized, "CHALLENGE_INVALID", "The challenge must be base64 of \(Challenges.length) bytes")
    }
    let keyID = try Self.line(sent.key_id, isFlat ? "device_id" : "attestation.key_id")
    let digest = Base64.decode(keyID)?.bytes
    let decoded = Base64.decode(object)?.bytes
    proof = .attestation(
      Attested(
        keyID: digest?.count == 32 ? Data(digest ?? []).base64EncodedString() : keyID,
        keyDigest: digest?.count == 32 ? digest : nil, object: decoded, challenge: Data(challenge),
        isMock: keyID.hasPrefix("debug-mock-key-") || decoded == Array("debug-mock-attestation".utf8)))
  }

  /// A text for people: 1 to 200 characters of one line.
  private static func line(_ text: String?, _ name: String) throws -> String {
    guard let text else { throw Failure.invalid("\(name) is missing") }
    let isLine = text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control && $0.properties.generalCategory != .format }
    guard !text.isEmpty, text.unicodeScalars.count <= 200, isLine else {
      throw Failure.invalid("\(name) must have 1 to 200 characters and no control characters")
    }
    return text
  }
}
