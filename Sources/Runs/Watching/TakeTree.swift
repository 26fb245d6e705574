import Foundation
import Steps

/// The names, sizes and times of everything in a take's folder, or of its file and the files next to it that belong to the take, as one number.
struct TakeTree {
  private(set) var fingerprint = 0
  /// A file that a program has not finished writing, by its name.
  private(set) var unfinished: String?

  /// Endings of names under which programs write files that they rename when they are complete.
  static let unfinishedEndings = [".tmp", ".temp", ".partial", ".part", ".filepart", ".crdownload", ".download", ".opdownload"]
  private static let depthLimit = 64

  /// - Parameters:
  ///   - stamp: That of the take's file; `nil` for a folder.
  ///   - companions: Paths of files that belong to the take, and may be there.
  /// - Throws: `FileError`, also when a file disappears meanwhile.
  init(_ place: TakeLocation, _ stamp: FileStamp?, companions: [String] = []) throws {
    var hasher = Hasher()
    if let stamp {
      hasher.combine(stamp)
      let metadata = URL(fileURLWithPath: place.path).deletingPathExtension().path + ".metadata.json"
      for path in [metadata] + companions where try Directory.kind(at: path) == .file {
        hasher.combine(path)
        hasher.combine(try FileStamp.of(path))
      }
      for path in [place.path] + companions {
        let name = URL(fileURLWithPath: path).lastPathComponent
        note(name)
        for ending in Self.unfinishedEndings where try Directory.kind(at: path + ending) == .file { note(name + ending) }
      }
    } else {
      try add(place.path, depth: 0, &hasher)
    }
    fingerprint = hasher.finalize()
  }

  private mutating func add(_ folder: String, depth: Int, _ hasher: inout Hasher) throws {
    guard depth < Self.depthLimit else { return }
    for member in try Directory.members(of: folder) {
      hasher.combine(member.name)
      note(member.name)
      switch member.kind {
      case .file: hasher.combine(try FileStamp.of(folder + "/" + member.name))
      case .directory: try add(folder + "/" + member.name, depth: depth + 1, &hasher)
      case .link, .other, .unnameable: continue
      }
    }
    hasher.combine(depth)
  }

  private mutating func note(_ name: String) {
    let lower = name.lowercased()
    if unfinished == nil, Self.unfinishedEndings.contains(where: lower.hasSuffix) { unfinished = name }
  }
}
