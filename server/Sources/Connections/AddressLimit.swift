package import NIOCore
import Synchronization

/// Allows each address a number of requests in any window of time.
package final class AddressLimit: Sendable {
  private let count: Int
  private let window: Duration
  private let granted = Mutex<[[UInt8]: [ContinuousClock.Instant]]>([:])
  /// Addresses remembered at a time; beyond them a new one is refused, so that a flood costs no more than some 10 MB of memory.
  private let addresses: Int

  package init(_ count: Int, in window: Duration) {
    self.count = count
    self.window = window
    addresses = 655_360 / count
  }

  /// Takes one request. `nil` if it is allowed, otherwise the time until one will be.
  package func wait(for address: SocketAddress?, at now: ContinuousClock.Instant = .now) -> Duration? {
    let address = Self.network(address)
    return granted.withLock { granted in
      if granted.count >= addresses, granted[address] == nil {
        granted = granted.filter { entry in entry.value.last.map { now - $0 < window } ?? false }
        if granted.count >= addresses { return window }
      }
      let recent = (granted[address] ?? []).filter { now - $0 < window }
      if recent.count >= count, let first = recent.first { return window - (now - first) }
      granted[address] = recent + [now]
      return nil
    }
  }

  /// Bytes that stand for one client: an IPv4 address, or the first 64 bits of an IPv6 address, which a client chooses the rest of.
  static func network(_ address: SocketAddress?) -> [UInt8] {
    switch address {
    case .v4(let address): return withUnsafeBytes(of: address.address.sin_addr) { Array($0) }
    case .v6(let address):
      let bytes = withUnsafeBytes(of: address.address.sin6_addr) { Array($0) }
      let isMapped = bytes[..<10].allSatisfy { $0 == 0 } && bytes[10] == 255 && bytes[11] == 255
      return isMapped ? Array(bytes[12...]) : Array(bytes[..<8])
    default: return []
    }
  }
}
