import Foundation

/// How long to wait before another attempt.
struct Backoff: Sendable {
  /// Seconds before the first repetition; doubled each time, up to sixty times as long.
  var unit = 1.0

  /// min(2^n, 60) units and up to a quarter more, so that many clients do not come back at once. `retryAfter` of the server is the least.
  ///
  /// - Parameter failures: Attempts that have failed so far, this one included.
  func pause(after failures: Int, retryAfter: Double? = nil) -> Double {
    let doublings = min(max(failures - 1, 0), 6)
    let pause = min(Double(1 << doublings), 60) * unit
    return max(pause * Double.random(in: 1...1.25), retryAfter ?? 0)
  }

  /// Seconds of a `Retry-After` header, as a number or a date (RFC 9110, section 10.2.3); at most a day.
  static func seconds(retryAfter header: String?, now: Date = Date()) -> Double? {
    guard let header = header?.trimmingCharacters(in: .whitespaces) else { return nil }
    if let seconds = Double(header), seconds >= 0, header.allSatisfy({ $0.isASCII && $0.isNumber }) { return min(seconds, 86_400) }
    let format = DateFormatter()
    format.locale = Locale(identifier: "en_US_POSIX")
    format.timeZone = TimeZone(identifier: "GMT")
    format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
    guard let date = format.date(from: header) else { return nil }
    return min(max(date.timeIntervalSince(now), 0), 86_400)
  }
}

/// What became of an attempt that did not succeed.
enum Setback: Error {
  /// Another attempt may succeed.
  case temporary(String, retryAfter: Double? = nil)
  /// No other attempt can.
  case final(String)
  /// The server wants a key or a registration.
  case unauthorized(String)
  /// The server has dropped the upload; it begins anew at once.
  case gone
}
