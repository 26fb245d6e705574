import Foundation
import Media
import Model
import Steps

/// A place that may hold a session: a folder, a zip or tar made by the app's export or by the packing script, or the copy of the metadata
/// that the app writes next to an archive.
struct SessionPlace {
  let place: TakePlace
  let limits: Archive.Limits

  func candidate() throws -> Candidate? {
    if place.isDirectory { return try folder() }
    do {
      if let archive = try place.archive(limits) { return try archived(archive) }
    } catch let failure as TakeFailure {
      // An archive that cannot be listed may be a session; skipping it would lose it silently.
      return Candidate(.possible, stem: place.stem) { throw failure }
    }
    guard let sidecar = try Sidecar(standalone: place.path) else { return nil }
    return Candidate(.likely, stem: sidecar.session) { [path = place.path] in TakeInputs(file: path, role: .sidecar) }
  }

  // MARK: Folders

  private func folder() throws -> Candidate? {
    guard let confidence = try folderConfidence() else { return nil }
    return Candidate(confidence, stem: place.name) { [path = place.path] in try Self.inputs(ofFolder: path) }
  }

  private func folderConfidence() throws -> Candidate.Confidence? {
    if try place.kind(of: PosesFile.name) != nil { return .certain }
    if try place.kind(of: SessionMetadata.name) == .file,
      try SessionMetadata.recognizes(InputFile.start(of: place.path + "/" + SessionMetadata.name, count: 4096))
    {
      return .likely
    }
    guard try place.kind(of: "rgb") == .directory else { return nil }
    let images = try Directory.members(of: place.path + "/rgb")
    if images.contains(where: { SessionFolder.role(of: "rgb/" + $0.name) == .image }) { return .possible }
    return images.isEmpty || place.name.hasPrefix("session_") ? .possible : nil
  }

  static func inputs(ofFolder path: String) throws -> TakeInputs {
    try TakeListing(folder: path, subfolders: SessionFolder.subfolders).inputs(role: SessionFolder.role)
  }

  // MARK: Archives

  private func archived(_ archive: Archive) throws -> Candidate? {
    let sidecar = try Sidecar(beside: archive.path)
    guard let (root, confidence) = try root(in: archive) else {
      guard sidecar != nil else { return nil }
      return Candidate(.possible, stem: place.stem) {
        throw TakeFailure(
          .noFrames, "the archive holds no session, although a copy of session metadata is next to it",
          file: URL(fileURLWithPath: archive.path).lastPathComponent)
      }
    }
    return Candidate(confidence, stem: place.stem) {
      let listing = TakeListing(archive: archive, root: root, subfolders: SessionFolder.subfolders)
      return listing.inputs(sidecar: try Sidecar.name(beside: archive.path), role: SessionFolder.role)
    }
  }

  /// The session's folder in an archive.
  private func root(in archive: Archive) throws -> (String, Candidate.Confidence)? {
    let (files, folders): (Set<String>, Set<String>) = ([PosesFile.name], ["rgb"])
    guard let root = try archive.root(holding: files.union([SessionMetadata.name]), folders: folders) else { return nil }
    let prefix = root.isEmpty ? "" : root + "/"
    if archive.members.contains(where: { $0.path == prefix + PosesFile.name }) { return (root, .certain) }
    if archive.isSessionMetadata(in: root) { return (root, .likely) }
    if archive.members.contains(where: { $0.path.hasPrefix(prefix + "rgb/") }) { return (root, .possible) }
    // The shallower metadata.json was written by another app.
    return try archive.root(holding: files, folders: folders).map { ($0, .possible) }
  }

  /// Whether a folder has the same files as an archived session, byte by byte.
  static func isDuplicate(_ inputs: TakeInputs, of folder: String) throws -> Bool {
    guard let archive = inputs.archive else { return false }
    let other = try Self.inputs(ofFolder: folder)
    let members = inputs.entries.compactMap { entry in entry.member.map { (path: entry.path, member: archive.members[$0]) } }
    guard members.map(\.path) == other.entries.map(\.path) else { return false }
    // Lengths first: comparing them costs nothing.
    let haveLengths = try members.indices.allSatisfy { try other.bytes(of: $0) == members[$0].member.bytes }
    // A damaged member equals nothing.
    return try haveLengths
      && members.indices.allSatisfy { index in
        do { return try archive.isSame(members[index].member, other.slice(index)) } catch is ArchiveError { return false }
      }
  }
}

/// The copy of a session's metadata that the app writes next to each archive: `NAME.metadata.json` next to `NAME.zip`. The app continues
/// even if the archive could not be written.
private struct Sidecar {
  /// The name of the session.
  let session: String

  private static let ending = ".metadata.json"

  /// A copy without its archive; `nil` for any other file.
  init?(standalone path: String) throws {
    guard path.hasSuffix(Self.ending) else { return nil }
    let stem = String(path.dropLast(Self.ending.count))
    session = URL(fileURLWithPath: stem).lastPathComponent
    guard try session.hasPrefix("session_") || SessionMetadata.recognizes(InputFile.start(of: path, count: 4096)) else { return nil }
    for ending in ["", ".zip", ".tar", ".ZIP", ".TAR", ".Zip", ".Tar"] where try Directory.kind(at: stem + ending) != nil { return nil }
  }

  /// The copy next to an archive; `nil` where absent.
  init?(beside archive: String) throws {
    let path = Self.path(beside: archive)
    guard try Directory.kind(at: path) == .file, try SessionMetadata.recognizes(InputFile.start(of: path, count: 4096)) else { return nil }
    session = URL(fileURLWithPath: archive).deletingPathExtension().lastPathComponent
  }

  /// File name of the copy next to an archive, whatever its contents; `nil` where absent.
  static func name(beside archive: String) throws -> String? {
    let path = path(beside: archive)
    return try Directory.kind(at: path) == .file ? URL(fileURLWithPath: path).lastPathComponent : nil
  }

  private static func path(beside archive: String) -> String { URL(fileURLWithPath: archive).deletingPathExtension().path + ending }
}

extension Archive {
  fileprivate func isSessionMetadata(in root: String) -> Bool {
    let path = root.isEmpty ? SessionMetadata.name : root + "/" + SessionMetadata.name
    guard let member = members.first(where: { $0.path == path }), let reader = try? open(member) else { return false }
    var start = [UInt8](repeating: 0, count: 4096)
    let count = (try? start.withUnsafeMutableBytes { try reader.read(into: $0) }) ?? 0
    return SessionMetadata.recognizes(Array(start.prefix(count)))
  }

  /// Whether a member has the bytes of a file.
  fileprivate func isSame(_ member: Member, _ file: FileSlice) throws -> Bool {
    let reader = try open(member)
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
