import Foundation
import HTTPTypes
import Hummingbird

/// Names of sessions and of the files in them, as a URL has them. They are checked one part after the other, after decoding.
enum SessionName {
  static let fileLimit: Int64 = 100_000
  private static let pathLimit = 1024
  private static let partLimit = 255
  private static let depthLimit = 32

  /// The parts of a request's path after `count` parts, decoded. Throws `Failure` 400.
  static func parts(of path: String, after count: Int) throws -> [String] {
    let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst(count + 1)
    return try parts.map { part in
      guard let decoded = String(part).removingPercentEncoding else { throw Failure.invalid("the address is not in UTF-8") }
      return decoded
    }
  }

  static let tooLarge = Failure.tooLarge("A session has at most \(Tus.maxSize) bytes")

  /// Throws `Failure` 400 for a name that could not be a folder's.
  static func session(_ name: String) throws -> String {
    guard isPlain(name), name.first != "." else { throw Failure.invalid("the session's name cannot be the name of a folder") }
    return name
  }

  /// A path below the session. Throws `Failure` 400.
  static func file(_ parts: [String]) throws -> String {
    guard (1...depthLimit).contains(parts.count), parts.allSatisfy(isPlain) else {
      throw Failure.invalid("the file's name cannot be a path in a session")
    }
    let path = parts.joined(separator: "/")
    guard path.utf8.count <= pathLimit else { throw Failure.invalid("the file's name has more than \(pathLimit) bytes") }
    return path
  }

  private static func isPlain(_ part: String) -> Bool {
    (1...partLimit).contains(part.utf8.count) && part != "." && part != ".."
      && part.unicodeScalars.allSatisfy { $0 != "/" && $0 != "\\" && ClientName.isVisible($0) }
  }
}

/// The digest that a request says its body has: `Content-Digest` (RFC 9530) or `X-Content-SHA256`, in hexadecimal digits.
struct ContentDigest {
  private let expected: [String]

  /// Throws `Failure` 400 for a malformed header. Other algorithms than SHA-256 are ignored.
  init(_ request: Request) throws {
    var expected: [String] = []
    if let text = request.headers[.contentSHA256] {
      guard let digest = ClientName.sha256(text) else { throw Failure.invalid("X-Content-SHA256 has not 64 hexadecimal digits") }
      expected.append(digest)
    }
    for member in (request.headers[.contentDigest] ?? "").split(separator: ",") {
      let halves = member.split(separator: "=", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
      guard halves.first?.lowercased() == "sha-256" else { continue }
      guard halves.count == 2, halves[1].hasPrefix(":"), halves[1].hasSuffix(":"), halves[1].count > 2,
        let bytes = Data(base64Encoded: String(halves[1].dropFirst().dropLast())), bytes.count == 32
      else { throw Failure.invalid("Content-Digest is not sha-256=:…:") }
      expected.append(Hex.text(bytes))
    }
    self.expected = expected
  }

  /// Throws `Failure` 400 if the bytes that arrived are others.
  func check(_ sha256: String) throws {
    if expected.contains(where: { $0 != sha256 }) {
      throw Failure(.badRequest, "CHECKSUM_MISMATCH", "The bytes do not match their SHA-256; send them again")
    }
  }
}

extension HTTPField.Name {
  static let contentSHA256 = custom("X-Content-SHA256")
  static let contentDigest = custom("Content-Digest")
}
