import Evidence
import Foundation
import GRDB

/// The server's memory, in SQLite. A commit is on the disk when it returns.
package struct ServerDatabase: Sendable {
  let pool: DatabasePool

  /// Whether a data folder has a database.
  package static func exists(in folder: String) -> Bool { FileManager.default.fileExists(atPath: folder + "/server.sqlite") }

  /// The database in a data folder, which is made if need be.
  package init(data folder: String) throws {
    // A server that runs may copy the log, and writes it back by itself.
    try self.init(path: try DataFolder(folder, isServing: false).database, writesLogBack: false)
  }

  /// - Parameter writesLogBack: Whether SQLite writes its log into the database when that is large; otherwise `DatabaseShipping` does.
  init(path: String, writesLogBack: Bool = true) throws {
    var configuration = GRDB.Configuration()
    configuration.prepareDatabase { database in
      // WAL alone would lose the last commits when power fails.
      try database.execute(sql: "PRAGMA synchronous = FULL")
      if !writesLogBack { try database.execute(sql: "PRAGMA wal_autocheckpoint = 0") }
    }
    configuration.busyMode = .timeout(30)
    Self.protect(path)
    // SQLite waits for another's transaction, but not for another that changes a new file to write-ahead logging as well: it fails at once,
    // whatever the busy mode says. And two migrators that both found no table both make it. So one process at a time opens.
    let folder = Glibc.open(URL(fileURLWithPath: path).deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    defer { if folder >= 0 { close(folder) } }
    // A file system without such locks opens as before: rarely, one of two first openers fails.
    while folder >= 0, flock(folder, LOCK_EX) != 0, errno == EINTR {}
    pool = try DatabasePool(path: path, configuration: configuration)
    guard try !pool.read(Self.migrations.hasBeenSuperseded) else {
      throw Mistake("\(path): a newer version of this program has changed the database")
    }
    try Self.migrations.migrate(pool)
  }

  /// The part of a database that a check of the set-up reads.
  struct Glimpse: Sendable {
    /// Whether a newer program has changed it.
    var isNewer: Bool
    /// Keys that are neither revoked nor expired.
    var keys: Int
    var copies: DatabaseShipping.CopyNumbers
  }

  /// Looks into the database of a data folder, and changes no file there: it reads a copy of one that no server has open. `nil` where there
  /// is none.
  static func glimpse(in folder: String) throws -> Glimpse? {
    guard exists(in: folder) else { return nil }
    var path = folder + "/server.sqlite"
    let copies = NSTemporaryDirectory() + "/takeset-check-" + UUID().uuidString
    defer { DurableFile.removeFolder(copies) }
    let isOpen = DataFolder.isInUse(folder)
    if !isOpen {
      // To read it, SQLite would write the files that are beside it.
      try FileManager.default.createDirectory(
        atPath: copies, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
      for ending in ["", "-wal"] where access(path + ending, F_OK) == 0 {
        try FileManager.default.copyItem(atPath: path + ending, toPath: copies + "/server.sqlite" + ending)
      }
      path = copies + "/server.sqlite"
    }
    var configuration = GRDB.Configuration()
    configuration.readonly = isOpen
    return try DatabaseQueue(path: path, configuration: configuration).read { database in
      let keys = try database.tableExists(APIKey.databaseTableName) ? Row.fetchAll(database, sql: "SELECT * FROM apiKey") : []
      return Glimpse(
        isNewer: try migrations.hasBeenSuperseded(database),
        keys: keys.count(where: { row in
          (row["revokedAt"] as Int64?) == nil && (row["expiresAt"] as Int64?).map { $0 > Time.now() } ?? true
        }), copies: try .init(database))
    }
  }

  /// Lets only the owner write, and others not read: the files that SQLite makes beside the database get its mode.
  private static func protect(_ path: String) {
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o640)
    if descriptor >= 0 { close(descriptor) }
    for file in [path, path + "-wal", path + "-shm"] where access(file, F_OK) == 0 { chmod(file, 0o640) }
  }

  private static var migrations: DatabaseMigrator {
    var migrator = DatabaseMigrator()
    migrator.registerMigration("1") { database in
      try database.create(table: "device") { table in
        table.primaryKey("id", .text)
        table.column("keyID", .text).unique()
        table.column("platform", .text).notNull()
        table.column("model", .text).notNull()
        table.column("hasLidar", .boolean).notNull()
        table.column("level", .text).notNull()
        table.column("publicKey", .blob)
        table.column("project", .text).notNull()
        table.column("registeredAt", .integer).notNull()
      }
      try database.create(index: "deviceByTime", on: "device", columns: ["registeredAt", "id"])
      try database.create(index: "deviceByProject", on: "device", columns: ["project", "registeredAt", "id"])
      try database.create(index: "deviceWithoutKey", on: "device", columns: ["registeredAt"], condition: Column("publicKey") == nil)
      try database.create(table: "challenge") { table in
        table.primaryKey("value", .blob)
        table.column("expiresAt", .integer).notNull()
        table.column("isUsed", .boolean).notNull()
      }
      try database.create(table: "apiKey") { table in
        table.primaryKey("id", .text)
        table.column("name", .text).notNull()
        table.column("project", .text).notNull()
        table.column("digest", .blob).notNull().unique()
        table.column("createdAt", .integer).notNull()
        table.column("revokedAt", .integer)
      }
      try database.create(table: "capture") { table in
        table.primaryKey("id", .text)
        table.column("type", .text).notNull()
        table.column("status", .text).notNull()
        table.column("reason", .text)
        table.column("project", .text).notNull()
        table.column("device", .text)
        table.column("name", .text).notNull()
        table.column("receivedAt", .integer).notNull()
        table.column("bytes", .integer).notNull()
        table.column("contentDigest", .text).unique()
        table.column("requestDigest", .text)
        table.column("idempotencyKey", .text)
        table.column("answer", .text)
        table.column("signature", .text).notNull()
        table.column("isVerified", .boolean).notNull()
        table.column("evidence", .text)
        table.column("rows", .integer)
      }
      // Lists are read from an index alone: evidence and answers make the table's own rows long.
      let listed = ["receivedAt", "id", "type", "status", "device", "name", "bytes", "reason", "signature", "isVerified", "rows"]
      try database.create(index: "captureByTime", on: "capture", columns: listed + ["project"])
      try database.create(index: "captureByProject", on: "capture", columns: ["project"] + listed)
      try database.create(index: "captureByDevice", on: "capture", columns: ["device", "receivedAt", "id", "type", "bytes"])
      try database.create(index: "captureByStatus", on: "capture", columns: ["status", "receivedAt", "id"])
      try database.create(index: "captureByType", on: "capture", columns: ["type", "receivedAt", "id"])
      try database.create(
        index: "captureByIdempotencyKey", on: "capture", columns: ["device", "idempotencyKey"], options: .unique,
        condition: Column("idempotencyKey") != nil)
      try database.create(table: "file") { table in
        table.column("capture", .text).notNull().references("capture", onDelete: .cascade)
        table.column("name", .text).notNull()
        table.column("bytes", .integer).notNull()
        table.column("sha256", .text).notNull()
        table.primaryKey(["capture", "name"])
      }
      try database.create(table: "seenAssertion") { table in
        table.column("device", .text).notNull()
        table.column("counter", .integer).notNull()
        table.column("requestDigest", .text).notNull()
        table.column("capture", .text).notNull()
        table.primaryKey(["device", "counter"])
      }
      try database.create(table: "upload") { table in
        table.primaryKey("id", .text)
        table.column("length", .integer)
        table.column("offset", .integer).notNull()
        table.column("metadata", .text).notNull()
        table.column("project", .text).notNull()
        table.column("createdAt", .integer).notNull()
        table.column("expiresAt", .integer).notNull()
        table.column("capture", .text)
      }
      try database.create(table: "conversion") { table in
        table.primaryKey("capture", .text).references("capture", onDelete: .cascade)
        table.column("state", .text).notNull()
        table.column("attempts", .integer).notNull()
        table.column("notBefore", .integer).notNull()
        table.column("lastError", .text)
      }
      try database.create(index: "conversionByState", on: "conversion", columns: ["state", "notBefore"])
    }
    migrator.registerMigration("folders", migrate: FolderRecord.create)
    addConversions(to: &migrator)
    migrator.registerMigration("leftovers", migrate: Leftovers.createTable)
    migrator.registerMigration("strangers") { database in
      try database.alter(table: "capture") { $0.add(column: "isStranger", .boolean).notNull().defaults(to: false) }
      // Quotas are summed up from an index alone.
      try database.create(index: "captureByQuota", on: "capture", columns: ["project", "isStranger", "bytes"])
    }
    migrator.registerMigration("powers") { database in
      try database.alter(table: "apiKey") { table in
        table.add(column: "power", .text).notNull().defaults(to: APIKey.Power.all.rawValue)
        table.add(column: "expiresAt", .integer)
      }
    }
    migrator.registerMigration("listing", migrate: Capture.addListing)
    migrator.registerMigration("makers") { try $0.alter(table: "apiKey") { $0.add(column: "maker", .text) } }
    migrator.registerMigration("links") { database in
      try database.alter(table: "capture") { $0.add(column: "link", .text) }
      try database.create(index: "captureByLink", on: "capture", columns: ["link"], options: .unique, condition: Column("link") != nil)
    }
    migrator.registerMigration("leases", migrate: ConversionLeases.addColumns)
    migrator.registerMigration("labels") { database in
      try database.alter(table: "capture") { $0.add(column: "labels", .text) }
      try database.create(
        index: "captureByLabels", on: "capture", columns: ["project", "receivedAt"], condition: Column("labels") != nil)
      // Counts their changes, so that a dataset is known to lack the last one.
      for table in ["capture", "merged"] {
        try database.alter(table: table) { $0.add(column: "labelsRevision", .integer).notNull().defaults(to: 0) }
      }
    }
    return migrator
  }
}

extension Capture {
  /// Lists show how long a capture is and how much of it is verified.
  fileprivate static func addListing(_ database: Database) throws {
    try database.alter(table: "capture") { table in
      table.add(column: "seconds", .double)
      table.add(column: "badge", .text)
    }
    try database.alter(table: "conversion") { $0.add(column: "startedAt", .integer) }
    let known = try Row.fetchCursor(database, sql: "SELECT id, evidence FROM capture WHERE evidence IS NOT NULL")
    var badges: [(String, VerificationBadge.State)] = []
    while let row = try known.next() {
      let (id, evidence): (String, String) = (row["id"], row["evidence"])
      if let badge = CaptureEvidence(evidence)?.badge { badges.append((id, badge.state)) }
    }
    for (id, state) in badges { try database.execute(sql: "UPDATE capture SET badge = ? WHERE id = ?", arguments: [state.rawValue, id]) }
    for name in ["captureByTime", "captureByProject"] { try database.execute(sql: "DROP INDEX \(name)") }
    let listed = [
      "receivedAt", "id", "type", "status", "device", "name", "bytes", "reason", "signature", "isVerified", "rows", "seconds", "badge",
    ]
    try database.create(index: "captureByTime", on: "capture", columns: listed + ["project"])
    try database.create(index: "captureByProject", on: "capture", columns: ["project"] + listed)
  }
}
