import Foundation
import GRDB
import Logging

/// Captures whose files may be in the store although they are not needed, in the table `leftover`: those that are being published, from
/// before their first file until their row is committed, and those that were deleted, from then until their last file is gone.
///
/// Files are removed only if their capture stands there. A database that is lost or restored therefore costs no capture.
struct Leftovers: Sendable {
  let database: ServerDatabase
  let store: any CaptureStore
  let logger: Logger

  static func createTable(_ database: Database) throws {
    try database.create(table: "leftover") { table in
      table.primaryKey("capture", .text)
      /// Whether a running server may remove the files; otherwise only the next one.
      table.column("isDue", .boolean).notNull()
    }
  }

  static func add(_ capture: String, isDue: Bool, _ database: Database) throws {
    try database.execute(sql: "INSERT OR REPLACE INTO leftover VALUES (?, ?)", arguments: [capture, isDue])
  }

  static func forget(_ capture: String, _ database: Database) throws {
    try database.execute(sql: "DELETE FROM leftover WHERE capture = ?", arguments: [capture])
  }

  /// Removes the files of a capture, if it is a leftover. What cannot be removed stays one.
  func remove(_ capture: String) async {
    do {
      guard try await database.pool.read({ try Self.all(where: "capture = ?", [capture], $0) }).contains(capture) else { return }
      try await store.remove(capture)
      try await database.pool.write { try Self.forget(capture, $0) }
    } catch {
      logger.warning("the files of capture \(capture) are not removed yet: \((error as? Failure)?.reason ?? "\(error)")")
    }
  }

  /// Removes what a killed server left. Nothing may be published meanwhile.
  func removeAll() async throws {
    for capture in try await database.pool.read({ try Self.all(where: "1", [], $0) }) { await remove(capture) }
  }

  /// Removes what was deleted.
  func removeDue() async throws {
    for capture in try await database.pool.read({ try Self.all(where: "isDue", [], $0) }) { await remove(capture) }
  }

  private static func all(where condition: String, _ arguments: StatementArguments, _ database: Database) throws -> [String] {
    try String.fetchAll(database, sql: "SELECT capture FROM leftover WHERE \(condition)", arguments: arguments)
  }
}
