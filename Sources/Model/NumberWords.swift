extension BinaryInteger {
  /// Digits with zeros before them, for names that sort as their numbers do: `000042` for 42 in six digits. Numbers below 0 have a sign more.
  public func padded(to digits: Int, radix: Int = 10) -> String {
    let text = String(magnitude, radix: radix)
    return (self < 0 ? "-" : "") + String(repeating: "0", count: Swift.max(0, digits - text.count)) + text
  }

  /// Digits in groups of three: `12,345`.
  public var grouped: String {
    let digits = Array(String(magnitude))
    var text = self < 0 ? "-" : ""
    for (index, digit) in digits.enumerated() {
      if index > 0, (digits.count - index) % 3 == 0 { text.append(",") }
      text.append(digit)
    }
    return text
  }
}

/// A count with its noun, in plain digits, as findings and records have it: `1 row`, `2345 rows`.
package func several(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

/// A count with its noun, for people: `1 frame`, `2,345 frames`.
package func counted(_ count: Int, _ noun: String) -> String { "\(count.grouped) \(noun)\(count == 1 ? "" : "s")" }
