import Crypto
import Foundation
import GRDB

/// Makes a data folder's database from the copies that `--standby` keeps.
package struct DatabaseRestore: Sendable {
  /// The database that was made.
  package struct Outcome: Sendable {
    package var captures: Int
    /// Time at which the newest of them came, as ISO 8601; `nil` where there is none.
    package var newest: String?
    /// Whether a part of the log is missing or damaged: the changes behind it are lost.
    package var isCut: Bool
  }

  private let place: StandbyPlace

  /// Throws `Mistake` where the place cannot be used.
  package init(from place: String) async throws { self.place = try await StandbyPlace(place) }

  /// Restores the newest copy. Throws `Mistake` where there is none, where it is damaged, or where the folder has a database.
  package func restore(to folder: String) async throws -> Outcome {
    // SQLite would replay what an earlier database left beside it.
    for name in ["server.sqlite", "server.sqlite-wal", "server.sqlite-journal"] where access(folder + "/" + name, F_OK) == 0 {
      throw Mistake("\(folder) has \(name); restore into a folder without a database")
    }
    let names = try await place.names()
    guard let generation = Generation.complete(among: names).last else { throw Mistake("there is no copy of a database") }
    guard let description = try? JSONDecoder().decode(Generation.Description.self, from: await place.read(generation.description)) else {
      throw Mistake("\(generation.description) is damaged")
    }
    // No server starts in it meanwhile.
    _ = try DataFolder(folder)
    unlink(folder + "/server.sqlite-shm")
    let work = folder + "/restoring"
    DurableFile.removeFolder(work)
    try DurableFile.makeFolder(work)
    defer { DurableFile.removeFolder(work) }
    let file = work + "/server.sqlite"

    let (bytes, digest, isWhole) = try await join(generation.pieces(.snapshot, among: names), to: file)
    guard isWhole, bytes == description.bytes, digest == description.sha256 else {
      throw Mistake("\(generation.name): the copy of the database is damaged: \(bytes) bytes of \(description.bytes), or another digest")
    }
    let log = try await join(generation.pieces(.wal, among: names), to: file + "-wal")
    var read = WriteAheadLog(file + "-wal")
    try read.advance()
    let outcome = try Self.apply(file, as: generation, isCut: !log.isWhole || read.committed < log.0)
    try DurableFile.rename(file, to: folder + "/server.sqlite")
    try DurableFile.syncFolder(folder)
    return outcome
  }

  /// Writes pieces one after the other, up to the first that is missing.
  private func join(_ pieces: [(name: String, offset: Int64)], to path: String) async throws -> (Int64, String, isWhole: Bool) {
    guard FileManager.default.createFile(atPath: path, contents: nil, attributes: [.posixPermissions: 0o640]),
      let file = FileHandle(forWritingAtPath: path)
    else { throw DurableFile.failure("create", path) }
    defer { try? file.close() }
    var (end, digest): (Int64, SHA256) = (0, SHA256())
    for (name, offset) in pieces {
      guard offset == end else { return (end, Hex.text(digest.finalize()), false) }
      let piece = try await place.read(name)
      digest.update(data: piece)
      try file.write(contentsOf: piece)
      end += Int64(piece.count)
    }
    try file.synchronize()
    return (end, Hex.text(digest.finalize()), true)
  }

  /// Lets SQLite write the log into the database, as after a crash, and examines it.
  private static func apply(_ path: String, as generation: Generation, isCut: Bool) throws -> Outcome {
    let queue = try DatabaseQueue(path: path)
    let outcome = try queue.writeWithoutTransaction { database in
      let found = try String.fetchAll(database, sql: "PRAGMA integrity_check(3)")
      guard found == ["ok"] else { throw Mistake("the copy is damaged: \(found.joined(separator: "; "))") }
      // What the log says, too, unless it is missing.
      try database.execute(sql: "PRAGMA user_version = \(generation.number)")
      _ = try database.checkpoint(.truncate)
      let newest = try Int64.fetchOne(database, sql: "SELECT MAX(receivedAt) FROM capture")
      return Outcome(
        captures: try Int.fetchOne(database, sql: "SELECT COUNT(*) FROM capture") ?? 0, newest: newest.map { Time.text($0) },
        isCut: isCut)
    }
    try queue.close()
    for file in [path + "-wal", path + "-shm"] { unlink(file) }
    return outcome
  }
}
