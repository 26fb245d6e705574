import Foundation

/// The queue of captures that wait, are being sent or were sent, in a file that outlives the process.
///
/// `@unchecked Sendable`: the file is used on the dispatch queue only. All calls throw `UploaderProblem` where it fails.
final class UploadQueue: @unchecked Sendable {
  enum State: String, Sendable {
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
  struct Item: Sendable {
    var id: Int64?
    var server: String
    var path: String
    var kind: String
    var state = State.pending
    /// Fingerprint of the files, when they were hashed.
    var fingerprint: String?
    /// Length and SHA-256 of the bytes that are sent.
    var bytes: Int64?
    var sha256: String?
    /// Address at which the server takes the bytes.
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
  }

  /// The condition that is in the index, word for word.
  private static let isUnfinished = "state IN ('pending', 'uploading')"

  private static let tables = [
    """
    CREATE TABLE IF NOT EXISTS upload (
      id INTEGER PRIMARY KEY AUTOINCREMENT, server TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL,
      fingerprint TEXT, bytes INTEGER, sha256 TEXT, location TEXT, sent INTEGER NOT NULL, best INTEGER NOT NULL, attempts INTEGER NOT NULL,
      notBefore INTEGER NOT NULL, reason TEXT, capture TEXT, isDeleted BOOLEAN NOT NULL, UNIQUE (server, path))
    """,
    // The next item and the time until it are found without reading the queue.
    "CREATE INDEX IF NOT EXISTS upload_next ON upload (server, notBefore, id) WHERE \(isUnfinished)",
  ]

  private let file: QueueFile
  private let thread = DispatchQueue(label: "upload queue")
  private let lockFile: String

  /// Opens or makes a queue. Throws `UploaderProblem`.
  init(_ path: String) throws {
    do {
      try FileManager.default.createDirectory(
        atPath: URL(fileURLWithPath: path).deletingLastPathComponent().path, withIntermediateDirectories: true,
        attributes: [.posixPermissions: 0o700])
      file = try QueueFile(path, version: 1, tables: Self.tables)
    } catch {
      let words = (error as? QueueFile.Failure)?.description ?? (error as NSError).localizedDescription
      throw UploaderProblem("cannot open the queue \(path): \(words)")
    }
    lockFile = path + ".lock"
  }

  /// Uses the file, off the threads that tasks run on; a cancelled task waits, too.
  private func withFile<Result: Sendable>(_ body: @escaping @Sendable (QueueFile) throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
      thread.async { [self] in
        do {
          continuation.resume(returning: try body(file))
        } catch let failure as QueueFile.Failure {
          continuation.resume(throwing: UploaderProblem("the queue cannot be used: \(failure.description)"))
        } catch {
          continuation.resume(throwing: error)
        }
      }
    }
  }

