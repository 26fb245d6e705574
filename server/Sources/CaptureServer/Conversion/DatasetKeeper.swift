import Evidence
import Foundation
import GRDB
import Logging
import NIOPosix

/// Keeps the dataset of each project equal to the sum of its captures' conversions: each of their takes once, and no other.
/// The contents of a dataset are in the table `merged`, written after the dataset is in place, so a merge that was interrupted is repeated.
/// The takes of a project that another pipeline made are in a dataset of their own, `<project>.<digest of the pipeline>`: rows of several
/// pipelines mean different things. What strangers sent is in `<project>.unverified`: nobody trains on it by mistake. No project's name has
/// a dot.
struct DatasetKeeper: Sendable {
  private let configuration: Configuration
  private let data: DataFolder
  private let database: ServerDatabase
  private let store: any CaptureStore
  private let takeset: TakesetCommand
  private let logger: Logger

  init(_ configuration: Configuration, data: DataFolder, database: ServerDatabase, store: any CaptureStore, logger: Logger) {
    self.configuration = configuration
    self.data = data
    self.database = database
    self.store = store
    self.logger = logger
    takeset = TakesetCommand(configuration)
  }

  /// A dataset that could not be written, and when it is tried again.
  private struct Setback {
    var failures: Int
    var retry: ContinuousClock.Instant
  }

  /// Works whenever the bell rings, until the task is cancelled.
  func run(_ bell: AsyncStream<Void>) async {
    var setbacks: [String: Setback] = [:]
    for await _ in bell {
      let started = ContinuousClock.now
      do {
        try await mergeAll(&setbacks)
        try await sweepConversions()
        try await removeExpired()
        // Also those of deleted captures, where the store did not answer.
        try await Leftovers(database: database, store: store, logger: logger).removeDue()
      } catch is CancellationError {
        return
      } catch {
        logger.error("datasets: \((error as? Failure)?.reason ?? "\(error)")")
      }
      // A merge looks at all shards of the dataset: however often captures arrive, it takes no more than a fifth of the time.
      try? await Task.sleep(for: max((.now - started) * 4, .seconds(1)))
    }
  }

  /// Puts in order what an earlier server left.
  func recover() async throws {
    let names = try await database.pool.read { try String.fetchAll($0, sql: "SELECT DISTINCT dataset FROM merged") }
    let missing = names.filter { name in (try? data.dataset(name)).map { access($0 + "/manifest.json", F_OK) != 0 } ?? true }
    try await database.pool.write { database in
      for name in missing { try database.execute(sql: "DELETE FROM merged WHERE dataset = ?", arguments: [name]) }
    }
  }

  // MARK: Merging

  /// A capture as a dataset has it: when its conversion finished, and how often its labels had changed.
  private struct Content: Equatable {
    var conversion: Int64
    var labels: Int64
  }
  /// The captures of a dataset.
  private typealias Contents = [String: Content]

  /// Returns the contents of datasets by their names, as they should be and as they are.
  private func contents() async throws -> (wanted: [String: Contents], merged: [String: Contents]) {
    try await database.pool.read { database in
      var wanted: [String: Contents] = [:]
      var newest: [String: (pipeline: String, at: Int64)] = [:]
      // Also those that are being converted again, or where that failed: their takes are still good.
      let converted = """
        SELECT project || iif(isStranger, '.unverified', '') AS dataset, pipeline, finishedAt, labelsRevision, capture.id AS id
        FROM capture JOIN conversion ON conversion.capture = capture.id
        WHERE EXISTS (SELECT 1 FROM take WHERE take.capture = capture.id) AND pipeline IS NOT NULL AND finishedAt IS NOT NULL
        """
      var groups: [String: [String: Contents]] = [:]
      for row in try Row.fetchAll(database, sql: converted) {
        let (dataset, pipeline, at): (String, String, Int64) = (row["dataset"], row["pipeline"], row["finishedAt"])
        groups[dataset, default: [:]][pipeline, default: [:]][row["id"]] = Content(conversion: at, labels: row["labelsRevision"])
        if at >= newest[dataset]?.at ?? .min { newest[dataset] = (pipeline, at) }
      }
      for (dataset, pipelines) in groups {
        for (pipeline, captures) in pipelines {
          wanted[pipeline == newest[dataset]?.pipeline ? dataset : "\(dataset).\(pipeline.prefix(12))"] = captures
        }
      }
      var merged: [String: Contents] = [:]
      for row in try Row.fetchAll(database, sql: "SELECT dataset, capture, conversion, labelsRevision FROM merged") {
        merged[row["dataset"], default: [:]][row["capture"]] = Content(conversion: row["conversion"], labels: row["labelsRevision"])
      }
      return (wanted, merged)
    }
  }

