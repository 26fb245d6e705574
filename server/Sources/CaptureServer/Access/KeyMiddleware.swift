import Crypto
import Foundation
import HTTPTypes
import Hummingbird

/// Recognizes API keys: `Authorization: Bearer KEY`, or `Basic` with the key as password, which browsers can send.
struct KeyMiddleware: RouterMiddleware {
  let services: Services
  /// Whether a request without a key is refused.
  let isRequired: Bool

  func handle(
    _ request: Request, context: CaptureContext, next: (Request, CaptureContext) async throws -> Response
  ) async throws -> Response {
    var context = context
    if let sent = request.headers[.authorization].flatMap(Self.key) {
      guard let key = try await APIKeys(services.database).find(sent) else { throw Self.refusal("The API key is unknown or was revoked") }
      context.key = key
    } else if isRequired {
      throw Self.refusal("An API key is needed: Authorization: Bearer KEY")
    }
    return try await next(request, context)
  }

  static func refusal(_ message: String) -> Failure {
    Failure(.unauthorized, "KEY_REQUIRED", message, headers: [.wwwAuthenticate: "Basic realm=\"takeset\", charset=\"UTF-8\""])
  }

  /// The key in a header, or `nil` where there is none.
  static func key(_ header: String) -> String? {
    let words = header.split(separator: " ").map(String.init)
    guard words.count == 2 else { return nil }
    switch words[0].lowercased() {
    case "bearer": return words[1]
    case "basic":
      guard let data = Data(base64Encoded: words[1]) else { return nil }
      return String(decoding: data, as: UTF8.self).split(separator: ":", maxSplits: 1).last.map(String.init)
    default: return nil
    }
  }
}
