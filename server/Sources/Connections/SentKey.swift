import Foundation
package import HummingbirdCore

/// The API key that a request brings.
package enum SentKey {
  /// The key in a header. A header that is not understood gives the empty key, which nobody has: a sender who wants to be known must not be
  /// taken for a stranger.
  package static func of(_ header: String) -> String {
    let words = header.split(separator: " ").map(String.init)
    guard words.count == 2 else { return "" }
    switch words[0].lowercased() {
    case "bearer": return words[1]
    case "basic":
      guard let data = Data(base64Encoded: words[1]) else { return "" }
      return String(decoding: data, as: UTF8.self).split(separator: ":", maxSplits: 1).last.map(String.init) ?? ""
    default: return ""
    }
  }

  /// The key in an address, as `?key=KEY` or below `/k/KEY/`, or in a header: a slow-motion app can send no header.
  package static func of(_ uri: URI, authorization: String?) -> String? {
    if let key = uri.queryParameters["key"] { return String(key) }
    let parts = uri.path.split(separator: "/")
    if parts.count > 2, parts[0] == "k" { return String(parts[1]) }
    return authorization.map(of)
  }
}
