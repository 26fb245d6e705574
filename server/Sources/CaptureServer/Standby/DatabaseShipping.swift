import Crypto
import Foundation
import GRDB
import Logging
import NIOPosix
import ServiceLifecycle
import Synchronization

/// Copies each change of the database to another place within a second, so that another machine can go on where this one ended.
///
/// It begins with a copy of the whole database (a generation), and then copies SQLite's write-ahead log as it grows, one transaction or more
/// at a time. A log that has become large, or that somebody else has written into the database, begins the next generation.
///
/// The database knows which copies are its own: `application_id` is a number drawn once, which a restored database has, too, and
/// `user_version` the number of its last generation. So neither an empty database nor a server that was thought dead takes the place of the
/// copies of another one.
///
/// `@unchecked Sendable`: the log is used by the one task that runs it.
final class DatabaseShipping: Service, CustomStringConvertible, @unchecked Sendable {
  let description = "DatabaseShipping"
  private let place: StandbyPlace
  private let database: ServerDatabase
  private let path: String
  private let logger: Logger
  /// The database's file, open for as long as this process runs: closing any descriptor of it would end all of SQLite's locks on it
  /// (https://www.sqlite.org/howtocorrupt.html, section 2.2).
  private let file: Int32

  private var generation: Generation?
  private var log: WriteAheadLog
  private var shipped: Int64 = 0
  private var pieces = 0
  private var isSuperseded = false
  private let shippedAt = Mutex<Double>(ProcessInfo.processInfo.systemUptime)

  /// Bytes of the log, and its pieces, that are worth a new copy of the database.
  private static let leastLog: Int64 = 4 << 20
  private static let mostPieces = 2000
  /// Bytes of a log that waits for a place that is away; more of it goes into the database, and the next generation begins with it.
  private static let mostWaiting: Int64 = 256 << 20
  /// Looks at a log, a second apart, that ends in frames which never become a transaction.
  private static let patience = 10

  /// Throws `Mistake` where the place has the copies of another database.
  init(to place: StandbyPlace, from database: ServerDatabase, path: String, logger: Logger) async throws {
    (self.place, self.database, self.path, self.logger) = (place, database, path, logger)
    log = WriteAheadLog(path + "-wal")
    file = open(path, O_RDONLY | O_CLOEXEC)
    try await check(try await place.names())
  }

  /// Seconds by which a copy may be behind before operators are told.
  static let mostLag = 60.0

  /// Seconds since everything was there.
  var lag: Double { ProcessInfo.processInfo.systemUptime - shippedAt.withLock { $0 } }

  func run() async throws {
    await cancelWhenGracefulShutdown { [self] in
      var (failures, checks) = (0, 0)
      while !Task.isCancelled {
        do {
          // A server that was thought dead must not go on for long.
          if checks % 30 == 0, generation != nil { try await check(try await place.names()) }
          checks += 1
          if !isSuperseded { try await ship() }
          if failures > 0 { logger.notice("the standby's copy of the database goes on") }
          failures = 0
        } catch let mistake as Mistake where isSuperseded {
          logger.error("\(mistake); nothing is copied any more")
          generation = nil
          failures = 0
        } catch {
          if Task.isCancelled { break }
          if failures == 0 { logger.error("the standby's copy of the database is behind: \(Mistake(error))") }
          failures += 1
          try? await letGo()
        }
        try? await Task.sleep(for: .seconds(failures == 0 ? 1 : min(30, Double(1 << min(failures, 5)))))
      }
    }
    // What the last requests changed.
    if generation != nil { await Task { try? await ship() }.value }
  }

  /// Makes sure that the newest complete generation of the place is of this database. Throws `Mistake`.
  private func check(_ names: [String]) async throws {
    guard let newest = Generation.complete(among: names).last else { return }
    guard let mistake = try await Self.mistake(newest, at: place, of: try await database.pool.read(CopyNumbers.init)) else { return }
    isSuperseded = true
    throw mistake
  }

  /// The numbers by which a database knows its copies.
  struct CopyNumbers: Sendable {
    /// 0 for a database that was never copied, or for none.
    var id = 0
    var generation = 0

    init() {}

    init(_ database: Database) throws {
      id = try Int.fetchOne(database, sql: "PRAGMA application_id") ?? 0
      generation = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
    }
  }

