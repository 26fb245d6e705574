package import Foundation
import Synchronization

/// The delay before another attempt.
package struct Backoff: Sendable {
  /// Seconds before the first repetition; doubled each time, up to sixty times as long.
  package var unit: Double

  package init(unit: Double = 1) { self.unit = unit }

  /// min(2^n, 60) units and up to a quarter more, so that many clients do not come back at once. `retryAfter` of the server is the least.
  ///
  /// - Parameter failures: Attempts that have failed so far, this one included.
  package func pause(after failures: Int, retryAfter: Double? = nil) -> Double {
    let doublings = min(max(failures - 1, 0), 6)
    let pause = min(Double(1 << doublings), 60) * unit
    return max(pause * Double.random(in: 1...1.25), retryAfter ?? 0)
  }

  /// Seconds of a `Retry-After` header, as a number or a date (RFC 9110, section 10.2.3); at most a day.
  package static func seconds(retryAfter header: String?, now: Date = Date()) -> Double? {
    guard let header = header?.trimmingCharacters(in: .whitespaces) else { return nil }
    if let seconds = Double(header), seconds >= 0, header.allSatisfy({ $0.isASCII && $0.isNumber }) { return min(seconds, 86_400) }
    let format = DateFormatter()
    format.locale = Locale(identifier: "en_US_POSIX")
    format.timeZone = TimeZone(identifier: "GMT")
    // The present form and the two old ones.
    for form in ["EEE, dd MMM yyyy HH:mm:ss 'GMT'", "EEEE, dd-MMM-yy HH:mm:ss 'GMT'", "EEE MMM d HH:mm:ss yyyy"] {
      format.dateFormat = form
      if let date = format.date(from: header) { return min(max(date.timeIntervalSince(now), 0), 86_400) }
    }
    return nil
  }
}

/// A time in which a server takes nothing, whatever is sent: all uploads wait, and try it one after the other.
final class Outage: Sendable {
  private struct State {
    var failures = 0
    /// Seconds of the system's uptime.
    var noted = 0.0
    var ends = 0.0
  }
  private let state = Mutex(State())

  /// Time at which attempts begin again, in seconds of the system's uptime.
  var ends: Double { state.withLock { $0.ends } }

  /// Counts a failure, unless its attempt began before the last one was counted, and begins a pause. Returns the failures so far.
  func note(attemptFrom began: Double, pause: (Int) -> Double) -> Int {
    let now = ProcessInfo.processInfo.systemUptime
    return state.withLock { state in
      if began >= state.noted {
        state.failures += 1
        (state.noted, state.ends) = (now, now + pause(state.failures))
      }
      return state.failures
    }
  }

  /// The server has taken something.
  func end() { state.withLock { $0 = State() } }
}

/// The outcome of an attempt that did not succeed.
package enum Setback: Error {
  /// Another attempt may succeed. `isOutage`: the server takes nothing at present, whatever is sent.
  case temporary(String, retryAfter: Double? = nil, isOutage: Bool = false)
  /// A failure that no other attempt can mend.
  case final(String)
  /// Nothing can be sent to this address until a person has changed something.
  case unusable(String)
  /// The server wants a key or a registration.
  case unauthorized(String)
  /// The server has dropped the upload; it begins anew at once.
  case gone
}
