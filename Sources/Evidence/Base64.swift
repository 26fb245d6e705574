import Foundation

/// Binary data as encoded in JSON.
public enum Base64 {
  /// Decodes base64, standard or URL-safe, padded or not; `isStandard` is true for the standard, padded form.
  public static func decode(_ text: String) -> (bytes: [UInt8], isStandard: Bool)? {
    if let data = Data(base64Encoded: text) { return (Array(data), true) }
    let standard = String(text.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 })
    let padding = standard.hasSuffix("=") ? "" : String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4)
    return Data(base64Encoded: standard + padding).map { (Array($0), false) }
  }

  /// A SHA-256 digest from base64 or 64 hexadecimal digits.
  package static func digest(_ text: String) -> (bytes: [UInt8], isStandard: Bool)? {
    if text.utf8.count == 64, let bytes = hex(text) { return (bytes, false) }
    guard let decoded = decode(text), decoded.bytes.count == 32 else { return nil }
    return decoded
  }

  private static func hex(_ text: String) -> [UInt8]? {
    let digits = text.utf8.compactMap { UInt8(String(UnicodeScalar($0)), radix: 16) }
    guard digits.count == text.utf8.count, digits.count % 2 == 0 else { return nil }
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
  }
}
