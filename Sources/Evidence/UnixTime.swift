import Foundation

/// Unix times as text.
package enum UnixTime {
  /// A Unix time in UTC, to the second, in RFC 3339 format. Foundation's formatters load ICU, which takes 10 ms.
  package static func rfc3339(seconds: Int64) -> String {
    var (time, parts) = (time_t(seconds), tm())
    gmtime_r(&time, &parts)
    return String(
      format: "%04d-%02d-%02dT%02d:%02d:%02dZ", Int(parts.tm_year) + 1900, Int(parts.tm_mon) + 1, Int(parts.tm_mday), Int(parts.tm_hour),
      Int(parts.tm_min), Int(parts.tm_sec))
  }

  /// Unix nanoseconds of an RFC 3339 time, with or without fractional seconds, in any zone, from 1970 to 2096; `nil` for other texts.
  package static func nanoseconds(rfc3339 text: String) -> Int64? {
    var rest = Substring(text).utf8
    func number(_ digits: Int) -> Int64? {
      let part = rest.prefix(digits)
      guard part.count == digits, part.allSatisfy({ (48...57).contains($0) }) else { return nil }
      rest = rest.dropFirst(digits)
      return part.reduce(0) { $0 * 10 + Int64($1 - 48) }
    }
    func skip(_ characters: String) -> Bool {
      guard let first = rest.first, characters.utf8.contains(first) else { return false }
      rest = rest.dropFirst()
      return true
    }
    guard let year = number(4), skip("-"), let month = number(2), skip("-"), let day = number(2), skip("Tt"), let hour = number(2),
      skip(":"),
      let minute = number(2), skip(":"), let second = number(2), (1970...2096).contains(year), (1...12).contains(month), hour < 24,
      minute < 60,
      second < 60, (1...daysInMonth(year, month)).contains(day)
    else { return nil }
    var nanoseconds: Int64 = 0
    if skip(".") {
      let digits = rest.prefix { (48...57).contains($0) }
      guard !digits.isEmpty else { return nil }
      for index in 0..<9 { nanoseconds = nanoseconds * 10 + (digits.dropFirst(index).first.map { Int64($0 - 48) } ?? 0) }
      rest = rest.dropFirst(digits.count)
    }
    var offset: Int64 = 0
    if !skip("Zz") {
      guard let sign = rest.first, skip("+-"), let hours = number(2) else { return nil }
      _ = skip(":")
      guard let minutes = number(2), hours < 24, minutes < 60 else { return nil }
      offset = (hours * 60 + minutes) * 60 * (sign == UInt8(ascii: "-") ? -1 : 1)
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset
    guard rest.isEmpty, (0..<4_000_000_000).contains(seconds) else { return nil }
    return seconds * 1_000_000_000 + nanoseconds
  }

  private static func isLeap(_ year: Int64) -> Bool { year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) }

  private static func daysInMonth(_ year: Int64, _ month: Int64) -> Int64 {
    month == 2 ? (isLeap(year) ? 29 : 28) : [4, 6, 9, 11].contains(month) ? 30 : 31
  }

  /// Days since 1970-01-01 in the Gregorian calendar.
  private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let years: Int64 = (1970..<year).reduce(0) { $0 + (isLeap($1) ? 366 : 365) as Int64 }
    return (1..<month).reduce(years) { $0 + daysInMonth(year, $1) } + day - 1
  }
}
