import Foundation
package import GRDB

/// An SQLite file that several processes open, even at the same moment.
package enum SharedDatabase {
  /// Opens or makes the file and brings its tables to this program's version.
  ///
  /// SQLite waits for another's transaction, but not for another that changes a new file to write-ahead logging as well: it fails at once,
  /// whatever the busy mode says. And two migrators that both found no table both make it. So one process at a time opens.
  ///
  /// Throws `DatabaseError`, or `Newer` where a later version of this program has changed the tables.
  package static func open(_ path: String, configuration: Configuration, migrator: DatabaseMigrator) throws -> DatabasePool {
    var configuration = configuration
    configuration.busyMode = .timeout(30)
    let folder = Glibc.open(URL(fileURLWithPath: path).deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    defer { if folder >= 0 { close(folder) } }
    // A file system without such locks opens as before: rarely, one of two first openers fails.
    while folder >= 0, flock(folder, LOCK_EX) != 0, errno == EINTR {}
    let pool = try DatabasePool(path: path, configuration: configuration)
    guard try !pool.read(migrator.hasBeenSuperseded) else { throw Newer() }
    try migrator.migrate(pool)
    return pool
  }

  package struct Newer: Error, CustomStringConvertible {
    package let description = "a newer version of this program has changed the database"
  }
}
