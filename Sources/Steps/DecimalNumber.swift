/// Numbers as people write them: decimal digits, a point, an exponent. YAML 1.1 and C read more as numbers, and not as was meant: `1:30` as
/// 90, `010` as 8, `1_000`, `0x10`, `nan`.
package enum DecimalNumber {
  /// Whether the text is a decimal number in that form, all of it: an optional sign, digits, fraction and exponent.
  package static func isDecimal(_ text: String) -> Bool {
    var rest = text.utf8[...]
    func digits() -> Int {
      let count = rest.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }.count
      rest = rest.dropFirst(count)
      return count
    }
    func skip(_ characters: String) -> Bool {
      guard let first = rest.first, characters.utf8.contains(first) else { return false }
      rest = rest.dropFirst()
      return true
    }
    _ = skip("+-")
    let startsWithZero = rest.first == UInt8(ascii: "0")
    let whole = digits()
    let fraction = skip(".") ? digits() : 0
    guard whole + fraction > 0, whole < 2 || !startsWithZero else { return false }
    if skip("eE") {
      _ = skip("+-")
      guard digits() > 0 else { return false }
    }
    return rest.isEmpty
  }
}
