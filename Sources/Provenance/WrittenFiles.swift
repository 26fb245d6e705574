import Datasets
import Evidence
import Foundation
import Model
import Steps

/// The files of a description that Takeset has written, by the last line of the card: an HTML comment with the digest of each.
///
/// A file with other bytes is somebody's work, and is not replaced without being asked.
struct WrittenFiles {
  private static let mark = "<!-- takeset describe:"
  private let directory: String
  private var digests: [String: String] = [:]

  /// Reads the card in a directory; without one nothing is known.
  init(of directory: String) {
    self.directory = directory
    var text: [UInt8] = []
    guard let file = try? InputFile(directory + "/" + DatasetFiles.card), (try? file.readAll(limit: 16 << 20, into: &text)) != nil,
      let start = Data(text).range(of: Data(Self.mark.utf8), options: .backwards)?.lowerBound
    else { return }
    let comment = String(decoding: text[start...], as: UTF8.self)
    let words = comment.split(whereSeparator: \.isWhitespace).map(String.init)
    let pairs = zip(words, words.dropFirst()).filter { Digest(hex: $1) != nil }
    digests = Dictionary(pairs) { first, _ in first }
    // The card's digest covers what is above the comment, which is the end of the card.
    let isCard = comment == Self.comment(pairs) && digests[DatasetFiles.card] == Digest.of(text[..<start]).description
    if !isCard { digests[DatasetFiles.card] = nil }
  }

  private static func comment(_ digests: [(String, String)]) -> String {
    mark + digests.map { " \($0) \($1)" }.joined() + " -->\n"
  }

  /// The card's text with the digests of all files, itself included.
  static func stamped(_ card: String, with others: [(name: String, bytes: [UInt8])]) -> [UInt8] {
    let all = others.map { ($0.name, Digest.of($0.bytes).description) } + [(DatasetFiles.card, Digest.of(card).description)]
    return Array((card + comment(all)).utf8)
  }

  /// Whether a file is there and the card names it, whether or not it was edited since.
  func names(_ name: String) throws -> Bool { try digests[name] != nil && Directory.kind(at: directory + "/" + name) != nil }

  /// Whether a file is there as Takeset wrote it.
  func isOwn(_ name: String) throws -> Bool {
    guard try Directory.kind(at: directory + "/" + name) == .file, let digest = digests[name] else { return false }
    return try name == DatasetFiles.card || SealedFile.digest(of: directory + "/" + name).digest.description == digest
  }

  /// Whether a file may be written: it is absent, the same, or Takeset's own.
  func mayReplace(_ name: String, by bytes: [UInt8]) throws -> Bool {
    let path = directory + "/" + name
    guard let kind = try Directory.kind(at: path) else { return true }
    guard kind == .file else { return false }
    return try isOwn(name) || SealedFile.digest(of: path).digest == Digest.of(bytes)
  }
}

extension JSONValue {
  /// JSON for people: members sorted, two spaces a level, a line end.
  var indentedText: String {
    var text = ""
    append(to: &text, "\n")
    return text + "\n"
  }

  private func append(to text: inout String, _ newLine: String) {
    func list<Element>(_ open: String, _ close: String, _ elements: [Element], _ append: (Element, inout String) -> Void) {
      text += open
      for (index, element) in elements.enumerated() {
        text += (index > 0 ? "," : "") + newLine + "  "
        append(element, &text)
      }
      text += (elements.isEmpty ? "" : newLine) + close
    }
    switch self {
    case .array(let elements): list("[", "]", elements) { $0.append(to: &$1, newLine + "  ") }
    case .object(let members):
      list("{", "}", members.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }) { member, text in
        text += JSONValue.string(member.key).canonicalText + ": "
        member.value.append(to: &text, newLine + "  ")
      }
    default: text += canonicalText
    }
  }
}
