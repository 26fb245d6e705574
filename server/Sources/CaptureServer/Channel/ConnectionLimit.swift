import NIOConcurrencyHelpers
import NIOCore

/// Counts the connections of all listeners.
final class ConnectionLimit: Sendable {
  enum Admission {
    case welcome
    /// Over the limit, but still told so.
    case surplus
    /// Over the limit so far that it is closed at once.
    case refused
  }

  private let limit: Int
  private let count = NIOLockedValueBox(0)

  init(_ limit: Int) { self.limit = limit }

  func admit(_ channel: any Channel) -> Admission {
    let now = count.withLockedValue { count in
      count += 1
      return count
    }
    channel.closeFuture.whenComplete { [count] _ in count.withLockedValue { $0 -= 1 } }
    if now <= limit { return .welcome }
    return now <= limit + max(64, limit / 8) ? .surplus : .refused
  }
}
