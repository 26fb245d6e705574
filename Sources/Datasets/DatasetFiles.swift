import Foundation
import Model
package import Steps

/// The names of a dataset's files.
package enum DatasetFiles {
  package static let manifest = "manifest.json"
  package static let journal = "journal.jsonl"
  package static let episodes = "episodes"
  /// The index over all shards.
  package static let index = "dataset.h5"
  /// A new index, until the manifest that names it is in place.
  package static let pendingIndex = ".dataset.h5.next"
  /// The files of `describe`.
  package static let card = "README.md", croissant = "croissant.json", crate = "ro-crate-metadata.json"
  /// The file of `sign`.
  package static let attestation = "attestation.json"
  /// The file of `plan --tasks`, and the folder of its workers' results with the mark of a finished dataset.
  package static let tasks = "tasks.json", results = "results", publishedMark = ".published"
  /// The folder of the files of a batch's steps in Python.
  package static let steps = "task-steps"
  /// The beginning of the name of an attempt's directory.
  package static let attemptPrefix = "attempt-"

  /// Path of an episode's shard, relative to the dataset's directory.
  package static func shard(of id: String) -> String { "\(episodes)/\(id).h5" }

  /// Returns the name of a dataset's file or folder in words, for somebody who takes it for a recording; `nil` for anything else. Looks at
  /// names and first bytes only.
  package static func word(for path: String) -> String? {
    let url = URL(fileURLWithPath: path)
    let folder = url.deletingLastPathComponent().path
    func isHDF5(_ path: String) -> Bool {
      (try? Directory.kind(at: path)) == .file
        && (try? InputFile.start(of: path, count: 8)) == [0x89, 0x48, 0x44, 0x46, 0x0D, 0x0A, 0x1A, 0x0A]
    }
    func isIndex(_ path: String) -> Bool { path.hasSuffix("/" + index) && isHDF5(path) }
    if isIndex(path) {
      return isDataset(folder)
        ? "this is the index of a Takeset dataset; its folder is \(folder): takeset inspect \(shellWord(folder))"
        : "this is the index of a Takeset dataset, without the manifest.json and the episodes of its folder, which are needed too"
    }
    if isIndex(path + "/" + index) {
      return "the directory has the index of a Takeset dataset, but not its manifest.json and journal.jsonl, which are needed too"
    }
    let parent = url.deletingLastPathComponent().deletingLastPathComponent().path
    if path.hasSuffix(".h5"), folder.hasSuffix("/" + episodes), isDataset(parent) {
      return "this is an episode of a Takeset dataset; its folder is \(parent): takeset inspect \(shellWord(parent))"
    }
    if path.hasSuffix(".h5"), isHDF5(path) {
      return
        "this is an HDF5 file; one that takeset pack has made is checked by takeset verify \(shellWord(path)) and read by takeset.open in Python"
    }
    return interruption(of: path)
  }

  /// Returns a sentence about a folder in which a run was interrupted before it wrote the manifest; `nil` for any other folder.
  private static func interruption(of path: String) -> String? {
    guard !isDataset(path), (try? Directory.kind(at: path + "/" + journal)) == .file else { return nil }
    let sealed = (try? Directory.members(of: path + "/" + episodes))?.count { $0.name.hasSuffix(".h5") } ?? 0
    return "a run into this directory was interrupted after \(sealed) episodes; the same takeset run again goes on"
  }

  /// Returns the reason why a directory cannot be read as a dataset.
  static func unreadable(_ directory: String, _ error: any Error) -> String {
    interruption(of: directory).map { "\(directory) is not a dataset yet: \($0)" }
      ?? "\(directory) is not a Takeset dataset: manifest.json cannot be read (\(error))"
  }

  /// The files that commands of Takeset write into a dataset's directory.
  static let files = [manifest, journal, index, tasks, attestation, card, croissant, crate]

  /// A file or folder in a dataset's directory that no command of Takeset writes there, by its name.
  package static func foreign(in directory: String) throws -> String? {
    for folder in ["", "/\(episodes)", "/\(results)"] where try Directory.kind(at: directory + folder) == .directory {
      let foreign = try Directory.members(of: directory + folder).first { member in
        if isLeftover(member, isEpisode: folder == "/\(episodes)") { return false }
        switch (folder, member.kind) {
        case ("", .file): return !files.contains(member.name) && member.name != pendingIndex
        case ("", .directory): return ![episodes, results, steps].contains(member.name)
        case ("/\(episodes)", .file): return !member.name.hasSuffix(".h5")
        case (_, .file): return !member.name.hasSuffix(".json") && member.name != publishedMark
        default: return true
        }
      }
      if let foreign { return "\(folder.dropFirst())\(folder.isEmpty ? "" : "/")\(foreign.name)" }
    }
    return nil
  }

  /// Whether a run has left it behind; other programs have partial files, too.
  package static func isLeftover(_ member: Directory.Member, isEpisode: Bool) -> Bool {
    guard SealedFile.isTemporary(member.name) else { return false }
    let name = String(member.name.dropFirst().dropLast(".partial".count))
    if member.kind == .directory { return !isEpisode && name.hasPrefix(attemptPrefix) }
    return member.kind == .file && (isEpisode ? name.hasSuffix(".h5") : files.contains(name) || name == pendingIndex)
  }

  /// Whether a directory has the files of a dataset.
  package static func isDataset(_ directory: String) -> Bool {
    [manifest, journal].allSatisfy { (try? Directory.kind(at: directory + "/" + $0)) == .file }
  }

  /// The line of `run.index` about an index that has this path: its size, time and inode. Its inode's own time changes when it is put in place.
  package static func indexStamp(_ path: String) -> String {
    (try? FileStamp.of(path)).map { "\($0.bytes) \($0.modified) \($0.inode)" } ?? "missing"
  }

  /// Puts an index in place whose manifest is there already: a command was killed between the two. Where nothing can be written, nothing is.
  ///
  /// - Parameter isWriter: Whether no other command writes, so that an index which no manifest names is a leftover.
  package static func settleIndex(in directory: String, isWriter: Bool = false) {
    let pending = directory + "/" + pendingIndex
    guard (try? Directory.kind(at: pending)) == .file, isDataset(directory) else { return }
    let wanted = ManifestFile.head(["index"], in: directory)["index"]?["sha256"]?.string
    if let wanted, (try? SealedFile.digest(of: pending))?.digest.description == wanted {
      if rename(pending, directory + "/" + index) == 0 { try? SealedFile.syncDirectory(of: pending) }
    } else if isWriter {
      unlink(pending)
    }
  }

  /// Whether a path is relative and does not leave the directory.
  package static func isInside(_ path: String) -> Bool {
    !path.isEmpty && !path.hasPrefix("/") && !path.split(separator: "/").contains("..")
      && !path.unicodeScalars.contains { $0.properties.generalCategory == .control }
  }
}
