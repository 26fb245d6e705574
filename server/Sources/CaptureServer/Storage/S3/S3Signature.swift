import Crypto
import Foundation
import Model

/// Signs requests by Signature Version 4 of AWS, which all S3-compatible servers check.
///
///     S3Signature(credentials: credentials, region: "eu-central-1").headers(
///       method: "GET", host: "s3.example.org", path: "/bucket/key", query: [], headers: [:], bodyDigest: digest, time: 1_764_000_000)
package struct S3Signature {
  /// The keys of an account; `token` only where they are temporary.
  package struct Credentials: Sendable {
    var key: String
    var secret: String
    var token: String?

    package init(key: String, secret: String, token: String?) { (self.key, self.secret, self.token) = (key, secret, token) }
  }

  let credentials: Credentials
  let region: String

  package init(credentials: Credentials, region: String) { (self.credentials, self.region) = (credentials, region) }

  /// Headers of a request: `host`, date, digest of the body and signature.
  ///
  /// - Parameters:
  ///   - path: Percent-encoded by `encoded`, from the slash on.
  ///   - query: Names and values, neither encoded.
  ///   - bodyDigest: 64 hexadecimal digits.
  ///   - time: Seconds since 1970.
  package func headers(
    method: String, host: String, path: String, query: [(String, String)], headers: [String: String], bodyDigest: String, time: Int64
  ) -> [String: String] {
    let (day, instant) = Self.stamps(time)
    var signed = headers.reduce(into: [:]) { $0[$1.key.lowercased()] = $1.value }
    signed["host"] = host
    signed["x-amz-date"] = instant
    signed["x-amz-content-sha256"] = bodyDigest
    if let token = credentials.token { signed["x-amz-security-token"] = token }
    let names = signed.keys.sorted()
    let canonical = [
      method, path, Self.encoded(query), names.map { "\($0):\(signed[$0] ?? "")\n" }.joined(), names.joined(separator: ";"), bodyDigest,
    ].joined(separator: "\n")
    let scope = "\(day)/\(region)/s3/aws4_request"
    let text = ["AWS4-HMAC-SHA256", instant, scope, Hex.text(SHA256.hash(data: Data(canonical.utf8)))].joined(separator: "\n")
    var key = Data("AWS4\(credentials.secret)".utf8)
    for part in [day, region, "s3", "aws4_request"] { key = Self.code(part, key) }
    let signature = Hex.text(Self.code(text, key))
    signed["authorization"] =
      "AWS4-HMAC-SHA256 Credential=\(credentials.key)/\(scope), SignedHeaders=\(names.joined(separator: ";")), Signature=\(signature)"
    return signed
  }

  private static func code(_ text: String, _ key: Data) -> Data {
    Data(HMAC<SHA256>.authenticationCode(for: Data(text.utf8), using: SymmetricKey(data: key)))
  }

  /// A query as it is signed and sent: sorted and percent-encoded.
  package static func encoded(_ query: [(String, String)]) -> String {
    query.map { (encoded($0.0), encoded($0.1)) }.sorted { $0 < $1 }.map { "\($0.0)=\($0.1)" }.joined(separator: "&")
  }

  /// Everything but unreserved characters (RFC 3986) percent-encoded, slashes too unless they are kept.
  package static func encoded(_ text: String, keepsSlashes: Bool = false) -> String {
    let digits = Array("0123456789ABCDEF".utf8)
    var bytes: [UInt8] = []
    for byte in text.utf8 {
      switch byte {
      case 48...57, 65...90, 97...122, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"): bytes.append(byte)
      case UInt8(ascii: "/") where keepsSlashes: bytes.append(byte)
      default: bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// A day such as 20251127, and a time such as 20251127T103020Z.
  private static func stamps(_ seconds: Int64) -> (day: String, instant: String) {
    var (time, parts) = (time_t(seconds), tm())
    gmtime_r(&time, &parts)
    let day = (parts.tm_year + 1900).padded(to: 4) + (parts.tm_mon + 1).padded(to: 2) + parts.tm_mday.padded(to: 2)
    return (day, "\(day)T\(parts.tm_hour.padded(to: 2))\(parts.tm_min.padded(to: 2))\(parts.tm_sec.padded(to: 2))Z")
  }
}
