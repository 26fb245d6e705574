import Connections
import Foundation
import HTTPTypes
package import Hummingbird
import NIOConcurrencyHelpers
import NIOCore

/// The facts about a request besides the request itself.
package struct CaptureContext: RequestContext {
  package var coreContext: CoreRequestContextStorage
  /// The connection, to be closed where an answer would make a phone delete what could not be stored.
  let channel: any Channel
  /// The other end; a closed connection no longer knows it.
  let peer: SocketAddress?
  /// A UUID: the one the client sent, or a new one.
  var requestID = UUID().uuidString.lowercased()
  /// The API key that the request came with, also for whoever handed the request on before it was known.
  var key: APIKey? { sender.withLockedValue { $0.key } }
  /// Whether the sender may see whose server this is: the request came with a key, or from a place where none is needed.
  var isAdmitted: Bool { sender.withLockedValue { $0.isAdmitted } }
  /// The permission that its route needs; `nil` where that was not asked.
  var permission: Permission? { sender.withLockedValue { $0.permission } }
  private let sender = NIOLockedValueBox<(key: APIKey?, permission: Permission?, isAdmitted: Bool)>((nil, nil, false))

  /// Lets a request in, with its key or without one.
  ///
  /// - Parameter isStranger: Whether the request has no key although others need one.
  /// - Throws: `Failure` 403 where the key is for something else.
  func admit(_ key: APIKey?, to permission: Permission, isStranger: Bool = false) throws {
    sender.withLockedValue { ($0.key, $0.permission) = (key, permission) }
    try key?.check(permission)
    sender.withLockedValue { $0.isAdmitted = !isStranger }
  }

  package init(source: ApplicationRequestContextSource) {
    coreContext = CoreRequestContextStorage(source: source)
    channel = source.channel
    peer = source.channel.remoteAddress
  }

  /// Ends the connection without an answer, which a slow-motion phone would take for a success. What to throw then, for the log.
  func drop(because error: any Error) async -> Failure {
    try? await channel.close()
    let reason = (error as? Failure).map { $0.reason ?? $0.message } ?? "\(error)"
    return Failure(.serviceUnavailable, "DROPPED", "The upload was dropped", reason: "no answer was given: \(reason)")
  }

  /// The project that captures of this request belong to.
  var project: String { key?.project ?? "default" }
}

typealias CaptureRouter = Router<CaptureContext>

extension ClientAddress {
  static func of(_ request: Request, _ context: CaptureContext, trusting proxies: [String]) -> SocketAddress? {
    of(context.peer, forwardedFor: request.headers[values: .forwardedFor], trusting: proxies)
  }
}

extension HTTPField.Name {
  static let referrerPolicy = custom("Referrer-Policy")
  static let robots = custom("X-Robots-Tag")
  static let requestID = custom("X-Request-Id")
  static let deviceID = custom("X-Device-Id")
  static let deviceTimestamp = custom("X-Device-Timestamp")
  static let deviceSignature = custom("X-Device-Signature")
  static let idempotencyKey = custom("Idempotency-Key")
}