  /// Returns the reason why the newest complete generation of a place is not of a database; `nil` where it is.
  static func mistake(_ newest: Generation, at place: StandbyPlace, of database: CopyNumbers) async throws -> Mistake? {
    let found = try JSONDecoder().decode(Generation.Description.self, from: try await place.read(newest.description))
    if database.id != found.database {
      return Mistake("--standby: the place has copies of another database; restore it, or name an empty place")
    }
    return database.generation >= newest.number
      ? nil : Mistake("--standby: another server goes on with this database, from its copy \(newest.name)")
  }

  private func ship() async throws {
    let began = ProcessInfo.processInfo.systemUptime
    if generation == nil { try await begin() }
    guard let generation else { return }
    do {
      try log.advance()
      while shipped < log.committed {
        let end = min(log.committed, shipped + StandbyPlace.pieceSize)
        try await place.write(try log.bytes(shipped..<end), as: generation.piece(.wal, at: shipped))
        shipped = end
        pieces += 1
      }
    } catch is WriteAheadLog.Restarted {
      self.generation = nil
      return try await ship()
    }
    shippedAt.withLock { $0 = began }
    if shipped > max(Self.leastLog, DurableFile.size(path)) || pieces >= Self.mostPieces || log.idleLooks > Self.patience {
      self.generation = nil
    }
  }

  /// Copies the whole database. The copies from before the last one are removed.
  private func begin() async throws {
    let copy = path + ".standby"
    unlink(copy)
    defer { unlink(copy) }
    let names = try await place.names()
    try await check(names)
    let next = Generation(number: (names.map { Generation(of: $0).number }.max() ?? 0) + 1, at: Date())
    let (log, id) = try await copyDatabase(to: copy, as: next)
    let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: copy))
    defer { try? file.close() }
    var (bytes, digest): (Int64, SHA256) = (0, SHA256())
    while let piece = try file.read(upToCount: Int(StandbyPlace.pieceSize)), !piece.isEmpty {
      digest.update(data: piece)
      try await place.write(piece, as: next.piece(.snapshot, at: bytes))
      bytes += Int64(piece.count)
    }
    let description = Generation.Description(
      database: id, bytes: bytes, sha256: Hex.text(digest.finalize()), version: CaptureServer.version, time: Date().formatted(.iso8601))
    // Another server may have begun meanwhile.
    try await check(try await place.names())
    try await place.write(try JSONEncoder().encode(description), as: next.description)
    (generation, self.log, shipped, pieces) = (next, log, 0, 0)
    let kept = Generation.complete(among: names).last
    try await place.remove(names.filter { Generation(of: $0) != kept })
  }

  /// Writes the log into the database and copies that, while nobody can change it. Returns the log that begins then, and the database's id.
  private func copyDatabase(to copy: String, as generation: Generation) async throws -> (WriteAheadLog, id: Int) {
    let (path, file) = (path, file)
    for _ in 0..<10 {
      let begun = try await database.pool.writeWithoutTransaction { database -> (WriteAheadLog, Int)? in
        var id = try Int.fetchOne(database, sql: "PRAGMA application_id") ?? 0
        if id == 0 {
          id = .random(in: 1...Int(Int32.max))
          try database.execute(sql: "PRAGMA application_id = \(id)")
        }
        try database.checkpoint(.truncate)
        var isDone = false
        try database.inTransaction(.immediate) {
          // Another program, such as `keys add`, may have written since.
          if DurableFile.size(path + "-wal") == 0 {
            unlink(copy)
            try DurableFile.copy(file, path, to: copy)
            // The log gets its header at once: if another one takes its place before it is looked at again, that is seen.
            try database.execute(sql: "PRAGMA user_version = \(generation.number)")
            isDone = true
          }
          return isDone ? .commit : .rollback
        }
        guard isDone else { return nil }
        var log = WriteAheadLog(path + "-wal")
        try log.advance()
        return log.committed > 0 ? (log, id) : nil
      }
      if let begun { return begun }
    }
    throw Mistake("the database is written to all the time")
  }

  /// Lets a log that has grown large while the place was away go into the database.
  private func letGo() async throws {
    guard DurableFile.size(path + "-wal") > Self.mostWaiting else { return }
    generation = nil
    try await database.pool.writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
  }
}
