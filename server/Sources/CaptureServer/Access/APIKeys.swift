import Crypto
import Foundation
import GRDB

/// Keys for scripts and readers. Only their digests are kept.
package struct APIKeys: Sendable {
  private let database: ServerDatabase

  package init(_ database: ServerDatabase) { self.database = database }

  /// Makes a key, which is shown this once.
  ///
  /// - Parameters:
  ///   - days: After so many it is useless; `nil` for never.
  ///   - maker: The key by which it is made: it ends no later, also where that one is revoked.
  /// - Throws: `Mistake`.
  package func add(
    name: String, project: String, power: APIKey.Power = .all, days: Int? = nil, by maker: APIKey? = nil
  ) async throws -> (key: String, record: APIKey) {
    guard project.wholeMatch(of: /[A-Za-z0-9][A-Za-z0-9_-]{0,62}/) != nil else {
      throw Mistake("project \(project): expected letters, digits, - and _")
    }
    guard (1...100).contains(name.count), name.unicodeScalars.allSatisfy({ $0.properties.generalCategory != .control }) else {
      throw Mistake("name: expected 1 to 100 characters on one line")
    }
    guard days.map((1...36_500).contains) ?? true else { throw Mistake("days: expected 1 to 36500") }
    let secret = SymmetricKey(size: .bits256).withUnsafeBytes { Data($0) }.base64EncodedString()
      .replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
    let key = "tks_" + secret
    let record = APIKey(
      id: String(UUID().uuidString.lowercased().prefix(8)), name: name, project: project, digest: Self.digest(key), createdAt: Time.now(),
      power: power, expiresAt: [days.map { Time.now() + Int64($0) * 86_400_000 }, maker?.expiresAt].compactMap(\.self).min(),
      maker: maker?.id)
    try await database.pool.write { database in
      // A request may take as long as it likes, and its key may have ended meanwhile.
      if let maker, try APIKey.fetchOne(database, key: maker.id).map({ $0.revokedAt != nil || $0.isExpired }) ?? true {
        throw Mistake("the key by which it is made is no longer in use")
      }
      try record.insert(database)
    }
    return (key, record)
  }

  /// Returns all keys, oldest first, those that are revoked or expired too.
  package func all() async throws -> [APIKey] { try await database.pool.read { try APIKey.order(Column("createdAt")).fetchAll($0) } }

  /// Revokes a key, and the keys that were made with it, as a thief may have made some for later. Returns whether the key was in use.
  ///
  /// - Parameter project: The only project whose keys may be revoked; `nil` for all.
  package func revoke(_ id: String, of project: String? = nil) async throws -> Bool {
    try await database.pool.write { database in
      guard let key = try APIKey.fetchOne(database, key: id), key.revokedAt == nil, project == nil || key.scope == project else {
        return false
      }
      try database.execute(
        sql: """
          WITH RECURSIVE made(id) AS (VALUES (?) UNION SELECT apiKey.id FROM apiKey JOIN made ON apiKey.maker = made.id)
          UPDATE apiKey SET revokedAt = ? WHERE revokedAt IS NULL AND id IN made
          """, arguments: [id, Time.now()])
      return true
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
