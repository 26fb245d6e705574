import Crypto
import Foundation
import HTTPTypes
import Hummingbird

/// The headers of tus 1.0 and what may be in them.
enum Tus {
  static let version = "1.0.0"
  static let extensions = "creation,creation-with-upload,creation-defer-length,checksum,expiration,termination"
  static let mediaType = "application/offset+octet-stream"
  static let methods = "OPTIONS, POST, HEAD, PATCH, DELETE"
  /// Most bytes of an upload, and of a session's archive: 64 GiB, as many as a conversion accepts.
  static let maxSize: Int64 = 64 << 30

  /// A decimal number of at most 18 digits without sign; `nil` for anything else.
  static func number(_ text: String) -> Int64? {
    guard (1...18).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return Int64(text)
  }

  /// An HTTP date (RFC 9110, section 5.6.7), such as `Sun, 06 Nov 1994 08:49:37 GMT`.
  static func date(_ milliseconds: Int64) -> String {
    let formatter = DateFormatter()
    formatter.locale = Locale(identifier: "en_US_POSIX")
    formatter.timeZone = TimeZone(secondsFromGMT: 0)
    formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
    return formatter.string(from: Date(timeIntervalSince1970: Double(milliseconds) / 1000))
  }
}

extension HTTPField.Name {
  static let tusResumable = custom("Tus-Resumable")
  static let tusVersion = custom("Tus-Version")
  static let tusExtension = custom("Tus-Extension")
  static let tusMaxSize = custom("Tus-Max-Size")
  static let tusChecksumAlgorithm = custom("Tus-Checksum-Algorithm")
  static let uploadOffset = custom("Upload-Offset")
  static let uploadLength = custom("Upload-Length")
  static let uploadDeferLength = custom("Upload-Defer-Length")
  static let uploadMetadata = custom("Upload-Metadata")
  static let uploadChecksum = custom("Upload-Checksum")
  static let uploadExpires = custom("Upload-Expires")
  static let methodOverride = custom("X-HTTP-Method-Override")
  static let captureID = custom("X-Capture-Id")
}

extension HTTPResponse.Status {
  /// The status of tus for a chunk whose checksum does not match.
  static let checksumMismatch = HTTPResponse.Status(code: 460, reasonPhrase: "Checksum Mismatch")
  /// RFC 4918, section 11.3.
  static let uploadLocked = HTTPResponse.Status(code: 423, reasonPhrase: "Locked")
}

/// The checksum that a chunk must have: `Upload-Checksum: sha256 <base64>`.
struct ChunkChecksum: Sendable {
  static let algorithms = "sha1,sha256"

  private enum State: Sendable {
    case sha1(Insecure.SHA1)
    case sha256(SHA256)
  }

  private var state: State
  private let expected: Data

  /// Throws `Failure` 400 for an unknown algorithm or a malformed value.
  init(_ header: String) throws {
    let words = header.split(separator: " ").map(String.init)
    guard words.count == 2, let expected = Data(base64Encoded: words[1]) else {
      throw Failure.invalid("Upload-Checksum is not an algorithm and a checksum in base64")
    }
    switch words[0].lowercased() {
    case "sha1": state = .sha1(Insecure.SHA1())
    case "sha256": state = .sha256(SHA256())
    default: throw Failure.invalid("the algorithm of Upload-Checksum is none of \(Self.algorithms)")
    }
    self.expected = expected
  }

  mutating func update(_ bytes: UnsafeRawBufferPointer) {
    switch state {
    case .sha1(var hasher):
      hasher.update(bufferPointer: bytes)
      state = .sha1(hasher)
    case .sha256(var hasher):
      hasher.update(bufferPointer: bytes)
      state = .sha256(hasher)
    }
  }

  /// Whether the bytes so far have this checksum.
  var matches: Bool {
    switch state {
    case .sha1(let hasher): Data(hasher.finalize()) == expected
    case .sha256(let hasher): Data(hasher.finalize()) == expected
    }
  }
}
