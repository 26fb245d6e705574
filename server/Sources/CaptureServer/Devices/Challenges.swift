import Crypto
import Foundation
import GRDB

/// Random bytes that a phone's attestation must cover. Each counts once, within five minutes.
struct Challenges: Sendable {
  let database: ServerDatabase
  static let length = 32
  static let lifetime: Int64 = 5 * 60 * 1000
  /// Milliseconds for which a spent challenge is remembered, so that the log can tell why it was refused.
  private static let memory: Int64 = 60 * 60 * 1000

  /// Makes one, and forgets old ones.
  func issue(at now: Int64 = Time.now()) async throws -> (value: Data, expiresAt: Int64) {
    let value = SymmetricKey(size: .init(bitCount: Self.length * 8)).withUnsafeBytes { Data($0) }
    let expiresAt = now + Self.lifetime
    try await database.pool.write { database in
      try database.execute(sql: "DELETE FROM challenge WHERE expiresAt < ?", arguments: [now - Self.memory])
      try database.execute(sql: "INSERT INTO challenge (value, expiresAt, isUsed) VALUES (?, ?, FALSE)", arguments: [value, expiresAt])
    }
    return (value, expiresAt)
  }

  /// Returns the reason why a challenge does not count; `nil` for a good one.
  static func problem(with value: Data, at now: Int64, in database: Database) throws -> String? {
    guard let row = try Row.fetchOne(database, sql: "SELECT expiresAt, isUsed FROM challenge WHERE value = ?", arguments: [value]) else {
      return "the challenge is unknown"
    }
    if row["isUsed"] as Bool { return "the challenge was used" }
    return (row["expiresAt"] as Int64) < now ? "the challenge has expired" : nil
  }

  /// Uses up a challenge, in the transaction that decides about the device. Why it does not count, or `nil`.
  static func use(_ value: Data, at now: Int64, in database: Database) throws -> String? {
    if let problem = try problem(with: value, at: now, in: database) { return problem }
    try database.execute(sql: "UPDATE challenge SET isUsed = TRUE WHERE value = ?", arguments: [value])
    return nil
  }
}
