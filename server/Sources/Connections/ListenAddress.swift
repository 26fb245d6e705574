import Foundation
import NIOCore

/// An address and a port to listen on, such as `0.0.0.0:8080`, `[::1]:8080` or `localhost:8080`.
package struct ListenAddress: Equatable {
  package let host: String
  package let port: Int

  /// `nil` where it is not an address and a port.
  package init?(_ text: String) {
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]), colon > text.startIndex else {
      return nil
    }
    host = text[..<colon].trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
    self.port = Int(port)
  }

  /// Whether only this machine can connect to it.
  package var isLoopback: Bool { Self.isLoopback(host) }

  /// Whether a host, a name or an address, is always this machine.
  package static func isLoopback(_ host: String) -> Bool {
    switch try? SocketAddress(ipAddress: host, port: 0) {
    case .v4: host.hasPrefix("127.")
    case .v6(let address): withUnsafeBytes(of: address.address.sin6_addr) { $0.elementsEqual([UInt8](repeating: 0, count: 15) + [1]) }
    default: host == "localhost"
    }
  }

  /// Addresses that mean all of this machine's.
  package static let wildcards = ["0.0.0.0", "::"]

  /// The address in the form of a URL; in place of all addresses, one of this machine's by which others reach it.
  package var reachable: String {
    var host = host
    if Self.wildcards.contains(host) {
      let addresses = ((try? System.enumerateDevices()) ?? []).compactMap(\.address)
      host = addresses.first { $0.protocol == .inet && !Self.isLoopback($0.ipAddress ?? "localhost") }?.ipAddress ?? "localhost"
    }
    return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
  }
}
