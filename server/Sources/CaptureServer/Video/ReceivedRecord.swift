import Foundation

/// The facts about a request besides its parts; kept as `received.json` with the capture, so that its signature can be checked again at any
/// time.
struct ReceivedRecord: Encodable, Sendable {
  struct Signature: Encodable, Sendable {
    var scheme: RequestSignature.Scheme
    var verified: Bool
    var counter: UInt32?
  }

  struct Part: Encodable, Sendable {
    var bytes: Int64
    var file: String
    var sha256: String
  }

  var body_bytes: Int64
  var body_sha256: String
  var capture_id: String
  var device_id: String
  var device_level: String
  /// The headers that count, as sent.
  var headers: [String: String]
  var method = "POST"
  var parts: [String: Part]
  var path: String
  var policy: Configuration.Policy
  var received_at: String
  var request_id: String
  var signature: Signature

  static let fileName = "received.json"
}
