import Foundation
package import NIOHTTP1

/// The rules for a request's head by which everybody on its way agrees where the request ends.
package enum RequestRules {
  /// Limits of heads, in bytes and fields. The path counts as a field.
  static let limits: NIOHTTPDecoderLimitConfiguration = {
    var limits = NIOHTTPDecoderLimitConfiguration()
    limits.maxHeaderFieldSize = 16 << 10
    limits.maxHeaderListSize = 64 << 10
    limits.maxHeaderFieldCount = 100
    return limits
  }()

  /// Returns the fault of a head, for the log; `nil` where it is fine.
  package static func problem(in head: HTTPRequestHead) -> String? {
    let lengths = head.headers["content-length"]
    if lengths.count > 1 { return "more than one Content-Length" }
    if let length = lengths.first {
      guard !length.isEmpty, length.utf8.count <= 18, length.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
        return "Content-Length is no length"
      }
    }
    let codings = head.headers["transfer-encoding"]
    if !codings.isEmpty {
      if !lengths.isEmpty { return "Transfer-Encoding and Content-Length" }
      if head.version.minor == 0 { return "Transfer-Encoding before HTTP/1.1" }
      guard codings.count == 1, codings[0].lowercased() == "chunked" else { return "a Transfer-Encoding other than chunked" }
    }
    let hosts = head.headers["host"].count
    if hosts > 1 || (hosts == 0 && head.version.minor > 0) { return "\(hosts) Host headers" }
    return nil
  }

  /// Whether a slow-motion phone sends its movie with this request. It takes any answer for a success and then deletes the movie, so
  /// where its bytes are not kept the connection must be dropped instead.
  static func isMovieUpload(_ head: HTTPRequestHead) -> Bool {
    head.method == .POST && isMovieUpload(path: String(head.uri.prefix { $0 != "?" }))
  }

  /// The same of the path of a POST.
  package static func isMovieUpload(path: String) -> Bool { path.hasSuffix("/upload") }
}
