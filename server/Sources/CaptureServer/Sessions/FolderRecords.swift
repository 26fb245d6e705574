import Foundation
import GRDB

/// A session's folder that arrives file by file. Its files are in `uploads/<id>`.
struct FolderRecord: Codable, Sendable, FetchableRecord, PersistableRecord {
  static let databaseTableName = "folder"
  var id: String
  var project: String
  var name: String
  /// Number of files that have arrived.
  var files: Int64
  var bytes: Int64
  var expiresAt: Int64
  /// The capture that it became.
  var capture: String?

  static func create(_ database: Database) throws {
    try database.create(table: "folder") { table in
      table.primaryKey("id", .text)
      table.column("project", .text).notNull()
      table.column("name", .text).notNull()
      table.column("files", .integer).notNull()
      table.column("bytes", .integer).notNull()
      table.column("expiresAt", .integer).notNull()
      table.column("capture", .text)
      table.uniqueKey(["project", "name"])
    }
    try database.create(table: "folderFile") { table in
      table.column("folder", .text).notNull().references("folder", onDelete: .cascade)
      table.column("name", .text).notNull()
      table.column("bytes", .integer).notNull()
      table.column("sha256", .text).notNull()
      table.column("stored", .text).notNull()
      table.primaryKey(["folder", "name"])
    }
  }

  static func find(_ name: String, project: String, in database: Database) throws -> FolderRecord? {
    try filter(Column("project") == project && Column("name") == name).fetchOne(database)
  }
}

/// A file of such a folder.
struct FolderFile: Codable, Sendable, FetchableRecord, PersistableRecord {
  static let databaseTableName = "folderFile"
  var folder: String
  /// Path in the session, checked.
  var name: String
  var bytes: Int64
  /// 64 hexadecimal digits.
  var sha256: String
  /// Name in the folder's own directory, which is ours.
  var stored: String
}
