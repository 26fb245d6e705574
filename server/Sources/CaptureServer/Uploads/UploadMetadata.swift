import Foundation

/// The metadata of an upload by its client: `Upload-Metadata: filename <base64>,kind <base64>`.
struct UploadMetadata: Sendable, Equatable {
  /// The kind of capture that the upload becomes. Without it, the file's name and its contents decide.
  enum Kind: String, Sendable { case bundle, session, movie }

  /// The name for people, from which the type is taken; never a path.
  private(set) var filename = "upload"
  var kind: Kind?
  /// SHA-256 that the whole upload must have, as 64 hexadecimal digits.
  private(set) var sha256: String?

  private static let limit = 8 << 10

  /// Throws `Failure` 400 for a malformed header, a kind that does not exist and a malformed `sha256`. Other names are kept, unread.
  init(_ header: String) throws {
    guard header.utf8.count <= Self.limit else { throw Failure.invalid("Upload-Metadata has more than \(Self.limit) bytes") }
    var names: Set<String> = []
    for pair in header.split(separator: ",") {
      let words = pair.split(separator: " ").map(String.init)
      guard let name = words.first else { continue }
      guard words.count <= 2, let value = Data(base64Encoded: words.count == 2 ? words[1] : "") else {
        throw Failure.invalid("Upload-Metadata is not a list of names and values in base64")
      }
      guard names.insert(name).inserted else { throw Failure.invalid("Upload-Metadata has a name twice") }
      let text = String(decoding: value, as: UTF8.self)
      switch name {
      case "filename": filename = ClientName.shown(text)
      case "kind":
        guard let known = Kind(rawValue: text) else { throw Failure.invalid("kind is none of bundle, session and movie") }
        kind = known
      case "sha256":
        guard let digest = ClientName.sha256(text) else { throw Failure.invalid("sha256 has not 64 hexadecimal digits") }
        sha256 = digest
      default: break
      }
    }
  }
}

/// Names and digests that clients send.
enum ClientName {
  /// A name to show to people: the last component, without control characters and marks that turn the direction of writing, at most
  /// 200 characters.
  static func shown(_ name: String) -> String {
    let last = name.split(whereSeparator: { $0 == "/" || $0 == "\\" }).last ?? ""
    var scalars = String.UnicodeScalarView()
    scalars.append(contentsOf: last.unicodeScalars.lazy.filter(isVisible).prefix(200))
    return scalars.isEmpty ? "upload" : String(scalars)
  }

  static func isVisible(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .unassigned, .privateUse: false
    default: true
    }
  }

  /// 64 hexadecimal digits in lower case, or `nil`.
  static func sha256(_ text: String) -> String? {
    let text = text.lowercased()
    return text.utf8.count == 64 && text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) } ? text : nil
  }
}
