import NIOConcurrencyHelpers
import NIOCore

/// Counts the connections of all listeners, and those of each address, so that no single client can have all of them.
package final class ConnectionLimit: Sendable {
  enum Admission: Comparable {
    case welcome
    /// Over the limit, but still told so.
    case surplus
    /// Over the limit so far that it is closed at once.
    case refused
  }

  private struct Counts {
    var all = 0
    /// The number of connections by `AddressLimit.network`.
    var addresses: [[UInt8]: Int] = [:]
  }

  private let limit: Int
  private let addressLimit: Int
  /// They connect for many.
  private let proxies: [String]
  private let counts = NIOLockedValueBox(Counts())

  /// - Parameters:
  ///   - limit: Connections at a time.
  ///   - addressLimit: Those of one address that is not a proxy's.
  package init(_ limit: Int, ofOneAddress addressLimit: Int, proxies: [String]) {
    (self.limit, self.addressLimit, self.proxies) = (limit, addressLimit, proxies)
  }

  func admit(_ channel: any Channel) -> Admission {
    let remote = channel.remoteAddress
    let address = remote.flatMap { ClientAddress.isTrusted($0, proxies) ? nil : AddressLimit.network($0) }
    let (all, own) = counts.withLockedValue { counts in
      counts.all += 1
      guard let address else { return (counts.all, 0) }
      let own = (counts.addresses[address] ?? 0) + 1
      counts.addresses[address] = own
      return (counts.all, own)
    }
    channel.closeFuture.whenComplete { [counts] _ in
      counts.withLockedValue { counts in
        counts.all -= 1
        guard let address, let own = counts.addresses[address] else { return }
        counts.addresses[address] = own > 1 ? own - 1 : nil
      }
    }
    return max(Self.admission(all, limit), Self.admission(own, addressLimit))
  }

  private static func admission(_ number: Int, _ limit: Int) -> Admission {
    if number <= limit { return .welcome }
    return number <= limit + max(64, limit / 8) ? .surplus : .refused
  }
}
