import Foundation
import HummingbirdCore
package import NIOHTTP1

/// The request of a camera or a viewer, by the address of its WebSocket.
package struct SocketRequest: Sendable {
  /// The end that connects.
  package enum Role: Sendable { case camera, viewer }

  package let role: Role
  /// Whether the live stream is kept from the start: `?record=1`.
  package let records: Bool
  package let key: String?
  /// The page that opened the socket, if a browser did.
  package let origin: String?
  package let host: String?
  /// Whether it came through a proxy.
  package let isForwarded: Bool
  /// All values of `X-Forwarded-For`.
  package let forwardedFor: [String]

  /// `nil` where the address names neither a camera nor a viewer. Apps and relays put other things around the names.
  package init?(_ head: HTTPRequestHead) {
    let uri = URI(head.uri)
    if uri.path.contains("/camera") {
      role = .camera
    } else if uri.path.contains("/viewer") {
      role = .viewer
    } else {
      return nil
    }
    records = uri.queryParameters["record"].map { ["1", "true", "yes"].contains($0) } ?? false
    key = SentKey.of(uri, authorization: head.headers.first(name: "authorization"))
    origin = head.headers.first(name: "origin")
    host = head.headers.first(name: "host")
    isForwarded = ClientAddress.proxyFields.contains { head.headers.contains(name: $0.rawName) }
    forwardedFor = head.headers["X-Forwarded-For"]
  }

  /// Whether a request asks for a camera's or a viewer's WebSocket as it must (RFC 6455, section 4.2.1).
  static func isHandshake(_ head: HTTPRequestHead) -> Bool {
    head.method == .GET && head.version == .http1_1 && head.headers[canonicalForm: "upgrade"].contains { $0.lowercased() == "websocket" }
      && head.headers[canonicalForm: "connection"].contains { $0.lowercased() == "upgrade" }
      && head.headers["sec-websocket-key"].count == 1 && head.headers["sec-websocket-version"] == ["13"]
      && !head.headers.contains(name: "content-length") && !head.headers.contains(name: "transfer-encoding")
      && SocketRequest(head) != nil
  }
}
