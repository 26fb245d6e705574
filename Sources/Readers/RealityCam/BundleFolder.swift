import Foundation
import Model
import Steps

/// The files of a folder or archive that are parts of a bundle, identified by name, or by first bytes where the name does not say.
struct BundleFolder {
  private(set) var files: [BundleParts.Name: String] = [:]
  /// Confidence that this is a bundle and not another folder with a video in it; `nil` where names and contents do not show it.
  private(set) var confidence: Candidate.Confidence?

  /// Number of files above which a folder is not a bundle.
  private static let fileLimit = 32

  init(_ place: TakePlace) throws {
    let members = try place.members()
    // A part that is a link or a pipe is still a part, and is refused when it is read.
    let files = members.filter { $0.kind != .directory }.map(\.name)
    try self.init(files, hasFolders: members.contains { $0.kind == .directory }) { name, count in
      try InputFile.start(of: place.path + "/" + name, count: count)
    }
  }

  /// The folder in an archive that a bundle could be in: the shallowest with files in it, if there is only one.
  static func root(in archive: Archive) -> String? {
    var folders: Set<[Substring]> = []
    for member in archive.members {
      let parts = member.path.split(separator: "/")
      if !parts.contains(where: { $0.hasPrefix(".") || $0 == "__MACOSX" }) { folders.insert(Array(parts.dropLast())) }
    }
    let depth = folders.map(\.count).min()
    let shallowest = folders.filter { $0.count == depth }
    return shallowest.count == 1 ? shallowest.first?.joined(separator: "/") : nil
  }

  init(_ archive: Archive, root: String) throws {
    let prefix = root.isEmpty ? "" : root + "/"
    var members: [String: Archive.Member] = [:]
    var hasFolders = false
    for member in archive.members where member.path.hasPrefix(prefix) {
      let parts = member.path.dropFirst(prefix.count).split(separator: "/")
      if parts.count == 1 { members[String(parts[0])] = member } else { hasFolders = true }
    }
    try self.init(members.keys.sorted(), hasFolders: hasFolders) { name, count in
      do { return try members[name].map { try archive.start(of: $0, count: count) } ?? [] } catch is ArchiveError {
        // A damaged member is identified, and its damage reported, when it is read.
        return []
      }
    }
  }

  /// - Parameter start: The first bytes of a file, up to a number of them.
  private init(_ files: [String], hasFolders: Bool, start: (String, Int) throws -> [UInt8]) throws {
    let names = files.filter { !$0.hasPrefix(".") }
    guard !names.isEmpty, names.count <= Self.fileLimit else { return }
    var unknown: [String] = []
    for name in names {
      if let part = Self.part(named: name), self.files[part] == nil { self.files[part] = name } else { unknown.append(name) }
    }
    var movies: [String] = [], others: [String] = []
    for name in unknown {
      let bytes = try start(name, 4096)
      if Self.isMovie(name) || MovieFile.startsAsMovie(bytes) {
        movies.append(name)
      } else if let part = Self.jsonPart(bytes) {
        if self.files[part] == nil { self.files[part] = name }
      } else if !bytes.starts(with: [0xFF, 0xD8]), !bytes.starts(with: [0x89, 0x50, 0x4E, 0x47]), !Self.isText(bytes), name != "Thumbs.db" {
        others.append(name)
      }
    }
    let hasMetadata = try self.files[.metadata].map { Self.jsonPart(try start($0, 4096)) == .metadata } ?? false
    if self.files[.video] == nil, movies.count == 1 { self.files[.video] = movies[0] }
    // A single part is not a bundle, and a file named like one may be something else.
    if self.files.count > 1 {
      let isNamed = self.files[.chain] != nil || hasMetadata
      // Bundles have no folders in them.
      if isNamed && !hasFolders {
        confidence = .likely
      } else if isNamed || self.files[.depth] != nil && self.files[.video] != nil {
        confidence = .possible
      }
    }
    if self.files[.depth] == nil, others.count == 1 { self.files[.depth] = others[0] }
  }

  /// Role of a file of the folder, by its name.
  func role(of name: String) -> TakeInputs.Role? { files.first { $0.value == name }?.key.role }

  private static func part(named name: String) -> BundleParts.Name? {
    let url = URL(name: name.lowercased())
    let stem = url.deletingPathExtension().lastPathComponent
    switch (stem, url.pathExtension) {
    case ("video", let ending) where MovieFile.endings.contains(ending): return .video
    case ("hash_chain", "json"), ("hash_chain", ""): return .chain
    case ("metadata", "json"), ("metadata", ""): return .metadata
    case ("depth", let ending), ("video_depth", let ending), ("depth_data", let ending):
      return ["", "gz", "bin", "rldp", "zlib", "deflate", "z"].contains(ending) ? .depth : nil
    default: return nil
    }
  }

  private static func isMovie(_ name: String) -> Bool {
    MovieFile.endings.contains(URL(name: name).pathExtension.lowercased())
  }

  /// The part that a JSON file's keys show it to be.
  private static func jsonPart(_ start: [UInt8]) -> BundleParts.Name? {
    guard start.first(where: { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }) == UInt8(ascii: "{") else { return nil }
    // A search in a String takes longer than all else that recognizes a folder of another format.
    let quoted = start.split(separator: UInt8(ascii: "\""))
    func has(_ keys: [String]) -> Bool { keys.contains { key in quoted.contains { $0.elementsEqual(key.utf8) } } }
    if has(["frame_hashes", "checkpoint_count"]) { return .chain }
    return has(["hash_chain_final", "depth_keyframe_count", "attestation_level"]) ? .metadata : nil
  }

  /// Whether the bytes are UTF-8 without control characters; a character may be cut off at the end.
  private static func isText(_ start: [UInt8]) -> Bool {
    guard start.allSatisfy({ $0 >= 0x20 || (0x09...0x0D).contains($0) }) else { return false }
    return (0..<4).contains { String(validating: start.dropLast($0), as: UTF8.self) != nil }
  }
}
