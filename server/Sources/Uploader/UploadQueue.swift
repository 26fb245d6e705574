import Foundation
import GRDB
import SharedDatabase

/// What is to be sent, is being sent and was sent, in a file that outlives the process.
struct UploadQueue: Sendable {
  enum State: String, Codable, Sendable {
    /// Waits for its turn, or for the time of its next attempt.
    case pending
    case uploading
    case uploaded
    /// Waits for a person: the server wanted a key.
    case paused
    /// Will not be tried again by itself.
    case failed
  }

  /// One capture for one server.
  struct Item: Codable, FetchableRecord, PersistableRecord, Sendable, Equatable {
    static let databaseTableName = "upload"

    var id: Int64?
    var server: String
    var path: String
    var kind: String
    var state = State.pending
    /// Of the files, when they were hashed.
    var fingerprint: String?
    /// Length and SHA-256 of the bytes that are sent.
    var bytes: Int64?
    var sha256: String?
    /// Where the server takes the bytes.
    var location: String?
    /// Bytes that the server has acknowledged.
    var sent: Int64 = 0
    /// The most that a server ever acknowledged of these bytes. Only what goes beyond it counts as progress, so that a server that drops
    /// the upload time and again is given up.
    var best: Int64 = 0
    /// Failed attempts since the last progress.
    var attempts = 0
    /// Milliseconds since 1970 before which it is not tried again.
    var notBefore: Int64 = 0
    var reason: String?
    /// The server's id for it.
    var capture: String?
    var isDeleted = false

    var name: String { path.split(separator: "/").last.map(String.init) ?? path }

    /// Whether it is done, or will not be done without a person.
    var isSettled: Bool { state != .pending && state != .uploading }

    /// Lets it begin anew, with whatever bytes the files then have.
    mutating func forget() {
      (fingerprint, sha256, location, capture) = (nil, nil, nil, nil)
      (sent, best) = (0, 0)
    }

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
  }

  /// The condition that is in the index, word for word.
  private static let isUnfinished = "state IN ('pending', 'uploading')"

  private let database: DatabasePool
  private let lockFile: String

  /// Opens or makes a queue. Throws `UploaderProblem`.
  init(_ path: String) throws {
    do {
      try FileManager.default.createDirectory(
        atPath: URL(fileURLWithPath: path).deletingLastPathComponent().path, withIntermediateDirectories: true,
        attributes: [.posixPermissions: 0o700])
      // Only for its owner: it knows where uploads are, and what is on this disk.
      let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
      if file >= 0 { close(file) }
      var migrator = DatabaseMigrator()
      migrator.registerMigration("1") { database in
        try database.create(table: "upload") { table in
          table.autoIncrementedPrimaryKey("id")
          table.column("server", .text).notNull()
          table.column("path", .text).notNull()
          table.column("kind", .text).notNull()
          table.column("state", .text).notNull()
          table.column("fingerprint", .text)
          table.column("bytes", .integer)
          table.column("sha256", .text)
          table.column("location", .text)
          table.column("sent", .integer).notNull()
          table.column("best", .integer).notNull()
          table.column("attempts", .integer).notNull()
          table.column("notBefore", .integer).notNull()
          table.column("reason", .text)
          table.column("capture", .text)
          table.column("isDeleted", .boolean).notNull()
          table.uniqueKey(["server", "path"])
        }
        // The next item and the time until it are found without reading the queue.
        try database.execute(sql: "CREATE INDEX upload_next ON upload (server, notBefore, id) WHERE \(Self.isUnfinished)")
      }
      database = try SharedDatabase.open(path, configuration: Configuration(), migrator: migrator)
    } catch {
      throw UploaderProblem("cannot open the queue \(path): \(Self.words(error))")
    }
    lockFile = path + ".lock"
  }

  /// A failure of the queue's file as `UploaderProblem`; any other error as it is.
  static func inWords(_ error: any Error) -> any Error {
    (error as? DatabaseError).map { UploaderProblem("the queue cannot be used: \($0.message ?? "\($0.resultCode)")") } ?? error
  }

  private static func words(_ error: any Error) -> String {
    if let newer = error as? SharedDatabase.Newer { return newer.description }
    return (error as? DatabaseError)?.message ?? (error as NSError).localizedDescription
  }

