import Foundation
import GRDB
import Logging
import NIOPosix

/// Keeps the dataset of each project equal to the sum of its complete captures: each of their takes once, and no other.
///
/// What a dataset holds is in the table `merged`, written after the dataset is in place, so a merge that was interrupted is repeated. The
/// takes of a project that another pipeline made are in a dataset of their own, `<project>.<digest of the pipeline>`: rows of several
/// pipelines mean different things.
struct DatasetKeeper: Sendable {
  private let configuration: Configuration
  private let data: DataFolder
  private let database: Database
  private let store: any CaptureStore
  private let takeset: TakesetCommand
  private let logger: Logger

  init(_ configuration: Configuration, data: DataFolder, database: Database, store: any CaptureStore, logger: Logger) {
    self.configuration = configuration
    self.data = data
    self.database = database
    self.store = store
    self.logger = logger
    takeset = TakesetCommand(configuration)
  }

  /// Works whenever the bell rings, until the task is cancelled.
  func run(_ bell: AsyncStream<Void>) async {
    var failures = 0
    for await _ in bell {
      let started = ContinuousClock.now
      do {
        if try await mergeAll() { failures = 0 } else { failures += 1 }
        try await sweepConversions()
        try await removeExpired()
      } catch is CancellationError {
        return
      } catch {
        failures += 1
        logger.error("datasets: \((error as? Failure)?.reason ?? "\(error)")")
      }
      // A merge reads all shards of the dataset: however often captures arrive, it takes no more than a fifth of the time.
      let pause = failures > 0 ? .seconds(min(1 << min(failures, 9), 300)) : max((.now - started) * 4, .seconds(1))
      try? await Task.sleep(for: pause)
    }
  }

  /// Puts in order what an earlier server left.
  func recover() async throws {
    let (names, emptied) = try await database.pool.read { database in
      (
        try String.fetchAll(database, sql: "SELECT DISTINCT dataset FROM merged"),
        try String.fetchSet(database, sql: "SELECT id FROM capture WHERE NOT EXISTS (SELECT 1 FROM file WHERE file.capture = capture.id)")
      )
    }
    let missing = names.filter { access(data.dataset($0) + "/manifest.json", F_OK) != 0 }
    try await database.pool.write { database in
      for name in missing { try database.execute(sql: "DELETE FROM merged WHERE dataset = ?", arguments: [name]) }
    }
    // Files that were about to be removed.
    if !emptied.isEmpty { for capture in try await store.captures() where emptied.contains(capture) { try await store.remove(capture) } }
  }

  // MARK: Merging

  /// The captures of each dataset by its name, as they should be and as they are.
  private func captures() async throws -> (wanted: [String: Set<String>], merged: [String: Set<String>]) {
    try await database.pool.read { database in
      var wanted: [String: Set<String>] = [:]
      var newest: [String: (pipeline: String, at: Int64)] = [:]
      let complete = """
        SELECT project, pipeline, finishedAt, capture.id AS id FROM capture JOIN conversion ON conversion.capture = capture.id
        WHERE status = 'complete' AND state = 'done' AND pipeline IS NOT NULL
        """
      var groups: [String: [String: Set<String>]] = [:]
      for row in try Row.fetchAll(database, sql: complete) {
        let (project, pipeline, at): (String, String, Int64) = (row["project"], row["pipeline"], row["finishedAt"])
        groups[project, default: [:]][pipeline, default: []].insert(row["id"])
        if at >= newest[project]?.at ?? .min { newest[project] = (pipeline, at) }
      }
      for (project, pipelines) in groups {
        for (pipeline, ids) in pipelines {
          wanted[pipeline == newest[project]?.pipeline ? project : "\(project).\(pipeline.prefix(12))"] = ids
        }
      }
      var merged: [String: Set<String>] = [:]
      for row in try Row.fetchAll(database, sql: "SELECT dataset, capture FROM merged") {
        merged[row["dataset"], default: []].insert(row["capture"])
      }
      return (wanted, merged)
    }
  }

  /// Brings every dataset up to date. Whether all could be.
  private func mergeAll() async throws -> Bool {
    let (wanted, merged) = try await captures()
    var isComplete = true
    for name in Set(wanted.keys).union(merged.keys).sorted() {
      let (target, present) = (wanted[name] ?? [], merged[name] ?? [])
      guard target != present else { continue }
      if try await write(name, target) {
        try await database.pool.write { database in
          for capture in present.subtracting(target) {
            try database.execute(sql: "DELETE FROM merged WHERE dataset = ? AND capture = ?", arguments: [name, capture])
          }
          for capture in target.subtracting(present) {
            try database.execute(
              sql: "INSERT INTO merged (dataset, capture, at) VALUES (?, ?, ?)", arguments: [name, capture, Time.now()])
          }
        }
        logger.info("dataset \(name): \(target.count) captures")
      } else {
        isComplete = false
      }
    }
    return isComplete
  }