  /// `$XDG_STATE_HOME/takeset/uploads.sqlite`, or the same below `~/.local/state`.
  static func usualPath(_ environment: [String: String]) -> String {
    let set = environment["XDG_STATE_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
    return (set ?? NSHomeDirectory() + "/.local/state") + "/takeset/uploads.sqlite"
  }

  /// Adds a capture, or returns the one that is there. One that was paused or failed is tried again: naming it is asking for that. One that
  /// was uploaded has its turn, too, since the server may no longer have it.
  ///
  /// - Parameters:
  ///   - bytes: The number of bytes to send, as far as known.
  ///   - again: Whether to send even what was uploaded.
  func add(_ capture: LocalCapture, for server: String, bytes: Int64? = nil, again: Bool = false) async throws -> Item {
    try await withFile { file in
      try file.transaction {
        guard var item = try Self.items(file, "server = ? AND path = ?", [.text(server), .text(capture.path)]).first else {
          var item = Item(id: nil, server: server, path: capture.path, kind: capture.kind.rawValue, bytes: bytes)
          try Self.save(item, file)
          item.id = file.lastInserted
          return item
        }
        // What is under way stays as it is.
        guard item.isSettled else { return item }
        if item.kind != capture.kind.rawValue || item.isDeleted || (again && item.state == .uploaded) { item.forget() }
        (item.kind, item.state, item.attempts, item.notBefore) = (capture.kind.rawValue, .pending, 0, 0)
        (item.reason, item.isDeleted) = (nil, false)
        try Self.save(item, file)
        return item
      }
    }
  }

  /// Makes what is paused pending, and with `failed` also that. A new run gives new attempts, but not before their time.
  func resume(_ server: String, failed: Bool) async throws {
    let states = failed ? [State.paused, .failed] : [.paused]
    try await withFile { file in
      try file.transaction {
        try file.run("UPDATE upload SET attempts = 0 WHERE server = ? AND \(Self.isUnfinished)", [.text(server)])
        for state in states {
          try file.run(
            "UPDATE upload SET state = 'pending', attempts = 0, notBefore = 0, reason = NULL WHERE server = ? AND state = ?",
            [.text(server), .text(state.rawValue)])
        }
      }
    }
  }

  func save(_ item: Item) async throws { try await withFile { try Self.save(item, $0) } }

  /// Hands over all items of a server, or of all servers, one after the other in the order in which they were added.
  func forEach(_ server: String?, _ body: @escaping @Sendable (Item) throws -> Void) async throws {
    try await withFile { file in
      let condition: (String, [QueueFile.Value]) = server.map { ("server = ?", [.text($0)]) } ?? ("TRUE", [])
      try file.run("SELECT \(Self.columns) FROM upload WHERE \(condition.0) ORDER BY id", condition.1) { try body(Self.item($0)) }
    }
  }

  /// Returns the time at which the next thing may be tried for a server, in milliseconds since 1970; `nil` where nothing is left.
  func nextTime(_ server: String) async throws -> Int64? {
    try await number("MIN(notBefore)", server)
  }

  /// Bytes that are still to be sent, as far as known.
  func remainingBytes(_ server: String) async throws -> Int64 {
    try await number("SUM(MAX(COALESCE(bytes, 0) - sent, 0))", server) ?? 0
  }

  private func number(_ expression: String, _ server: String) async throws -> Int64? {
    try await withFile { file in
      var found: Int64?
      try file.run("SELECT \(expression) FROM upload WHERE server = ? AND \(Self.isUnfinished)", [.text(server)]) { found = $0.integer(0) }
      return found
    }
  }

  func lock(_ id: Int64) throws -> ItemLock? { try ItemLock(id, file: lockFile) }

  /// Returns the next item whose time has come and that no other process sends, marked as being sent. `nil` where there is none.
  func claim(_ server: String, now: Int64) async throws -> (item: Item, lock: ItemLock)? {
    try await withFile { [self] file in
      var (time, last): (Int64, Int64) = (-1, 0)
      while true {
        var next: (time: Int64, id: Int64)?
        try file.run(
          """
          SELECT notBefore, id FROM upload
          WHERE server = ? AND \(Self.isUnfinished) AND notBefore <= ? AND (notBefore, id) > (?, ?) ORDER BY notBefore, id LIMIT 1
          """, [.text(server), .integer(now), .integer(time), .integer(last)]
        ) { next = ($0.integer(0) ?? 0, $0.integer(1) ?? 0) }
        guard let next else { return nil }
        (time, last) = next
        guard let lock = try lock(last) else { continue }
        // Another uploader may have finished it before the lock was this one's.
        let item = try file.transaction { () -> Item? in
          guard var item = try Self.items(file, "id = ?", [.integer(next.id)]).first, !item.isSettled, item.notBefore <= now else {
            return nil
          }
          item.state = .uploading
          try Self.save(item, file)
          return item
        }
        if let item { return (item, lock) }
      }
    }
  }

  // MARK: Rows

  private static let columns =
    "id, server, path, kind, state, fingerprint, bytes, sha256, location, sent, best, attempts, notBefore, reason, capture, isDeleted"

  private static func items(_ file: QueueFile, _ condition: String, _ values: [QueueFile.Value]) throws -> [Item] {
    var items: [Item] = []
    try file.run("SELECT \(columns) FROM upload WHERE \(condition)", values) { items.append(item($0)) }
    return items
  }

  private static func item(_ row: QueueFile.Row) -> Item {
    Item(
      id: row.integer(0), server: row.text(1) ?? "", path: row.text(2) ?? "", kind: row.text(3) ?? "",
      state: State(rawValue: row.text(4) ?? "") ?? .failed, fingerprint: row.text(5), bytes: row.integer(6), sha256: row.text(7),
      location: row.text(8), sent: row.integer(9) ?? 0, best: row.integer(10) ?? 0, attempts: Int(row.integer(11) ?? 0),
      notBefore: row.integer(12) ?? 0, reason: row.text(13), capture: row.text(14), isDeleted: row.integer(15) == 1)
  }

  /// Replaces an item, or adds one that has no number yet.
  private static func save(_ item: Item, _ file: QueueFile) throws {
    try file.run(
      "INSERT OR REPLACE INTO upload (\(columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      [
        .init(item.id), .text(item.server), .text(item.path), .text(item.kind), .text(item.state.rawValue), .init(item.fingerprint),
        .init(item.bytes), .init(item.sha256), .init(item.location), .integer(item.sent), .integer(item.best),
        .integer(Int64(item.attempts)), .integer(item.notBefore), .init(item.reason), .init(item.capture),
        .integer(item.isDeleted ? 1 : 0),
      ])
  }
}
