import Foundation

/// A session in a zip or tar, as the app exports and the packing script leaves it, and the copy of its metadata beside it.
struct ArchivedSession {
  let archive: Archive
  /// The session's folder in it.
  let root: String

  /// `nil` where the archive holds no session. Throws `TakeFailure` where it cannot be read or must not be.
  init?(_ path: String, _ format: Archive.Format, _ limits: Archive.Limits) throws {
    archive = try Archive(path, format: format, limits: limits)
    let strong = (files: Set(["poses.json"]), folders: Set(["rgb"]))
    guard let root = try archive.root(holding: strong.files.union(["metadata.json"]), folders: strong.folders) else { return nil }
    let prefix = root.isEmpty ? "" : root + "/"
    if archive.members.contains(where: { $0.path.hasPrefix(prefix + "rgb/") || $0.path == prefix + "poses.json" })
      || archive.isSessionMetadata(in: root)
    {
      self.root = root
    } else if let deeper = try archive.root(holding: strong.files, folders: strong.folders) {
      // The shallower metadata.json is somebody else's.
      self.root = deeper
    } else {
      return nil
    }
  }

  var inputs: TakeInputs {
    let listing = TakeListing(archive: archive, root: root, subfolders: SessionFolder.subfolders)
    let sidecar = Self.stem(archive.path) + Self.sidecarEnding
    let exists = Directory.existingKind(of: sidecar) == .file
    return listing.inputs(sidecar: exists ? URL(fileURLWithPath: sidecar).lastPathComponent : nil, role: SessionFolder.role)
  }

  // MARK: The sidecar

  private static let sidecarEnding = ".metadata.json"

  /// The app writes one beside each archive and carries on when the archive could not be written.
  static func isSidecarAlone(_ path: String) -> Bool {
    guard path.hasSuffix(sidecarEnding) else { return false }
    let stem = String(path.dropLast(sidecarEnding.count))
    let name = URL(fileURLWithPath: stem).lastPathComponent
    guard name.hasPrefix("session_") || SessionMetadata.recognises(InputFile.start(of: path, count: 4096)) else { return false }
    return ["", ".zip", ".tar", ".ZIP", ".TAR", ".Zip", ".Tar"].allSatisfy { Directory.existingKind(of: stem + $0) == nil }
  }

  /// The archive's path without its ending.
  private static func stem(_ path: String) -> String { URL(fileURLWithPath: path).deletingPathExtension().path }

  // MARK: Duplicates

  /// Whether a folder has the same files in it, byte by byte.
  static func isDuplicate(_ inputs: TakeInputs, of folder: String) throws -> Bool {
    guard let listing = try? TakeListing(folder: folder, subfolders: SessionFolder.subfolders) else { return false }
    let other = listing.inputs(role: SessionFolder.role)
    let members = inputs.entries.filter { $0.member != nil }
    guard members.map(\.path) == other.entries.map(\.path) else { return false }
    var (bytes, otherBytes): ([UInt8], [UInt8]) = ([], [])
    for (index, entry) in other.entries.enumerated() {
      guard let member = inputs.index(of: entry.path), try inputs.bytes(of: member) == other.bytes(of: index) else { return false }
    }
    for (index, entry) in other.entries.enumerated() {
      guard let member = inputs.index(of: entry.path) else { return false }
      try inputs.read(member, limit: 1 << 30, hasher: SHA256(), into: &bytes)
      try other.read(index, limit: 1 << 30, hasher: SHA256(), into: &otherBytes)
      guard bytes == otherBytes else { return false }
    }
    return true
  }
}

extension Archive {
  fileprivate func isSessionMetadata(in root: String) -> Bool {
    let path = root.isEmpty ? "metadata.json" : root + "/metadata.json"
    guard let member = members.first(where: { $0.path == path }), let reader = try? open(member) else { return false }
    var start = [UInt8](repeating: 0, count: 4096)
    let count = (try? start.withUnsafeMutableBytes { try reader.read(into: $0) }) ?? 0
    return SessionMetadata.recognises(Array(start.prefix(count)))
  }
}