  /// Writes a dataset and puts it in place of the earlier one at once. False if it could not be written, which is logged.
  private func write(_ name: String, _ captures: Set<String>) async throws -> Bool {
    let work = try WorkFolder(in: data)
    defer { work.discard() }
    let (path, made) = (data.dataset(name), work.path + "/dataset")
    if captures.isEmpty {
      if access(path, F_OK) == 0 { try DurableFile.rename(path, to: made) }
      try DurableFile.syncFolder(data.datasets)
      unlink(data.report(of: name))
      return true
    }
    let sources = captures.sorted().map { "\($0)/dataset" }
    let command = sources.count == 1 ? ["select", "--where", "outcome = written"] : ["merge"]
    // Parts of the split are drawn anew: a dataset of one take has it in train. Links take no space, and the takes of a capture are kept
    // beside its files anyway.
    let end = try await takeset(
      command + sources + ["--output", made, "--link", "--resplit", "--quiet"], in: data.conversions)
    guard end.code == 0 else {
      logger.error("dataset \(name): \(end.isOverdue ? "merging takes too long" : "cannot be merged"): \(end.output)")
      try await repair(captures, named: end.output)
      return false
    }
    try await NIOThreadPool.singleton.runIfActive {
      try DurableFile.replaceFolder(path, with: made)
      // It may show what was deleted.
      unlink(data.report(of: name))
    }
    return true
  }

  /// Has conversions made again that a failed merge names and that are damaged.
  private func repair(_ captures: Set<String>, named text: String) async throws {
    for capture in captures.sorted() where text.contains(capture) {
      let end = try await takeset(["verify", "\(capture)/dataset", "--quiet", "--jobs", "1"], in: data.conversions)
      guard let code = end.code, [1, 2, 64].contains(code) else { continue }
      logger.warning("capture \(capture): its conversion is damaged: \(end.output)")
      try await database.pool.write { database in
        let hasFiles =
          try Bool.fetchOne(database, sql: "SELECT EXISTS (SELECT 1 FROM file WHERE capture = ?)", arguments: [capture]) ?? false
        if hasFiles {
          try database.execute(
            sql: "UPDATE conversion SET state = 'waiting', attempts = 0, notBefore = 0 WHERE capture = ?", arguments: [capture])
          try database.execute(sql: "UPDATE capture SET status = 'processing' WHERE id = ?", arguments: [capture])
        } else {
          try database.execute(
            sql: "UPDATE capture SET status = 'failed', reason = ? WHERE id = ?",
            arguments: ["Its conversion is damaged, and its files are no longer kept.", capture])
        }
      }
    }
  }

  // MARK: Removing

  /// Removes the conversions of captures that were deleted.
  private func sweepConversions() async throws {
    let folders = try FileManager.default.contentsOfDirectory(atPath: data.conversions).filter { !$0.hasPrefix(".") }
    guard !folders.isEmpty else { return }
    let known = try await database.pool.read { try String.fetchSet($0, sql: "SELECT id FROM capture") }
    for folder in folders where !known.contains(folder) {
      let path = data.conversion(of: folder)
      try await NIOThreadPool.singleton.runIfActive { DurableFile.removeFolder(path) }
    }
  }

  /// Removes the files of captures whose time is over and whose takes are in a dataset. Their rows stay: a capture that is sent again is
  /// still known.
  private func removeExpired() async throws {
    guard configuration.retentionDays > 0 else { return }
    let limit = Time.now() - Int64(configuration.retentionDays) * 86_400_000
    let expired = try await database.pool.write { database in
      let expired = try String.fetchAll(
        database,
        sql: """
          SELECT DISTINCT capture.id FROM merged JOIN capture ON capture.id = merged.capture
          WHERE merged.at < ? AND status = 'complete' AND EXISTS (SELECT 1 FROM file WHERE capture = merged.capture) LIMIT 100
          """, arguments: [limit])
      for capture in expired {
        try database.execute(sql: "DELETE FROM file WHERE capture = ?", arguments: [capture])
        // Nothing of it counts against a quota any more.
        try database.execute(sql: "UPDATE capture SET bytes = 0 WHERE id = ?", arguments: [capture])
      }
      return expired
    }
    for capture in expired {
      try await store.remove(capture)
      logger.info("capture \(capture): its files were removed after \(configuration.retentionDays) days")
    }
  }
}
