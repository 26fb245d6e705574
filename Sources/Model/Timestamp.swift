/// A time on some stream's clock, in whole nanoseconds.
///
/// The clock is part of the stream's spec; only timestamps on the same clock are comparable.
///
///     Timestamp(decimalSeconds: "12.345".utf8)?.nanoseconds                // 12345000000
package struct Timestamp: Hashable, Comparable, Sendable {
  package var nanoseconds: Int64

  package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  /// Orders by time. Both must be on the same clock.
  package static func < (a: Timestamp, b: Timestamp) -> Bool { a.nanoseconds < b.nanoseconds }

  /// Nanoseconds from `other` to this time, clamped to the range of 64 bits.
  package func since(_ other: Timestamp) -> Int64 {
    let (difference, overflow) = nanoseconds.subtractingReportingOverflow(other.nanoseconds)
    return overflow ? (nanoseconds < other.nanoseconds ? .min : .max) : difference
  }

  /// The time a number of nanoseconds later, rounded to the nearest nanosecond and clamped to the range of 64 bits.
  package func advanced(byNanoseconds offset: Double) -> Timestamp {
    guard let whole = Int64(exactly: offset.rounded()) else { return advanced(by: offset < 0 ? .min : .max) }
    return advanced(by: whole)
  }

  /// Returns the time `offset` nanoseconds later, clamped to the range of 64 bits.
  package func advanced(by offset: Int64) -> Timestamp {
    let (sum, overflow) = nanoseconds.addingReportingOverflow(offset)
    return Timestamp(nanoseconds: overflow ? (offset < 0 ? .min : .max) : sum)
  }

  /// The first and the last of ascending times in words, to a millisecond: `from 0.5 to 2.033 s`, or `absent`.
  package static func span(_ times: [Timestamp]) -> String {
    guard let first = times.first, let last = times.last else { return "absent" }
    func seconds(_ time: Timestamp) -> Double { (Double(time.nanoseconds) / 1e6).rounded() / 1000 }
    return "from \(seconds(first)) to \(seconds(last)) s"
  }

  /// Parses a decimal number of seconds as written in a file, rounded to the nearest nanosecond, ties to even.
  ///
  /// Parsing the digits is always exact; `Double` would be exact for phone uptimes of up to 104 days only. `nil` for text that is not a
  /// JSON number and for times outside of `range`.
  package init?(decimalSeconds text: some Sequence<UInt8>) {
    var digits: UInt64 = 0
    var scale = 9  // power of ten from the digits read so far to nanoseconds
    var isNegative = false, isFraction = false, sawDigit = false
    var exponent: Int?, exponentIsNegative = false
    var isInexact = false  // a digit other than 0 beyond those kept
    for byte in text {
      switch byte {
      case UInt8(ascii: "-"): if exponent == nil { isNegative = true } else { exponentIsNegative = true }
      case UInt8(ascii: "+"): break
      case UInt8(ascii: "."): isFraction = true
      case UInt8(ascii: "e"), UInt8(ascii: "E"): exponent = 0
      case UInt8(ascii: "0")...UInt8(ascii: "9"):
        let digit = UInt64(byte - UInt8(ascii: "0"))
        sawDigit = true
        if let value = exponent {
          exponent = min(value * 10 + Int(digit), 10_000)
        } else if digits < 1_000_000_000_000_000_000 {
          digits = digits * 10 + digit
          if isFraction { scale -= 1 }
        } else {
          if digit != 0 { isInexact = true }
          if !isFraction { scale += 1 }
        }
      default: return nil
      }
    }
    guard sawDigit else { return nil }
    scale += (exponentIsNegative ? -1 : 1) * (exponent ?? 0)
    guard let magnitude = Timestamp.scaled(digits, byPowerOfTen: scale, inexact: isInexact) else { return nil }
    let value = isNegative ? -magnitude : magnitude
    guard Self.range.contains(value) else { return nil }
    nanoseconds = value
  }

  /// The range of times in files: about 36 years before a clock's zero to 146 years after it. Differences of two fit in 64 bits.
  private static let range: ClosedRange<Int64> = -(1 << 60)...(1 << 62)

  private static func scaled(_ digits: UInt64, byPowerOfTen power: Int, inexact: Bool) -> Int64? {
    if digits == 0 { return 0 }
    var value = digits
    if power >= 0 {
      for _ in 0..<min(power, 20) {
        let (product, overflow) = value.multipliedReportingOverflow(by: 10)
        if overflow { return nil }
        value = product
      }
      return Int64(exactly: value)
    }
    if power < -19 { return 0 }
    var divisor: UInt64 = 1
    for _ in 0..<(-power) { divisor *= 10 }
    let (quotient, remainder) = value.quotientAndRemainder(dividingBy: divisor)
    let half = divisor / 2
    let roundsUp = remainder > half || (remainder == half && (inexact || quotient % 2 == 1))
    return Int64(exactly: quotient + (roundsUp ? 1 : 0))
  }
}

/// The clock of a stream's timestamps.
package enum Clock: String, Sendable, Codable {
  /// Seconds since the phone booted, not counting sleep: ARKit frames, AVFoundation host time, CoreMotion.
  case deviceUptime = "device-uptime"
  /// Unix time on the phone, stamped when the app handled the sample.
  case phoneUnix = "phone-unix"
  /// The clock of a computer that logged a sensor next to the phone.
  case laptop
  /// Presentation time in a video, which is capture time with an unknown origin.
  case mediaTime = "media-time"
  /// A clock that is said to be that of the frames, and cannot be.
  case unknown
  /// The frame number divided by an assumed rate, where there is no clock.
  case frameNumber = "frame-number"
}
