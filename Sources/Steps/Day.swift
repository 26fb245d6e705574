import Evidence
package import Foundation
package import Model

/// Days as YYYY-MM-DD, by which takes are grouped.
package enum Day {
  /// The first YYYY-MM-DD in a name: the phone's local day.
  package static func inName(_ name: String) -> String? {
    let utf8 = Array(name.utf8)
    guard utf8.count >= 10 else { return nil }
    for start in 0...(utf8.count - 10) {
      let candidate = utf8[start..<(start + 10)]
      let matches = candidate.enumerated().allSatisfy { offset, byte in
        offset == 4 || offset == 7 ? byte == UInt8(ascii: "-") : (48...57).contains(byte)
      }
      if matches { return String(decoding: candidate, as: UTF8.self) }
    }
    return nil
  }

  /// The UTC day of a Unix time in seconds.
  static func utc(of seconds: Int64) -> String { String(UnixTime.rfc3339(seconds: seconds).prefix(10)) }

  /// The dates of a take, the one that counts first: its name's, then those that its files have.
  package static func dates(name: String, _ others: RecordingDate?...) -> [RecordingDate] {
    [inName(name).map { RecordingDate("the name", day: $0) }].compactMap(\.self) + others.compactMap(\.self)
  }
}

extension Day {
  /// A finding about dates of a take that cannot all be right.
  package static func finding(_ dates: [RecordingDate]) -> Finding? {
    guard let first = dates.first, let other = dates.first(where: { $0 != first && first.contradicts($0) }) else { return nil }
    let days = [first, other].map { "\($0.source) says \($0.day)" }
    return Finding(.dayContradictory, days.joined(separator: ", ") + "; the first one counts")
  }
}

extension RecordingDate {
  /// A moment, with the day that UTC has then.
  package init(_ source: String, unixNanoseconds: Int64) {
    let seconds = unixNanoseconds / 1_000_000_000
    self.init(source, day: Day.utc(of: seconds), seconds: seconds)
  }

  /// The day in a time zone; a day without a time is the phone's own anywhere. Without a zone the day as written.
  package func day(in zone: TimeZone?) -> String {
    guard let zone, let seconds else { return day }
    return Day.utc(of: seconds + Int64(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(seconds)))))
  }

  /// The Unix seconds at which the recording may have been made: one moment, or the whole day; `nil` for a day that does not exist.
  package func span(in zone: TimeZone?) -> ClosedRange<Int64>? {
    if let seconds { return seconds...seconds }
    guard let midnight = UnixTime.nanoseconds(rfc3339: day + "T00:00:00Z").map({ $0 / 1_000_000_000 }) else { return nil }
    let start = midnight - Int64(zone?.secondsFromGMT(for: Date(timeIntervalSince1970: Double(midnight))) ?? 0)
    return start...(start + 86_399)
  }

  /// Whether one of both must be wrong. Two moments may be as far apart as a long recording and a copy of it; a day without a time may be
  /// that of any time zone, UTC+14 to UTC-12.
  func contradicts(_ other: RecordingDate) -> Bool {
    guard let a = span(in: nil), let b = other.span(in: nil) else { return false }
    let hours: Int64 = seconds != nil && other.seconds != nil ? 24 : 14
    return max(a.lowerBound, b.lowerBound) - min(a.upperBound, b.upperBound) > hours * 3600
  }
}
