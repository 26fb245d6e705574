import Foundation
import Model

/// Contents of a take's folder, or of an archive that holds a take: names at the top, and in subfolders that the format has, at any depth.
package struct TakeListing {
  /// Location of the names.
  private enum Place {
    case folder(String)
    case archive(Archive, root: String)
  }

  private let place: Place
  /// Paths relative to the take, with the member's index in an archive.
  private var files: [(path: String, member: Int?)] = []
  /// Folders that the format does not have, with a trailing slash.
  private var unexpected: Set<String> = []

  /// - Parameter subfolders: Paths of the subfolders to list. Throws `TakeFailure` where one cannot be listed.
  package init(folder: String, subfolders: Set<String>) throws {
    do {
      try self.init(searching: folder, subfolders)
    } catch let error as FileError {
      var failure = error.failure()
      failure.message = "the take cannot be searched: \(error.reason)"
      throw failure
    }
  }

  private init(searching folder: String, _ subfolders: Set<String>) throws {
    place = .folder(folder)
    let known = Self.withParents(subfolders)
    func list(_ prefix: String) throws {
      for member in try Directory.members(of: prefix.isEmpty ? folder : folder + "/" + prefix.dropLast()) {
        let path = prefix + member.name
        if member.kind != .directory {
          files.append((path, nil))
        } else if known.contains(path) {
          try list(path + "/")
        } else {
          unexpected.insert(path + "/")
        }
      }
    }
    try list("")
  }

  /// Folders with those that they are in.
  private static func withParents(_ folders: Set<String>) -> Set<String> {
    folders.reduce(into: folders) { all, folder in
      var parts = folder.split(separator: "/").dropLast()
      while !parts.isEmpty {
        all.insert(parts.joined(separator: "/"))
        parts.removeLast()
      }
    }
  }

  /// - Parameter root: The take's folder in the archive; empty for its top.
  package init(archive: Archive, root: String, subfolders: Set<String>) {
    place = .archive(archive, root: root)
    let known = Self.withParents(subfolders)
    let prefix = root.isEmpty ? "" : root + "/"
    for (index, member) in archive.members.enumerated() {
      guard member.path.hasPrefix(prefix) else {
        unexpected.insert(member.path.split(separator: "/").first.map { $0.count < member.path.count ? "\($0)/" : "\($0)" } ?? "")
        continue
      }
      let path = String(member.path.dropFirst(prefix.count))
      var folder = ""
      let outside = path.split(separator: "/").dropLast().first { part in
        folder += folder.isEmpty ? "\(part)" : "/\(part)"
        return !known.contains(folder)
      }
      if outside == nil { files.append((path, index)) } else { unexpected.insert(folder + "/") }
    }
  }

  /// The files that have a role in the take; the others are listed as ignored.
  ///
  /// - Parameter sidecar: A file next to the archive that belongs to it.
  package func inputs(sidecar: String? = nil, role: (String) -> TakeInputs.Role?) -> TakeInputs {
    var entries: [TakeInputs.Entry] = []
    var ignored = Array(unexpected)
    for file in files {
      if let role = role(file.path) {
        entries.append(TakeInputs.Entry(path: file.path, role: role, member: file.member))
      } else {
        ignored.append(file.path)
      }
    }
    switch place {
    case .folder(let root): return TakeInputs(root: root, entries: entries, ignored: ignored)
    case .archive(let archive, let archiveRoot):
      if let sidecar { entries.append(TakeInputs.Entry(path: sidecar, role: .sidecar)) }
      let root = URL(fileURLWithPath: archive.path).deletingLastPathComponent().path
      return TakeInputs(root: root, entries: entries, archive: archive, archiveRoot: archiveRoot, ignored: ignored)
    }
  }
}

extension TakeListing {
  /// The folder for tables of streams beside the files of a take, which a reader that lists no folder ignores.
  package static func tables(in folder: String) throws -> [String] {
    try Directory.kind(at: folder + "/streams") == .directory ? ["streams/"] : []
  }
}

extension Archive {
  /// The shallowest folder that contains one of these files or folders; `nil` when there is none. Throws `TakeFailure`
  /// `archive-ambiguous` when there are several.
  package func root(holding files: Set<String>, folders: Set<String>) throws -> String? {
    var roots: Set<[Substring]> = []
    for member in members {
      let parts = member.path.split(separator: "/")
      // macOS puts a file next to each file, with a prefix before its name.
      guard !parts.contains(where: { $0.hasPrefix(".") || $0 == "__MACOSX" }) else { continue }
      if let last = parts.last, files.contains(String(last)) { roots.insert(Array(parts.dropLast())) }
      if let folder = parts.dropLast().firstIndex(where: { folders.contains(String($0)) }) { roots.insert(Array(parts[..<folder])) }
    }
    guard let depth = roots.map(\.count).min() else { return nil }
    let shallowest = roots.filter { $0.count == depth }.map { $0.joined(separator: "/") }.sorted()
    guard shallowest.count == 1 else {
      throw TakeFailure(
        .archiveAmbiguous, "it holds \(shallowest.count) takes, \(shallowest.prefix(3).joined(separator: ", ")) among them; expected one",
        file: URL(fileURLWithPath: path).lastPathComponent)
    }
    return shallowest[0]
  }
}
