import Foundation
import HTTPTypes
import Hummingbird

/// An answer that is not a success, as the capture apps expect it:
///
///     {"error":{"code":"VALIDATION_ERROR","message":"…"},"meta":{"request_id":"…","timestamp":"…"}}
///
/// `message` goes to the client: no paths, no names of software. `reason` goes to the log only.
struct Failure: Error, HTTPResponseError {
  var status: HTTPResponse.Status
  var code: String
  var message: String
  var headers: HTTPFields
  var reason: String?

  init(
    _ status: HTTPResponse.Status, _ code: String, _ message: String, headers: HTTPFields = [:], reason: String? = nil
  ) {
    self.status = status
    self.code = code
    self.message = message
    self.headers = headers
    self.reason = reason
  }

  static func invalid(_ message: String) -> Failure {
    Failure(.badRequest, "VALIDATION_ERROR", "Validation error: \(message)")
  }
  static func tooLarge(_ message: String) -> Failure { Failure(.contentTooLarge, "PAYLOAD_TOO_LARGE", message) }
  static func insufficientStorage() -> Failure {
    Failure(.fullDisk, "STORAGE_ERROR", "The server is short of disk space. Try again later.")
  }
  static let captureNotFound = Failure(.notFound, "CAPTURE_NOT_FOUND", "There is no such capture")

  func response(from request: Request, context: some RequestContext) throws -> Response {
    let meta = Meta(context)
    return try JSONAnswer.response(
      Body(error: .init(code: code, message: message), meta: meta), status: status, headers: headers)
  }

  private struct Body: Encodable {
    struct Contents: Encodable { var code, message: String }
    var error: Contents
    var meta: Meta
  }
}

/// `meta` of every answer: the request's id, a UUID, and the time.
struct Meta: Encodable, Sendable {
  var request_id: String
  var timestamp: String

  init(_ context: some RequestContext) {
    request_id = (context as? CaptureContext)?.requestID ?? UUID().uuidString.lowercased()
    timestamp = Time.text(Time.now())
  }
}

/// `{"data": …, "meta": …}`
struct Answer<Contents: Encodable>: Encodable {
  var data: Contents
  var meta: Meta

  init(_ data: Contents, _ context: some RequestContext) {
    self.data = data
    meta = Meta(context)
  }
}

enum JSONAnswer {
  static func data(_ value: some Encodable) throws -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return try encoder.encode(value)
  }

  static func response(_ value: some Encodable, status: HTTPResponse.Status = .ok, headers: HTTPFields = [:]) throws -> Response {
    response(data: try data(value), status: status, headers: headers)
  }

  static func response(data: Data, status: HTTPResponse.Status, headers: HTTPFields = [:]) -> Response {
    var headers = headers
    headers[.contentType] = "application/json"
    return Response(status: status, headers: headers, body: .init(byteBuffer: ByteBuffer(bytes: data)))
  }
}

extension HTTPResponse.Status {
  /// RFC 4918, section 11.5.
  static let fullDisk = HTTPResponse.Status(code: 507, reasonPhrase: "Insufficient Storage")
}
