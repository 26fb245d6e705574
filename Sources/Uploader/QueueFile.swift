import CSQLite
import Foundation

/// The SQLite file of a queue, which several processes open, even at the same moment. Used by one thread at a time.
final class QueueFile {
  enum Value {
    case null
    case integer(Int64)
    case text(String)

    init(_ text: String?) { self = text.map(Value.text) ?? .null }
    init(_ number: Int64?) { self = number.map(Value.integer) ?? .null }
  }

  /// A failure in SQLite's words.
  struct Failure: Error {
    var description: String
  }

  /// A row of a result, until the next one.
  struct Row {
    fileprivate let statement: OpaquePointer?

    func integer(_ column: Int32) -> Int64? {
      sqlite3_column_type(statement, column) == SQLITE_NULL ? nil : sqlite3_column_int64(statement, column)
    }

    func text(_ column: Int32) -> String? { sqlite3_column_text(statement, column).map { String(cString: $0) } }
  }

  private var connection: OpaquePointer?
  /// Prepared once: the same few are run for every block that is sent.
  private var statements: [String: OpaquePointer] = [:]

  /// Opens or makes the file, and brings it to a version by running `tables` where it has none. Throws `Failure`.
  ///
  /// SQLite waits for another's transaction, but not for another that changes a new file to write-ahead logging as well: it fails at once,
  /// whatever its timeout. So one process at a time opens.
  init(_ path: String, version: Int64, tables: [String]) throws {
    let folder = open(URL(fileURLWithPath: path).deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    defer { if folder >= 0 { close(folder) } }
    // A file system without such locks opens as before: rarely, one of two first openers fails.
    while folder >= 0, flock(folder, LOCK_EX) != 0, errno == EINTR {}
    // Only for its owner: it knows where uploads are, and what is on this disk.
    let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    if file >= 0 { close(file) }
    try check(sqlite3_open_v2(path, &connection, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nil))
    sqlite3_busy_timeout(connection, 30_000)
    try run("PRAGMA journal_mode = WAL")
    try run("PRAGMA synchronous = NORMAL")
    try transaction {
      var found: Int64 = 0
      try run("PRAGMA user_version") { found = $0.integer(0) ?? 0 }
      guard found <= version else { throw Failure(description: "a newer version of this program has changed it") }
      guard found < version else { return }
      for table in tables { try run(table) }
      try run("PRAGMA user_version = \(version)")
    }
  }

  deinit {
    for statement in statements.values { sqlite3_finalize(statement) }
    sqlite3_close_v2(connection)
  }

  /// Runs one statement, and hands over each row of its result. Throws `Failure`, or what `body` throws.
  func run(_ sql: String, _ values: [Value] = [], _ body: (Row) throws -> Void = { _ in }) throws {
    let statement = try prepared(sql)
    defer {
      sqlite3_reset(statement)
      sqlite3_clear_bindings(statement)
    }
    for (index, value) in values.enumerated() {
      let position = Int32(index + 1)
      switch value {
      case .null: try check(sqlite3_bind_null(statement, position))
      case .integer(let number): try check(sqlite3_bind_int64(statement, position, number))
      // SQLite copies it.
      case .text(let text): try check(sqlite3_bind_text(statement, position, text, -1, unsafeBitCast(-1, to: sqlite3_destructor_type.self)))
      }
    }
    while true {
      let code = sqlite3_step(statement)
      if code == SQLITE_DONE { return }
      guard code == SQLITE_ROW else { throw failure() }
      try body(Row(statement: statement))
    }
  }

  /// Does all of it or, where it throws, nothing.
  func transaction<Result>(_ body: () throws -> Result) throws -> Result {
    try run("BEGIN IMMEDIATE")
    do {
      let result = try body()
      try run("COMMIT")
      return result
    } catch {
      // SQLite may have done so itself, as when the disk is full.
      if sqlite3_get_autocommit(connection) == 0 { try? run("ROLLBACK") }
      throw error
    }
  }

  /// The number of the row that was inserted last.
  var lastInserted: Int64 { sqlite3_last_insert_rowid(connection) }

  private func prepared(_ sql: String) throws -> OpaquePointer? {
    if let known = statements[sql] { return known }
    var statement: OpaquePointer?
    try check(sqlite3_prepare_v2(connection, sql, -1, &statement, nil))
    statements[sql] = statement
    return statement
  }

  private func check(_ code: Int32) throws { if code != SQLITE_OK { throw failure() } }

  private func failure() -> Failure { Failure(description: String(cString: sqlite3_errmsg(connection))) }
}
