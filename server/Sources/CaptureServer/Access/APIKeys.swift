import Crypto
import Foundation
import GRDB

/// Keys for scripts and readers. Only their digests are kept.
package struct APIKeys: Sendable {
  private let database: Database

  package init(_ database: Database) { self.database = database }

  /// Makes a key, which is shown this once.
  ///
  /// - Parameter days: After so many it is useless; `nil` for never.
  package func add(
    name: String, project: String, power: APIKey.Power = .all, days: Int? = nil
  ) async throws -> (key: String, record: APIKey) {
    let secret = SymmetricKey(size: .bits256).withUnsafeBytes { Data($0) }.base64EncodedString()
      .replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
    let key = "tks_" + secret
    let record = APIKey(
      id: String(UUID().uuidString.lowercased().prefix(8)), name: name, project: project, digest: Self.digest(key), createdAt: Time.now(),
      power: power, expiresAt: days.map { Time.now() + Int64($0) * 86_400_000 })
    try await database.pool.write { try record.insert($0) }
    return (key, record)
  }

  package func all() async throws -> [APIKey] { try await database.pool.read { try APIKey.order(Column("createdAt")).fetchAll($0) } }

  /// Whether there was such a key in use.
  package func revoke(_ id: String) async throws -> Bool {
    try await database.pool.write { database in
      try database.execute(sql: "UPDATE apiKey SET revokedAt = ? WHERE id = ? AND revokedAt IS NULL", arguments: [Time.now(), id])
      return database.changesCount > 0
    }
  }

  func find(_ key: String) async throws -> APIKey? {
    let digest = Self.digest(key)
    return try await database.pool.read {
      try APIKey.filter(Column("digest") == digest && Column("revokedAt") == nil).fetchOne($0)
    }.flatMap { $0.isExpired ? nil : $0 }
  }

  private static func digest(_ key: String) -> Data { Data(SHA256.hash(data: Data(key.utf8))) }
}
