import Foundation
import GRDB

/// Conversions by other machines. Each has a capture for as long as its worker is heard of. If a worker falls silent, another one converts
/// the capture, and the silent one's results are refused.
struct ConversionLeases: Sendable {
  let database: ServerDatabase
  /// Milliseconds for which a worker may be silent.
  let duration: Int64
  /// The number of workers that may fall silent over a capture, as it may be what ends them.
  private static let limit = 10
  /// Milliseconds for which a capture waits while a stranger's is converted.
  private static let patience: Int64 = 10_000

  static func addColumns(_ database: Database) throws {
    try database.alter(table: "conversion") { table in
      /// The lease of a conversion by another machine: a secret that the machine knows, its name, and the time until which it need not be
      /// heard.
      table.add(column: "lease", .text)
      table.add(column: "worker", .text)
      table.add(column: "expiresAt", .integer)
      /// The number of workers that fell silent in a row.
      table.add(column: "lapses", .integer).notNull().defaults(to: 0)
    }
    try database.create(
      index: "conversionByLease", on: "conversion", columns: ["lease"], options: .unique, condition: Column("lease") != nil)
  }

  private static let ended = Failure(.gone, "LEASE_ENDED", "The capture is no longer yours to convert")

  /// Notes that a claimed capture is with a worker. Its lease.
  func give(_ capture: Capture, to worker: String, _ database: Database) throws -> String {
    let lease = UUID().uuidString.lowercased()
    try database.execute(
      sql: "UPDATE conversion SET lease = ?, worker = ?, expiresAt = ? WHERE capture = ?",
      arguments: [lease, worker, Time.now() + duration, capture.id])
    return lease
  }

  /// The capture of a lease. Throws `Failure` 410 for one that has ended.
  func capture(_ lease: String) async throws -> Capture {
    try await database.pool.read { try Self.capture(lease, $0) }
  }

  private static func capture(_ lease: String, _ database: Database) throws -> Capture {
    let sql = """
      SELECT capture.* FROM capture JOIN conversion ON conversion.capture = capture.id WHERE lease = ? AND state = 'running' AND expiresAt > ?
      """
    guard let capture = try Capture.fetchOne(database, sql: sql, arguments: [lease, Time.now()]) else { throw ended }
    return capture
  }

  /// Notes that the worker was heard of. Throws `Failure` 410 where it can stop: the lease has ended, or it converts a stranger's capture
  /// while somebody else's has been waiting.
  func extend(_ lease: String) async throws {
    let isWanted = try await database.pool.write { database in
      let capture = try Self.capture(lease, database)
      let waits = """
        SELECT EXISTS (
          SELECT 1 FROM conversion JOIN capture ON capture.id = conversion.capture
          WHERE state = 'waiting' AND max(notBefore, receivedAt) <= ? AND NOT isStranger)
        """
      if capture.isStranger, try Bool.fetchOne(database, sql: waits, arguments: [Time.now() - Self.patience]) == true {
        try Self.end(lease, notBefore: 0, database)
        return false
      }
      try database.execute(sql: "UPDATE conversion SET expiresAt = ? WHERE lease = ?", arguments: [Time.now() + duration, lease])
      return true
    }
    if !isWanted { throw Self.ended }
  }

  /// The worker gives the capture back unconverted; that was no attempt. Throws `Failure` 410.
  func giveBack(_ lease: String) async throws {
    try await database.pool.write { database in
      _ = try Self.capture(lease, database)
      try Self.end(lease, notBefore: 0, database)
    }
  }

  /// Ends the lease of a worker that is done: its results are the server's from now on. Throws `Failure` 410.
  func take(_ lease: String) async throws -> Capture {
    try await database.pool.write { database in
      let capture = try Self.capture(lease, database)
      try database.execute(
        sql: "UPDATE conversion SET lease = NULL, worker = NULL, expiresAt = NULL, lapses = 0 WHERE lease = ?", arguments: [lease])
      return capture
    }
  }

  private static func end(_ lease: String, notBefore: Int64, _ database: Database) throws {
    try database.execute(
      sql: "UPDATE conversion SET state = 'waiting', lease = NULL, worker = NULL, expiresAt = NULL, notBefore = ? WHERE lease = ?",
      arguments: [notBefore, lease])
  }

  /// A worker that fell silent.
  struct Lapse: Sendable {
    var lease: String
    var capture: String
    var worker: String
    /// Whether its capture is given to no other.
    var isLast: Bool
  }

  /// Ends the leases of workers that fell silent. A capture that has outlasted many of them is `failed`.
  func expire() async throws -> [Lapse] {
    let due = "SELECT EXISTS (SELECT 1 FROM conversion WHERE state = 'running' AND expiresAt <= ?)"
    guard try await database.pool.read({ try Bool.fetchOne($0, sql: due, arguments: [Time.now()]) }) == true else { return [] }
    return try await database.pool.write { database in
      let now = Time.now()
      let rows = try Row.fetchAll(
        database, sql: "SELECT capture, lease, worker, lapses FROM conversion WHERE state = 'running' AND expiresAt <= ?", arguments: [now])
      return try rows.map { row in
        let lapses: Int = row["lapses"] + 1
        let lapse = Lapse(lease: row["lease"], capture: row["capture"], worker: row["worker"], isLast: lapses >= Self.limit)
        try Self.end(lapse.lease, notBefore: now, database)
        try database.execute(
          sql: "UPDATE conversion SET lapses = ?, lastError = ? WHERE capture = ?",
          arguments: [lapse.isLast ? 0 : lapses, "the worker \(lapse.worker) fell silent", lapse.capture])
        if lapse.isLast {
          try database.execute(sql: "UPDATE conversion SET state = 'done' WHERE capture = ?", arguments: [lapse.capture])
          try database.execute(
            sql: "UPDATE capture SET status = 'failed', reason = ? WHERE id = ?",
            arguments: ["\(Self.limit) workers in a row fell silent while they converted it.", lapse.capture])
        }
        return lapse
      }
    }
  }

  /// Workers could not be heard while there was no server: their time begins again.
  func recover(_ database: Database) throws {
    try database.execute(sql: "UPDATE conversion SET expiresAt = ? WHERE lease IS NOT NULL", arguments: [Time.now() + duration])
  }
}
