import Connections
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdCore

/// API keys of slow-motion phones. The app can send no header, but its operator chooses the address it connects to: the key is in it, as
/// `?key=KEY`, or as `/k/KEY/camera`, from which the app derives `/k/KEY/upload`.
struct SlowMotionKey {
  let configuration: Configuration
  let database: ServerDatabase

  enum Access: Sendable {
    case granted(APIKey?)
    case refused
  }

  /// - Parameter isForwarded: Whether the request came through a proxy.
  func access(_ key: String?, isForwarded: Bool) async throws -> Access {
    guard let key else { return configuration.needsKey(isForwarded: isForwarded) ? .refused : .granted(nil) }
    guard let found = try await APIKeys(database).find(key) else { return .refused }
    return .granted(found)
  }
}

/// Refuses requests without a key where one is needed.
struct SlowMotionKeyMiddleware: RouterMiddleware {
  let configuration: Configuration
  let database: ServerDatabase
  let permission: Permission

  func handle(
    _ request: Request, context: CaptureContext, next: (Request, CaptureContext) async throws -> Response
  ) async throws -> Response {
    let key = SentKey.of(request.uri, authorization: request.headers[.authorization])
    guard
      case .granted(let found) = try await SlowMotionKey(configuration: configuration, database: database).access(
        key, isForwarded: request.isForwarded)
    else {
      throw key.map(KeyMiddleware.unknown) ?? KeyMiddleware.refusal("An API key is needed: ?key=KEY")
    }
    try context.admit(found, to: permission.needed(by: request))
    return try await next(request, context)
  }
}
