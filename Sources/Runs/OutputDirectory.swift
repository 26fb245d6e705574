import Datasets
import Foundation
import Model
import Steps

/// The directory that a run writes into, checked before any work and locked while the run writes.
package final class OutputDirectory: Sendable {
  let path: String
  private let lock: Int32

  var episodes: String { path + "/" + DatasetFiles.episodes }
  var journal: String { path + "/" + DatasetFiles.journal }
  var manifest: String { path + "/" + DatasetFiles.manifest }
  var index: String { path + "/" + DatasetFiles.index }

  /// Creates the directory if needed. Throws `UsageError` when it is inside an input, `OutputFailure` when it cannot be written.
  ///
  /// - Parameter removesLeftovers: Whether no other process can be writing there, so that unfinished files are left over from a killed run.
  package init(_ given: String, inputs: [String], removesLeftovers: Bool = true) throws {
    path = Directory.absolute(given)
    for input in inputs {
      let root = Directory.absolute(input)
      if path == root || path.hasPrefix(root + "/") {
        throw UsageError("the output \(given) is inside the input \(input); choose a directory outside it")
      }
    }
    do {
      try Directory.create(path + "/" + DatasetFiles.episodes)
    } catch {
      throw OutputFailure("cannot create the output directory \(given): \(error)", code: (error as? FileError)?.code)
    }
    lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard lock >= 0 else { throw OutputFailure("\(FileError("open", path))") }
    guard Self.acquire(lock) else {
      defer { close(lock) }
      guard errno == EWOULDBLOCK else { throw OutputFailure(withoutLocks: given) }
      throw OutputFailure(
        "another run is writing into \(given), or takeset pack reads it; wait for it or choose another directory")
    }
    guard access(path, W_OK) == 0, access(path + "/" + DatasetFiles.episodes, W_OK) == 0 else {
      let error = FileError("write into", given)
      close(lock)
      throw OutputFailure("\(error)", code: error.code)
    }
    DatasetFiles.settleIndex(in: path, isWriter: true)
    if removesLeftovers { removeLeftovers() }
  }

  deinit { close(lock) }

  /// Whether the locked directory is still the one at its path.
  var isThere: Bool { Directory.isOpen(lock, at: path) }

  /// Removes the unfinished files and attempts of a run that was killed.
  func removeLeftovers() {
    for directory in [path, episodes] {
      for member in (try? Directory.members(of: directory)) ?? [] where DatasetFiles.isLeftover(member, isEpisode: directory == episodes) {
        try? FileManager.default.removeItem(atPath: directory + "/" + member.name)
      }
    }
  }

  /// Removes the shards of all takes but these.
  func removeShards(except known: Set<String>) {
    for member in (try? Directory.members(of: episodes)) ?? [] where member.kind == .file {
      let shard = "\(DatasetFiles.episodes)/\(member.name)"
      let id = URL(name: member.name).deletingPathExtension().lastPathComponent
      // Only files that are shards by name and by content.
      guard !known.contains(id), DatasetFiles.shard(of: id) == shard, WrittenShard.isShard(path + "/" + shard, of: id) else { continue }
      unlink(path + "/" + shard)
    }
  }

  /// Keeps runs from writing to a dataset while it is read.
  package struct ReadLock {
    private let descriptor: Int32

    /// Throws `UsageError` where there is no such directory, `OutputFailure` while a run writes into it.
    package init(_ directory: String) throws {
      descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
      guard descriptor >= 0 else { throw UsageError("\(FileError("open", directory))") }
      // A file system without locks is read as it is.
      guard OutputDirectory.acquire(descriptor, LOCK_SH) || errno != EWOULDBLOCK else {
        close(descriptor)
        throw OutputFailure("a run is writing into \(directory); wait for it to finish")
      }
    }

    /// Lets runs write again. Without it, the lock lasts as long as the process.
    package func release() { close(descriptor) }
  }

  /// Waits for up to a quarter of a second: a run that was killed may hold the lock for a moment, by a child process that it was about to start.
  private static func acquire(_ lock: Int32, _ kind: Int32 = LOCK_EX) -> Bool {
    for _ in 0..<25 {
      if flock(lock, kind | LOCK_NB) == 0 { return true }
      guard errno == EWOULDBLOCK || errno == EINTR else { return false }
      usleep(10_000)
    }
    errno = EWOULDBLOCK
    return false
  }
}
