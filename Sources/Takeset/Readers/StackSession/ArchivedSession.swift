import Foundation
import Media
import Model

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
    let hasPoses = archive.members.contains { $0.path == prefix + "poses.json" }
    if !hasPoses, archive.members.contains(where: { $0.path == prefix + OdometryFile.name }) { return nil }
    if hasPoses || archive.members.contains(where: { $0.path.hasPrefix(prefix + "rgb/") }) || archive.isSessionMetadata(in: root) {
      self.root = root
    } else if let deeper = try archive.root(holding: strong.files, folders: strong.folders) {
      // The shallower metadata.json is somebody else's.
      self.root = deeper
    } else {
      return nil
    }
  }

  func inputs() throws -> TakeInputs {
    let listing = TakeListing(archive: archive, root: root, subfolders: SessionFolder.subfolders)
    let sidecar = Self.stem(archive.path) + Self.sidecarEnding
    let exists = try Directory.kind(at: sidecar) == .file
    return listing.inputs(sidecar: exists ? URL(fileURLWithPath: sidecar).lastPathComponent : nil, role: SessionFolder.role)
  }

  // MARK: The sidecar

  private static let sidecarEnding = ".metadata.json"

  /// The name of the session whose metadata a file is the copy of; `nil` for other files.
  static func nameBySidecar(_ path: String) -> String? {
    path.hasSuffix(sidecarEnding) ? URL(fileURLWithPath: String(path.dropLast(sidecarEnding.count))).lastPathComponent : nil
  }

  /// The app writes one beside each archive and carries on when the archive could not be written.
  static func isSidecarAlone(_ path: String) throws -> Bool {
    guard let name = nameBySidecar(path) else { return false }
    let stem = String(path.dropLast(sidecarEnding.count))
    guard try name.hasPrefix("session_") || SessionMetadata.recognises(InputFile.start(of: path, count: 4096)) else { return false }
    return try ["", ".zip", ".tar", ".ZIP", ".TAR", ".Zip", ".Tar"].allSatisfy { try Directory.kind(at: stem + $0) == nil }
  }

  /// Whether the copy of a session's metadata stands beside an archive, so that it was to hold the session.
  static func hasSidecar(_ path: String) throws -> Bool {
    let sidecar = stem(path) + sidecarEnding
    return try Directory.kind(at: sidecar) == .file && SessionMetadata.recognises(InputFile.start(of: sidecar, count: 4096))
  }

  /// The archive's path without its ending.
  private static func stem(_ path: String) -> String { URL(fileURLWithPath: path).deletingPathExtension().path }

  // MARK: Duplicates

  /// Whether a folder has the same files in it, byte by byte.
  static func isDuplicate(_ inputs: TakeInputs, of folder: String) throws -> Bool {
    guard let archive = inputs.archive else { return false }
    let other = try TakeListing(folder: folder, subfolders: SessionFolder.subfolders).inputs(role: SessionFolder.role)
    let members = inputs.entries.compactMap { entry in entry.member.map { (path: entry.path, member: archive.members[$0]) } }
    guard members.map(\.path) == other.entries.map(\.path) else { return false }
    // All lengths first: they cost nothing to compare.
    let haveLengths = try members.indices.allSatisfy { try other.bytes(of: $0) == members[$0].member.bytes }
    // A member that is damaged is not the same as anything.
    return try haveLengths
      && members.indices.allSatisfy { index in
        do { return try isSame(archive, members[index].member, other.slice(index)) } catch is ArchiveError { return false }
      }
  }

  private static func isSame(_ archive: Archive, _ member: Archive.Member, _ file: FileSlice) throws -> Bool {
    let reader = try archive.open(member)
    return try withBuffer(of: 1 << 17) { buffer in
      let (a, b) = (
        UnsafeMutableRawBufferPointer(rebasing: buffer[..<(1 << 16)]), UnsafeMutableRawBufferPointer(rebasing: buffer[(1 << 16)...])
      )
      var offset: Int64 = 0
      while true {
        let count = try reader.read(into: a)
        if count == 0 { return offset == file.count }
        let same = UnsafeMutableRawBufferPointer(rebasing: b[..<count])
        guard try file.read(into: same, at: offset) == count, a[..<count].elementsEqual(same) else { return false }
        offset += Int64(count)
      }
    }
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
