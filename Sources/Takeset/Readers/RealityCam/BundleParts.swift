import Foundation
import Media
import Model

/// The parts of an uploaded bundle, in a folder or in the body of the upload as it was received.
struct BundleParts {
  /// By the names that the upload gives them.
  enum Name: String, CaseIterable, Sendable {
    case video, metadata
    case depth = "depth_data"
    case chain = "hash_chain"

    /// The most bytes that the app's server takes.
    var limit: Int64 {
      switch self {
      case .video: 104_857_600
      case .depth: 20_971_520
      case .chain: 1_048_576
      case .metadata: 102_400
      }
    }

    var role: TakeInputs.Role {
      switch self {
      case .video: .movie
      case .metadata: .metadata
      case .depth: .depth
      case .chain: .hashChain
      }
    }
  }

  struct Part {
    /// For messages: the file's name, or the part's of the body.
    var file: String
    var slice: FileSlice
  }

  private var parts: [Name: Part] = [:]
  /// The app's server keeps the movie, the depth as `video_depth.gz` and the chain, and throws the metadata away.
  let isServerStorage: Bool

  init(_ inputs: TakeInputs) throws {
    if let body = inputs.entries.firstIndex(where: { $0.role == .body }) {
      let file = inputs.entries[body].path
      let slice = try inputs.slice(body)
      isServerStorage = false
      parts = try naming(file) {
        try MultipartBody(slice, file: file).parts.reduce(into: [:]) { parts, part in
          if let name = Name(rawValue: part.name) { parts[name] = Part(file: "\(file):\(part.name)", slice: slice[part.range]) }
        }
      }
    } else {
      for (index, entry) in inputs.entries.enumerated() {
        guard let name = Name.allCases.first(where: { $0.role == entry.role }) else { continue }
        parts[name] = Part(file: entry.path, slice: try inputs.slice(index))
      }
      isServerStorage = inputs.index(of: "video_depth.gz") != nil
    }
    for name in Name.allCases {
      guard let part = parts[name], part.slice.count > name.limit else { continue }
      throw TakeFailure(
        .inputTooLarge, "the part \(name.rawValue) has \(part.slice.count) bytes, over the limit of \(name.limit)", file: part.file)
    }
  }

  /// The part, if it is there and not empty.
  func existing(_ name: Name) -> Part? { parts[name].flatMap { $0.slice.count > 0 ? $0 : nil } }

  /// The part. Throws `TakeFailure` when it is missing or empty.
  func required(_ name: Name) throws -> Part {
    guard let part = parts[name] else { throw TakeFailure(.partMissing, "the bundle has no part \(name.rawValue)") }
    guard part.slice.count > 0 else {
      throw TakeFailure(.partEmpty, "the part \(name.rawValue) is empty", file: part.file)
    }
    return part
  }

  /// Every byte of a small part.
  func bytes(_ part: Part) throws -> [UInt8] { try naming(part.file) { try part.slice.bytes(0..<part.slice.count) } }

  /// Size and digest of every part, for the record.
  func json() throws -> JSONValue {
    .array(
      try parts.sorted { $0.key.rawValue < $1.key.rawValue }.map { name, part in
        [
          "name": .string(name.rawValue), "bytes": .integer(part.slice.count),
          "sha256": .string(try naming(part.file) { try digest(part.slice) }.description),
        ]
      })
  }

  private func digest(_ slice: FileSlice) throws -> Digest {
    let hasher = SHA256()
    try withBuffer(of: 1 << 18) { buffer in
      var offset: Int64 = 0
      while offset < slice.count {
        let count = try slice.read(into: buffer, at: offset)
        if count == 0 { break }
        hasher.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        offset += Int64(count)
      }
    }
    return hasher.finish()
  }
}

/// Which files of a folder, or of an archive's, are the parts of a bundle: by their names, and where names tell nothing by their first bytes.
struct BundleFolder {
  private(set) var files: [BundleParts.Name: String] = [:]
  /// Whether names or contents show that this is a bundle and not something else with a movie in it.
  private(set) var isBundle = false

  /// A folder of more files than this is no bundle.
  private static let fileLimit = 32

  init(_ root: String) throws {
    let members = try Directory.members(of: root)
    // A part that is a link or a pipe is a part, and is refused when it is to be read.
    let files = members.filter { $0.kind != .directory }.map(\.name)
    try self.init(files, folders: members.filter { $0.kind == .directory }.map(\.name)) { name, count in
      try InputFile.start(of: root + "/" + name, count: count)
    }
  }

  /// The folder in an archive that a bundle could be in: the shallowest with files in it, if it is the only one.
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
    var folders: Set<String> = []
    for member in archive.members where member.path.hasPrefix(prefix) {
      let parts = member.path.dropFirst(prefix.count).split(separator: "/")
      if parts.count == 1 { members[String(parts[0])] = member } else { folders.insert(String(parts[0])) }
    }
    try self.init(members.keys.sorted(), folders: Array(folders)) { name, count in
      do { return try members[name].map { try archive.start(of: $0, count: count) } ?? [] } catch is ArchiveError {
        // What a damaged member is shows when it is read, and so does the damage.
        return []
      }
    }
  }

  /// - Parameter start: The first bytes of a file, so many of them.
  private init(_ files: [String], folders: [String], start: (String, Int) throws -> [UInt8]) throws {
    if (files + folders).contains(where: { ["rgb", "poses.json", "odometry.csv"].contains($0) }) { return }
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
    // One part alone is no bundle, and what is named like one may be something else.
    isBundle = self.files.count > 1 && (self.files[.chain] != nil || hasMetadata || self.files[.depth] != nil && self.files[.video] != nil)
    if self.files[.depth] == nil, others.count == 1 { self.files[.depth] = others[0] }
  }

  /// What a file of the folder is, by its name.
  func role(of name: String) -> TakeInputs.Role? { files.first { $0.value == name }?.key.role }

  private static func part(named name: String) -> BundleParts.Name? {
    let url = URL(fileURLWithPath: name.lowercased())
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
    MovieFile.endings.contains(URL(fileURLWithPath: name).pathExtension.lowercased())
  }

  /// The part that a JSON file's keys show it to be.
  private static func jsonPart(_ start: [UInt8]) -> BundleParts.Name? {
    guard start.first(where: { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }) == UInt8(ascii: "{") else { return nil }
    let text = String(decoding: start, as: UTF8.self)
    if text.contains("\"frame_hashes\"") || text.contains("\"checkpoint_count\"") { return .chain }
    return ["\"hash_chain_final\"", "\"depth_keyframe_count\"", "\"attestation_level\""].contains(where: text.contains) ? .metadata : nil
  }

  /// UTF-8 without control characters; a character may be cut off at the end.
  private static func isText(_ start: [UInt8]) -> Bool {
    guard start.allSatisfy({ $0 >= 0x20 || (0x09...0x0D).contains($0) }) else { return false }
    return (0..<4).contains { String(validating: start.dropLast($0), as: UTF8.self) != nil }
  }
}
