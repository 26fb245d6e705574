import GRDB

/// Captures that are queued once more: after a failure on the server's side, an upgrade of the converter or a changed pipeline. What an
/// earlier conversion wrote stays in the dataset until the new one has an outcome.
package struct Reconversion: Sendable {
  private let database: ServerDatabase

  package init(_ database: ServerDatabase) { self.database = database }

  /// The captures that are converted again.
  package enum Selection: Sendable {
    case failed
    /// All that were converted before, whatever became of them.
    case all
    case captures([String])
  }

  /// Queues those that are not waiting or running already and whose files are kept. Their number.
  package func queue(_ selection: Selection) async throws -> Int {
    try await database.pool.write { database in
      let captures =
        switch selection {
        case .failed: try String.fetchAll(database, sql: "SELECT id FROM capture WHERE status = 'failed'")
        case .all:
          try String.fetchAll(
            database, sql: "SELECT id FROM capture JOIN conversion ON conversion.capture = capture.id WHERE state = 'done'")
        case .captures(let captures): captures.map { $0.lowercased() }
        }
      return try captures.filter { try Self.queue($0, database) == .queued }.count
    }
  }

  enum Answer {
    case queued, busy, withoutFiles, unknown
  }

  static func queue(_ id: String, _ database: Database) throws -> Answer {
    guard let capture = try Capture.fetchOne(database, key: id) else { return .unknown }
    guard capture.status != .processing else { return .busy }
    guard try Self.hasFiles(id, database) else { return .withoutFiles }
    try begin(id, database)
    return .queued
  }

  /// Has a conversion made again that is damaged or gone, so that the dataset cannot hold it until then.
  static func replace(_ id: String, _ database: Database) throws {
    try database.execute(sql: "DELETE FROM take WHERE capture = ?", arguments: [id])
    try begin(id, database)
  }

  static func hasFiles(_ id: String, _ database: Database) throws -> Bool {
    try Bool.fetchOne(database, sql: "SELECT EXISTS (SELECT 1 FROM file WHERE capture = ?)", arguments: [id]) ?? false
  }

  private static func begin(_ id: String, _ database: Database) throws {
    // A capture that was kept in quarantine as it arrived was never queued.
    try database.execute(
      sql: """
        INSERT INTO conversion (capture, state, attempts, notBefore) VALUES (?, 'waiting', 0, 0)
        ON CONFLICT (capture) DO UPDATE SET state = 'waiting', attempts = 0, notBefore = 0, lastError = NULL WHERE state <> 'running'
        """, arguments: [id])
    try database.execute(sql: "UPDATE capture SET status = 'processing', reason = NULL WHERE id = ?", arguments: [id])
  }
}
