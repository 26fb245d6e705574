import Testing

@testable import Steps

@Suite struct DecimalNumberTests {
  @Test(arguments: ["0", "7", "-1", "+1.5", "10", "100", "0.5", "-0.25", ".5", "5.", "1e9", "1E-3", "2.5e+10", "0e1"])
  func decimalDigitsAreNumbers(text: String) { #expect(DecimalNumber.isDecimal(text)) }

  /// YAML 1.1 and C read `010` as 8.
  @Test(arguments: ["00", "01", "-01", "+07", "010", "0123", "00.5", "01.5", "01e3"])
  func aLeadingZeroIsNoDecimalNumber(text: String) { #expect(!DecimalNumber.isDecimal(text)) }

  @Test(arguments: ["", "-", ".", "+.", "e5", "1e", "1e+", "1:30", "1_000", "0x10", "nan", ".inf", " 1", "1 ", "1.2.3", "--1", "\u{0663}"])
  func whatOtherLanguagesReadAsNumbersIsNone(text: String) { #expect(!DecimalNumber.isDecimal(text)) }
}
