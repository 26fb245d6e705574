import Evidence

/// Days as YYYY-MM-DD, by which takes are grouped.
enum Day {
  /// The first YYYY-MM-DD in a name: the phone's local day.
  static func inName(_ name: String) -> String? {
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

  /// The UTC day of a Unix time in nanoseconds.
  static func utc(of nanoseconds: Int64) -> String {
    String(UnixTime.rfc3339(seconds: nanoseconds / 1_000_000_000).prefix(10))
  }
}
