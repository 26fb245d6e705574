import Connections
import Crypto
import Foundation
import HTTPTypes
import Hummingbird

/// Recognizes API keys: `Authorization: Bearer KEY`, or `Basic` with the key as password, which browsers can send.
struct KeyMiddleware: RouterMiddleware {
  let configuration: Configuration
  let database: ServerDatabase
  let permission: Permission
  /// Whether a request without a key is refused, where the server needs keys. A key that is sent must be right in any case.
  let isRequired: Bool

  func handle(
    _ request: Request, context: CaptureContext, next: (Request, CaptureContext) async throws -> Response
  ) async throws -> Response {
    var key: APIKey?
    var isStranger = false
    if let sent = request.headers[.authorization].map(SentKey.of) {
      key = try await APIKeys(database).find(sent)
      if key == nil { throw Self.unknown(sent) }
    } else if configuration.needsKey(isForwarded: request.isForwarded) {
      if isRequired { throw Self.refusal("An API key is needed: Authorization: Bearer KEY") }
      isStranger = true
    }
    try context.admit(key, to: permission.needed(by: request), isStranger: isStranger)
    return try await next(request, context)
  }

  static let keyRequired = "KEY_REQUIRED"

  static func refusal(_ message: String) -> Failure {
    Failure(.unauthorized, keyRequired, message, headers: [.wwwAuthenticate: "Basic realm=\"takeset\", charset=\"UTF-8\""])
  }

  static func unknown(_ key: String) -> Failure {
    refusal(key.isEmpty ? "Authorization is not understood; expected Bearer KEY" : "The API key is unknown, has expired or was revoked")
  }
}
