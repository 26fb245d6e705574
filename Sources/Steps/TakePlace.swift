import Foundation
import Model

/// A place at which readers look for a take. Its names, first bytes and archive are looked up once, even if several readers ask.
package final class TakePlace {
  package let location: TakeLocation
  package var path: String { location.path }
  package var isDirectory: Bool { location.isDirectory }
  package var name: String { location.name }
  /// The name without its extension.
  package var stem: String { location.stem }

  private var names: [Directory.Member]?
  private var firstBytes: [UInt8]?
  private var listing: (limits: Archive.Limits, result: Result<Archive?, any Error>)?

  package init(_ location: TakeLocation) { self.location = location }

  /// Kind of the item at a path inside the folder; `nil` where absent. Throws `FileError` where the system does not say.
  package func kind(of path: String) throws -> Directory.Kind? { try Directory.kind(at: self.path + "/" + path) }

  /// The members of the folder, in bytewise order of their names; empty for a file.
  package func members() throws -> [Directory.Member] {
    if let names { return names }
    let found = try isDirectory ? Directory.members(of: path) : []
    names = found
    return found
  }

  /// The first bytes of the file; empty for a folder, for a file with the extension of images, tables, text or sound, and for anything that
  /// is not a regular file.
  package func start(count: Int) throws -> [UInt8] {
    precondition(count <= Self.startLength)
    if firstBytes == nil {
      let isOther = isDirectory || InputFile.isOther(URL(name: name).pathExtension.lowercased())
      firstBytes = isOther ? [] : try InputFile.start(of: path, count: Self.startLength)
    }
    return Array(firstBytes?.prefix(count) ?? [])
  }
  private static let startLength = 1024

  /// The zip or tar that the file is; `nil` for any other. Throws `TakeFailure` where listing fails or is not permitted.
  package func archive(_ limits: Archive.Limits) throws -> Archive? {
    if let listing, listing.limits == limits { return try listing.result.get() }
    let format = try isDirectory ? nil : Archive.format(named: name, start: start(count: 512))
    let result = Result { try format.map { try Archive(path, format: $0, limits: limits) } }
    listing = (limits, result)
    return try result.get()
  }
}

extension TakePlace {
  /// The place of a take in an archive: its folder, empty for the top; the subfolders that its format has; and the files with a role.
  package typealias TakeInArchive = (root: String, subfolders: Set<String>, role: (String) -> TakeInputs.Role?)

  /// A claim to the archive that the file is.
  ///
  /// An archive that cannot be listed is left to another reader. One that `find` refuses, because it holds several takes, is a take that fails with
  /// that reason, which a reader that knows better may take.
  ///
  /// - Parameter find: Finds the take among the members; `nil` where there is none.
  package func candidate(
    inArchive limits: Archive.Limits, _ confidence: Candidate.Confidence = .certain, find: (Archive) throws -> TakeInArchive?
  ) throws -> Candidate? {
    let archive: Archive
    do {
      guard let found = try self.archive(limits) else { return nil }
      archive = found
    } catch is TakeFailure {
      return nil
    }
    do {
      guard let take = try find(archive) else { return nil }
      return Candidate(confidence, stem: stem) {
        TakeListing(archive: archive, root: take.root, subfolders: take.subfolders).inputs(role: take.role)
      }
    } catch let failure as TakeFailure {
      return Candidate(confidence == .certain ? .likely : .possible, stem: stem) { throw failure }
    }
  }
}

/// A reader's claim to a place.
///
///     guard place.name.hasSuffix(".frames") else { return nil }
///     return Candidate(.certain, stem: place.stem) { [path = place.path] in TakeInputs(file: path, role: .metadata) }
package struct Candidate {
  /// Confidence of a reader. If several readers recognize a take, the most confident one reads it.
  package enum Confidence: Int, Comparable, Sendable {
    /// The place may hold a take of the format.
    case possible
    /// Names or contents match the format.
    case likely
    /// Contents are present that only takes of the format have.
    case certain
    /// A file says that it is a take of this reader, whatever it looks like.
    case declared

    /// Orders by confidence, `possible` first.
    package static func < (a: Confidence, b: Confidence) -> Bool { a.rawValue < b.rawValue }
  }

  package var confidence: Confidence
  /// The take's name, from which its id is made.
  package var stem: String
  /// True for a name that many takes have, which is unsuitable as an id.
  package var hasGenericName: Bool
  /// Paths of other files that belong to the take, if they exist, so that no other take is looked for there.
  package var companions: [String]
  /// What it has in common with the takes of other phones at the same time, where names say so.
  package var session: Session?

  /// Takes of several phones at the same time.
  package struct Session: Sendable {
    /// The same for all of them, and for no others.
    package var key: String
    /// The name of all together.
    package var name: String
    package init(key: String, name: String) { (self.key, self.name) = (key, name) }
  }

  /// Lists the take's files by name. Throws `FileError` or `TakeFailure`.
  package var inputs: () throws -> TakeInputs

  package init(
    _ confidence: Confidence, stem: String, hasGenericName: Bool = false, companions: [String] = [], session: Session? = nil,
    inputs: @escaping () throws -> TakeInputs
  ) {
    (self.confidence, self.stem, self.hasGenericName, self.inputs) = (confidence, stem, hasGenericName, inputs)
    (self.companions, self.session) = (companions, session)
  }
}