  /// `$XDG_STATE_HOME/takeset/uploads.sqlite`, or the same below `~/.local/state`.
  static func usualPath(_ environment: [String: String]) -> String {
    let set = environment["XDG_STATE_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
    return (set ?? NSHomeDirectory() + "/.local/state") + "/takeset/uploads.sqlite"
  }

  /// Adds a capture, or returns the one that is there. One that was paused or failed is tried again: naming it is asking for that.
  ///
  /// - Parameters:
  ///   - bytes: What will be sent, as far as known.
  ///   - again: Whether to send even what was uploaded.
  func add(_ capture: LocalCapture, for server: String, bytes: Int64? = nil, again: Bool = false) async throws -> Item {
    try await database.write { database in
      guard
        var item = try Item.filter(Column("server") == server && Column("path") == capture.path).fetchOne(database)
      else {
        let item = Item(id: nil, server: server, path: capture.path, kind: capture.kind.rawValue, bytes: bytes)
        return try item.inserted(database)
      }
      // What is under way stays as it is.
      guard item.isSettled else { return item }
      let isChanged = item.kind != capture.kind.rawValue
      let isStopped = item.state == .paused || item.state == .failed || item.isDeleted
      guard isChanged || isStopped || (again && item.state == .uploaded) else { return item }
      if isChanged || item.state == .uploaded { item.forget() }
      (item.kind, item.state, item.attempts, item.notBefore) = (capture.kind.rawValue, .pending, 0, 0)
      (item.reason, item.isDeleted) = (nil, false)
      try item.update(database)
      return item
    }
  }

  /// Makes what is paused pending, and with `failed` also that. A new run gives new attempts, but not before their time.
  func resume(_ server: String, failed: Bool) async throws {
    let states = failed ? [State.paused, .failed] : [.paused]
    try await database.write { database in
      try database.execute(sql: "UPDATE upload SET attempts = 0 WHERE server = ? AND \(Self.isUnfinished)", arguments: [server])
      for state in states {
        try database.execute(
          sql: "UPDATE upload SET state = 'pending', attempts = 0, notBefore = 0, reason = NULL WHERE server = ? AND state = ?",
          arguments: [server, state.rawValue])
      }
    }
  }

  func save(_ item: Item) async throws { try await database.write { try item.update($0) } }

  /// Hands over all items of a server, or of all servers, one after the other in the order in which they were added.
  func forEach(_ server: String?, _ body: @escaping @Sendable (Item) throws -> Void) async throws {
    try await database.read { database in
      let all = Item.order(Column("id"))
      let items = try (server.map { all.filter(Column("server") == $0) } ?? all).fetchCursor(database)
      while let item = try items.next() { try body(item) }
    }
  }

  /// When the next of what is still to be done for a server may be tried, in milliseconds since 1970; `nil` where nothing is left.
  func nextTime(_ server: String) async throws -> Int64? {
    try await database.read { database in
      try Int64.fetchOne(
        database, sql: "SELECT MIN(notBefore) FROM upload WHERE server = ? AND \(Self.isUnfinished)", arguments: [server])
    }
  }

  /// Bytes that are still to be sent, as far as known.
  func remainingBytes(_ server: String) async throws -> Int64 {
    try await database.read { database in
      try Int64.fetchOne(
        database,
        sql: "SELECT SUM(MAX(COALESCE(bytes, 0) - sent, 0)) FROM upload WHERE server = ? AND \(Self.isUnfinished)",
        arguments: [server]) ?? 0
    }
  }

  func lock(_ id: Int64) throws -> ItemLock? { try ItemLock(id, file: lockFile) }

  /// The next item whose time has come and that nobody else sends, marked as being sent. `nil` where there is none.
  func claim(_ server: String, now: Int64) async throws -> (item: Item, lock: ItemLock)? {
    var (time, last): (Int64, Int64) = (-1, 0)
    while true {
      let next = try await database.read { [time, last] database in
        try Row.fetchOne(
          database,
          sql: """
            SELECT notBefore, id FROM upload
            WHERE server = ? AND \(Self.isUnfinished) AND notBefore <= ? AND (notBefore, id) > (?, ?) ORDER BY notBefore, id LIMIT 1
            """, arguments: [server, now, time, last]
        ).map { row -> (Int64, Int64) in (row[0], row[1]) }
      }
      guard let next else { return nil }
      (time, last) = next
      guard let lock = try lock(last) else { continue }
      // Another uploader may have finished it before the lock was ours.
      let item = try await database.write { [last] database -> Item? in
        guard var item = try Item.fetchOne(database, key: last), !item.isSettled, item.notBefore <= now else { return nil }
        item.state = .uploading
        try item.update(database)
        return item
      }
      if let item { return (item, lock) }
    }
  }
}
