import Datasets
import Foundation
import Model
import Steps

/// The places that a search for takes passed over: folders without a take, as a whole, and files, so that everything in an input is
/// accounted for.
package struct IgnoredPlaces: Sendable, Equatable {
  /// The kind of a place: a folder counts once, whatever is in it.
  package enum Kind: String, Sendable, CaseIterable { case folder, archive, file }

  /// A place that was passed over, with everything in it.
  package struct Place: Sendable, Equatable {
    package var path: String
    package var kind: Kind
  }

  package private(set) var places: [Place] = []
  /// Paths of links to directories, which were not followed.
  package private(set) var links: [String] = []
  var count: Int { places.count }

  private static let archives: Set<String> = ["zip", "tar", "gz", "tgz", "bz2", "xz", "zst", "7z", "rar"]

  mutating func add(_ place: TakeLocation) {
    let isArchive = Self.archives.contains(URL(name: place.name).pathExtension.lowercased())
    places.append(Place(path: place.path, kind: place.isDirectory ? .folder : isArchive ? .archive : .file))
  }

  /// Counts a folder in which there is no take once, instead of what is in it.
  mutating func fold(from start: Int, into folder: TakeLocation) {
    places.removeSubrange(start...)
    add(folder)
  }

  mutating func addLink(_ path: String) { links.append(path) }

  mutating func remove(_ path: String) { places.removeAll { $0.path == path } }

  /// Removes the copies of metadata that the app writes next to archives, which are read with them.
  mutating func removeSidecars(of found: [TakeSearch.Found]) {
    let ending = ".metadata.json"
    guard places.contains(where: { $0.path.hasSuffix(ending) }) else { return }
    let files = found.map(\.location).filter { !$0.isDirectory }
    let archives = Set(files.map { URL(fileURLWithPath: $0.path).deletingPathExtension().path })
    places.removeAll { $0.path.hasSuffix(ending) && archives.contains(String($0.path.dropLast(ending.count))) }
  }

  /// Removes files of labels beside takes that are single files; they are read with the labels.
  mutating func removeLabels(of found: [TakeSearch.Found]) {
    guard places.contains(where: { $0.path.contains(".labels.") }) else { return }
    let stems = Set(found.map(\.location).filter { !$0.isDirectory }.map { URL(fileURLWithPath: $0.path).deletingPathExtension().path })
    places.removeAll { place in
      LabelFile.extensions.contains { ending in
        place.path.hasSuffix(".labels.\(ending)") && stems.contains(String(place.path.dropLast(".labels.\(ending)".count)))
      }
    }
  }

  /// The places and the reason, as a sentence; `nil` where there are none.
  var sentence: String? {
    let parts = [unrecognized, notFollowed].compactMap(\.self)
    return parts.isEmpty ? nil : parts.joined(separator: "; ")
  }

  /// `not followed: 2 links to directories (monday, tuesday), which --follow-links searches`
  var notFollowed: String? {
    if links.isEmpty { return nil }
    let directories = links.count == 1 ? "1 link to a directory" : "\(links.count) links to directories"
    return "not followed: \(directories) (\(Self.names([links]))), which --follow-links searches"
  }

  /// `ignored, because no reader recognizes them: 2 folders, 1 archive, 3 files (record3d_copy, …)`
  private var unrecognized: String? {
    guard !places.isEmpty else { return nil }
    let counts = Kind.allCases.compactMap { kind in
      let count = places.count { $0.kind == kind }
      return count == 0 ? nil : several(count, kind.rawValue)
    }
    let names = Kind.allCases.map { kind in places.filter { $0.kind == kind }.map(\.path) }
    let them = places.count == 1 ? "it" : "them"
    return "ignored, because no reader recognizes \(them): \(counts.joined(separator: ", ")) (\(Self.names(names)))"
  }

  private static let named = 4

  /// The first names of paths, group by group; with their folders where names repeat.
  private static func names(_ groups: [[String]]) -> String {
    func ordered(_ components: Int) -> [String] {
      groups.flatMap { $0.map { $0.split(separator: "/").suffix(components).joined(separator: "/").onOneLine }.sorted() }
    }
    let plain = ordered(1)
    let ordered = Set(plain).count == plain.count ? plain : ordered(2)
    return (ordered.prefix(named) + (ordered.count > named ? ["…"] : [])).joined(separator: ", ")
  }

  /// The same for the manifest.
  var findings: [Finding] { sentence.map { [Finding(.inputIgnored, $0, count: count + links.count)] } ?? [] }
}
