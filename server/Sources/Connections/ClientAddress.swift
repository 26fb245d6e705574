import Foundation
package import HTTPTypes
package import NIOCore

/// The origin of a request.
package enum ClientAddress {
  /// The address of the connection; or, where that is a trusted proxy's, the last address of `X-Forwarded-For` that is not one. What stands
  /// before it was written by the client, so it counts for nothing.
  ///
  /// - Parameter forwardedFor: All values of that header, in their order.
  package static func of(_ connection: SocketAddress?, forwardedFor: [String], trusting proxies: [String]) -> SocketAddress? {
    guard !proxies.isEmpty, let connection, isTrusted(connection, proxies) else { return connection }
    for text in forwardedFor.joined(separator: ",").split(separator: ",").reversed() {
      guard let address = try? SocketAddress(ipAddress: text.trimmingCharacters(in: .whitespaces), port: 0) else { return connection }
      if !isTrusted(address, proxies) { return address }
    }
    return connection
  }

  /// The fields that proxies add to requests that they pass on.
  package static let proxyFields: [HTTPField.Name] = [
    .forwardedFor, .forwarded, .custom("X-Forwarded-Host"), .custom("X-Forwarded-Proto"), .custom("X-Real-IP"), .custom("Via"),
  ]

  /// Whether an address is that of a trusted proxy.
  static func isTrusted(_ address: SocketAddress, _ proxies: [String]) -> Bool {
    address.ipAddress.map { proxies.contains($0) || proxies.contains($0.replacingOccurrences(of: "::ffff:", with: "")) } ?? false
  }
}

extension HTTPField.Name {
  /// A header whose name stands in the code.
  package static func custom(_ name: String) -> HTTPField.Name {
    guard let name = HTTPField.Name(name) else { preconditionFailure("\(name) is no name of a header") }
    return name
  }

  static let forwarded = custom("Forwarded")
  package static let forwardedFor = custom("X-Forwarded-For")
}
