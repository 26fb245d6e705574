package import Evidence
import Foundation
import Model
import Steps
import Yams

/// An explicit split, in YAML or JSON: takes by part.
///
///     train: [session_2026-03-01, session_2026-03-02]
///     valid: [session_2026-03-03]
///     test: []
///
/// A part that is left out is empty. A name is the id of a take, or of one of the episodes that a take was split into. All episodes of a
/// take are in one part, whichever of them are named.
package struct SplitFile: Sendable {
  /// A name in the file, and its place: `valid[3]`, line and column from 1 where known.
  struct Name: Sendable {
    var id: String
    var part: SplitPart
    var path: String
    var line: Int?
    var column: Int?
  }

  /// The names in the order of the file; none is in two parts.
  let names: [Name]
  /// Digest of the file's bytes.
  package let digest: Digest
  package let text: String
  /// The file, as messages name it.
  package let file: String

  /// The part of each name.
  var parts: [String: SplitPart] { Dictionary(names.map { ($0.id, $0.part) }, uniquingKeysWith: { first, _ in first }) }

  /// Throws `UsageError` naming the file, the path of the first mistake, and its line.
  package init(_ bytes: [UInt8], name: String) throws {
    do {
      names = try Self.names(in: bytes)
    } catch let error as PipelineFileError {
      throw UsageError("\(name): \(error)")
    }
    digest = Digest.of(bytes)
    text = String(decoding: bytes, as: UTF8.self)
    file = name
  }

  private static func names(in bytes: [UInt8]) throws -> [Name] {
    var names: [Name] = []
    for (key, place, list) in try lists(in: bytes) {
      guard let part = SplitPart(rawValue: key) else {
        let known = SplitPart.allCases.map(\.rawValue)
        let suggestion = Spelling.hint(for: key, among: known, inQuotes: true)
        throw place.mistake("unknown key; a split file has \"train\", \"valid\", \"test\"\(suggestion)")
      }
      guard let list else { throw place.mistake("expected a list of ids of takes, such as [take-1, take-2]") }
      for (id, place) in list {
        guard let id, !id.isEmpty else { throw place.mistake("expected the id of a take") }
        names.append(Name(id: id, part: part, path: place.path, line: place.line, column: place.column))
      }
    }
    var known: [String: Name] = [:]
    for name in names {
      if let other = known[name.id], other.part != name.part {
        throw Place(name.path, name.line, name.column).mistake("\(name.id) is in \(other.part.rawValue) too (\(other.path))")
      }
      known[name.id] = name
    }
    return names
  }

  // MARK: YAML and JSON

  private struct Place {
    var path: String
    var line: Int?
    var column: Int?

    init(_ path: String, _ line: Int? = nil, _ column: Int? = nil) { (self.path, self.line, self.column) = (path, line, column) }

    func mistake(_ message: String) -> PipelineFileError {
      var error = PipelineFileError(path, message)
      (error.line, error.column) = (line, column)
      return error
    }
  }

  /// The members of the file's object with their lists; `nil` for a value that is no list, or for an element that is no name.
  private typealias Lists = [(key: String, place: Place, list: [(id: String?, place: Place)]?)]

  private static let expectation = "expected an object of the lists \"train\", \"valid\" and \"test\""

  private static func lists(in bytes: [UInt8]) throws -> Lists {
    let text = String(decoding: bytes, as: UTF8.self)
    let node: Node?
    do {
      node = try YAMLText.compose(text)
    } catch let error as YamlError {
      // YAML does not know JSON's escapes of characters beyond 16 bits.
      if let document = try? JSONReader(bytes).document() { return try lists(in: document) }
      throw PipelineFileError(error, text)
    }
    guard let node else { throw PipelineFileError("", "the file is empty; \(expectation)") }
    func place(_ path: String, _ node: Node) -> Place { Place(path, node.mark?.line, node.mark?.column) }
    guard case .mapping(let mapping) = node else { throw place("", node).mistake(expectation) }
    return try mapping.map { keyNode, value in
      guard let key = keyNode.string else { throw place("", keyNode).mistake("expected text as a key") }
      guard case .sequence(let sequence) = value else { return (key, place(key, keyNode), nil) }
      let list = sequence.enumerated().map { index, element in
        // An id may look like a number or a date; it is what is written.
        (id: element.null == nil || element.isQuoted ? element.scalar?.string : nil, place: place("\(key)[\(index)]", element))
      }
      return (key, place(key, keyNode), list)
    }
  }

  private static func lists(in document: JSONValue) throws -> Lists {
    guard let members = document.object else { throw PipelineFileError("", expectation) }
    return members.sorted { $0.key < $1.key }.map { key, value in
      (key, Place(key), value.array?.enumerated().map { (id: $1.string, place: Place("\(key)[\($0)]")) })
    }
  }
}

extension Node {
  fileprivate var isQuoted: Bool { scalar.map { $0.style != .plain && $0.style != .any } ?? false }
}

extension SplitFile {
  /// Refuses a file that puts episodes of one of these takes into several parts. Throws `UsageError`.
  package func check(_ takes: some Sequence<String>) throws {
    let takes = Set(takes)
    var parts: [String: Name] = [:]
    for name in names {
      guard let take = EpisodeID(name.id, among: takes)?.take else { continue }
      if let other = parts[take], other.part != name.part {
        throw UsageError(
          "\(file): \(name.path): \(name.id) is in \(name.part.rawValue), \(other.id) in \(other.part.rawValue) (\(other.path)); episodes of "
            + "one take belong together")
      }
      parts[take] = name
    }
  }
}
