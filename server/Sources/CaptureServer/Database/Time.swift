import Foundation

/// Times are milliseconds since 1970, as the apps send them.
enum Time {
  static func now() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  /// RFC 3339 in UTC with milliseconds, such as 2025-11-27T10:30:20.123Z.
  static func text(_ milliseconds: Int64) -> String {
    Date(timeIntervalSince1970: Double(milliseconds) / 1000)
      .formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
  }
}