  /// Brings every dataset up to date. One that cannot be written is tried again after 2 s, 4 s, … up to 5 minutes, and stops no other.
  private func mergeAll(_ setbacks: inout [String: Setback]) async throws {
    let (wanted, merged) = try await contents()
    for name in Set(wanted.keys).union(merged.keys).sorted() {
      let (target, present) = (wanted[name] ?? [:], merged[name] ?? [:])
      guard target != present else { continue }
      if let setback = setbacks[name], setback.retry > .now { continue }
      let isWritten: Bool
      do {
        isWritten = try await write(name, Set(target.keys))
      } catch is CancellationError {
        throw CancellationError()
      } catch {
        logger.error("dataset \(name): \((error as? Failure)?.reason ?? "\(error)")")
        isWritten = false
      }
      guard isWritten else {
        let failures = (setbacks[name]?.failures ?? 0) + 1
        setbacks[name] = Setback(failures: failures, retry: .now + .seconds(min(1 << min(failures, 9), 300)))
        continue
      }
      setbacks[name] = nil
      try await database.pool.write { database in
        for capture in present.keys where target[capture] == nil {
          try database.execute(sql: "DELETE FROM merged WHERE dataset = ? AND capture = ?", arguments: [name, capture])
        }
        for (capture, content) in target where present[capture] != content {
          try database.execute(
            // Other labels make a take no newer: its files are kept no longer.
            sql: """
              INSERT INTO merged (dataset, capture, conversion, labelsRevision, at) VALUES (?, ?, ?, ?, ?)
              ON CONFLICT (dataset, capture) DO UPDATE SET labelsRevision = excluded.labelsRevision,
                at = iif(conversion = excluded.conversion, at, excluded.at), conversion = excluded.conversion
              """,
            arguments: [name, capture, content.conversion, content.labels, Time.now()])
        }
      }
      logger.info("dataset \(name): \(target.count) captures")
    }
  }

  /// Writes a dataset and puts it in place of the earlier one at once. False if it could not be written, which is logged.
  private func write(_ name: String, _ captures: Set<String>) async throws -> Bool {
    let work = try WorkFolder(below: data.work)
    defer { work.discard() }
    let (path, made) = (try data.dataset(name), work.path + "/dataset")
    if captures.isEmpty {
      if access(path, F_OK) == 0 { try DurableFile.rename(path, to: made) }
      try DurableFile.syncFolder(data.datasets)
      unlink(data.report(of: name))
      return true
    }
    // In a file: a command line would end at some 30,000.
    let list = work.path + "/captures"
    try Data(captures.sorted().map { "\($0)/dataset\n" }.joined().utf8).write(to: URL(fileURLWithPath: list))
    // Links take no space, and the takes of a capture are kept beside its files anyway.
    let merge = ["merge", "--from", list, "--output", made, "--link", "--json"]
    // A take stays in its part of the split, so that no model is tested on what an earlier one was trained on. Only where nothing says its part
    // are all parts drawn anew: a dataset of one take has it in train.
    let hasEarlier = access(path + "/manifest.json", F_OK) == 0
    var end = try await takeset(merge + (hasEarlier ? ["--split-like", path] : ["--resplit"]), in: data.conversions)
    if hasEarlier, end.code != 0, Self.unusable(end.output).contains(path) {
      logger.warning("dataset \(name): it is damaged, and its takes are split anew: \(end.words)")
      end = try await takeset(merge + ["--resplit"], in: data.conversions)
    }
    guard end.code == 0 else {
      logger.error("dataset \(name): \(end.isOverdue ? "merging takes too long" : "cannot be merged"): \(end.words)")
      try await repair(captures, by: end.output)
      return false
    }
    guard try await label(made, captures, in: work) else { return false }
    try await NIOThreadPool.singleton.runIfActive {
      try DurableFile.replaceFolder(path, with: made)
      // It may show what was deleted.
      unlink(data.report(of: name))
    }
    return true
  }

  /// Gives a dataset that was just merged the labels of its captures. False if it could not be written, which is logged.
  private func label(_ dataset: String, _ captures: Set<String>, in work: WorkFolder) async throws -> Bool {
    let path = work.path + "/labels.json"
    for file in try await database.pool.read({ try CaptureLabels.files(of: captures, $0) }) {
      try file.write(to: URL(fileURLWithPath: path))
      let end = try await takeset(["label", dataset, "--from", path, "--quiet"], in: work.path)
      guard end.code == 0 else {
        logger.error("dataset: its labels cannot be written: \(end.words)")
        return false
      }
    }
    return true
  }

  /// Has conversions made again that a failed merge could not use and that are damaged.
  ///
  /// - Parameter answer: JSON of `takeset merge --json`.
  private func repair(_ captures: Set<String>, by answer: String) async throws {
    let unusable = Self.unusable(answer)
    for capture in captures.sorted() where unusable.contains("\(capture)/dataset") {
      let end = try await takeset(["verify", "\(capture)/dataset", "--quiet", "--jobs", "1"], in: data.conversions)
      guard let code = end.code, [1, 2, 64].contains(code) else { continue }
      logger.warning("capture \(capture): its conversion is damaged: \(end.words)")
      try await database.pool.write { [data] database in
        if try Reconversion.hasFiles(capture, database) { return try Reconversion.replace(capture, database) }
        // Code 1 may be the fault of the machine, and then it is whole.
        guard code != 1 || access(data.conversion(of: capture) + "/dataset/manifest.json", F_OK) != 0 else { return }
        try database.execute(sql: "DELETE FROM take WHERE capture = ?", arguments: [capture])
        try database.execute(
          sql: "UPDATE capture SET status = 'failed', reason = ? WHERE id = ?",
          arguments: ["Its conversion is damaged, and its files are no longer kept.", capture])
      }
    }
  }

  /// The datasets that `takeset merge --json` could not use.
  private static func unusable(_ answer: String) -> [String] {
    let found = try? JSONDecoder().decode(JSONValue.self, from: Data(answer.utf8))
    return (found?["unusable"]?.array ?? []).compactMap { $0["dataset"]?.string }
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
        try Leftovers.add(capture, isDue: true, database)
        // Nothing of it counts against a quota any more.
        try database.execute(sql: "UPDATE capture SET bytes = 0 WHERE id = ?", arguments: [capture])
      }
      return expired
    }
    for capture in expired { logger.info("capture \(capture): its files are removed after \(configuration.retentionDays) days") }
  }
}
