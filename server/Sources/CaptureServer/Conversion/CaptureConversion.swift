import Evidence
import Foundation
import GRDB
import Logging
import NIOPosix

/// The conversion of one capture, from its files to a dataset of its own, its evidence and its status.
struct CaptureConversion: Sendable {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let store: any CaptureStore
  let takeset: TakesetCommand
  let logger: Logger

  /// What became of an attempt.
  private enum Outcome: Sendable {
    /// A take was written; where only some were, why not the others.
    case complete(ConversionReport)
    /// The capture is damaged or was tampered with.
    case rejected(String, ConversionReport)
    /// Nothing in it is a take.
    case unknown
    /// On our side. It is tried again, except where that would not help.
    case failed(String, detail: String, isFinal: Bool)
  }

  /// Seconds that a look at a capture or its images may take.
  private static let lookSeconds = 600

  /// Converts a capture that was claimed. Whatever happens is written to the database, except when the task is cancelled: the capture
  /// then stays claimed, and the next server converts it. Throws `StoreUnavailable`: that was no attempt.
  func run(_ capture: Capture) async throws {
    let work = try WorkFolder(in: data)
    defer { work.discard() }
    let outcome: Outcome
    do {
      outcome = try await convert(capture, in: work)
    } catch let error as StoreUnavailable {
      throw error
    } catch {
      try Task.checkCancellation()
      outcome = .failed("The conversion could not be started.", detail: "\((error as? Failure)?.reason ?? "\(error)")", isFinal: false)
    }
    try Task.checkCancellation()
    try await finish(capture, await published(outcome, of: capture, in: work), work)
  }

  // MARK: Converting

  private func convert(_ capture: Capture, in work: WorkFolder) async throws -> Outcome {
    let (files, input, keys) = try await database.pool.read { [configuration] database in
      let files = try CaptureFile.filter(Column("capture") == capture.id).order(Column("name")).fetchAll(database)
      let input = try ConversionInput(capture, files: files) { name in
        try ConversionInput.isTaken(name, byOthersThan: capture, database)
      }
      return (files, input, try ConversionKeys(for: capture, apps: configuration.appIDs, database))
    }
    guard !files.isEmpty else {
      return .failed("Its files are no longer kept.", detail: "no files", isFinal: true)
    }
    return try await store.withFolder(of: capture.id, files: files) { folder in
      let path = try await NIOThreadPool.singleton.runIfActive {
        try input.place(from: folder, in: work.path + "/input")
      }
      return try await convert(path, keys: keys, in: work)
    }
  }

  private func convert(_ input: String, keys: ConversionKeys?, in work: WorkFolder) async throws -> Outcome {
    let dataset = work.path + "/result/dataset"
    try DurableFile.makeFolder(work.path + "/result")
    var arguments = ["run", input, "--output", dataset, "--jobs", "1", "--quiet", "--progress", "none"]
    // Whoever sent it: a fault of a library that decodes it must not be one of the server's.
    arguments += ["--isolate", "always"]
    if let given = configuration.pipeline {
      arguments += ["--pipeline", URL(fileURLWithPath: given).standardizedFileURL.path]
    } else {
      try Data(PackageResources.server_yaml).write(to: URL(fileURLWithPath: work.path + "/pipeline.yaml"))
      arguments += ["--pipeline", work.path + "/pipeline.yaml"]
    }
    if let keys {
      try JSONAnswer.data(keys).write(to: URL(fileURLWithPath: work.path + "/keys.json"))
      arguments += ["--keys", work.path + "/keys.json"]
    }
    let end = try await takeset(arguments, in: work.path)
    if let failure = failure(of: end) { return failure }
    // Exit code 64, without anything that could be converted, is also what a mistake in the pipeline gives.
    if end.code == 64 || end.code == 1, try await holdsNoTake(work) { return .unknown }
    guard end.code == 0 || end.code == 3 else {
      let isMistake = end.code == 64
      return .failed(
        isMistake ? "The server's converter is not set up correctly." : "The conversion could not finish.",
        detail: "exit code \(end.code ?? -1): \(end.words)", isFinal: isMistake)
    }
    var report: ConversionReport
    do {
      report = try ConversionReport(manifest: dataset + "/manifest.json")
    } catch {
      return .failed("The conversion gave no result.", detail: "\(error): \(end.words)", isFinal: false)
    }
    if let failure = report.ownFailure { return .failed("The conversion could not finish.", detail: failure, isFinal: false) }
    guard report.written.isEmpty else {
      await CapturePreview.make(of: dataset, in: work.path + "/result", takeset, logger)
      report.seconds = await seconds(of: dataset, in: work)
      return .complete(report)
    }
    DurableFile.removeFolder(dataset)
    return .rejected(clean(report.reason ?? "It holds no take.", work), report)
  }

  /// A command that did not end by itself, as a failure.
  private func failure(of end: ChildProcess.End) -> Outcome? {
    if end.isOverdue {
      return .failed(
        "The conversion took longer than \(configuration.conversionSeconds) seconds.", detail: end.words, isFinal: false)
    }
    if end.code == 126 || end.code == 127 {
      return .failed("The server's converter cannot be started.", detail: end.words, isFinal: false)
    }
    if end.signal != nil || end.code.map({ $0 > 125 }) ?? true {
      return .failed(
        "The conversion stopped unexpectedly.",
        detail: "\(end.signal.map { "signal \($0)" } ?? "exit code \(end.code ?? -1)"): \(end.words)", isFinal: false)
    }
    return nil
  }

  /// Whether no reader knows what the input is. The folder around it is looked at: of a file by itself the converter gives no record.
  private func holdsNoTake(_ work: WorkFolder) async throws -> Bool {
    let end = try await takeset(["inspect", work.path + "/input", "--json", "--quiet"], in: work.path, seconds: Self.lookSeconds)
    guard end.code == 3, let found = try? JSONDecoder().decode(JSONValue.self, from: Data(end.output.utf8)) else { return false }
    let takes = found["takes"]?.array ?? []
    return takes.allSatisfy { take in
      (take["findings"]?.array ?? []).contains { ["no-take-found", "not-a-take"].contains($0["code"]?.string ?? "") }
    }
  }

  /// How long the takes of a dataset are together; `nil` if that cannot be read.
  private func seconds(of dataset: String, in work: WorkFolder) async -> Double? {
    let end = try? await takeset(["report", dataset, "--json"], in: work.path, seconds: Self.lookSeconds)
    guard let end, end.code == 0, let found = try? JSONDecoder().decode(JSONValue.self, from: Data(end.output.utf8)) else { return nil }
    return found["takes"]?.array?.reduce(0) { $0 + ($1["seconds"]?.double ?? 0) }
  }

  /// A reason without the names of this machine's folders.
  private func clean(_ reason: String, _ work: WorkFolder) -> String {
    var reason = reason
    for folder in [work.path + "/input/", work.path + "/", data.path + "/"] {
      reason = reason.replacingOccurrences(of: folder, with: "")
    }
    return reason
  }

  // MARK: Finishing

  /// Puts what a conversion wrote in place, before anything says that it is there. A disk that is full makes it a failure.
  private func published(_ outcome: Outcome, of capture: Capture, in work: WorkFolder) async -> Outcome {
    guard case .complete = outcome else { return outcome }
    do {
      try await NIOThreadPool.singleton.runIfActive { [data] in
        try DurableFile.syncFolder(work.path + "/result")
        try DurableFile.replaceFolder(data.conversion(of: capture.id), with: work.path + "/result")
      }
      return outcome
    } catch {
      return .failed("The conversion could not be stored.", detail: "\((error as? Failure)?.reason ?? "\(error)")", isFinal: false)
    }
  }

  /// Writes status and evidence in one transaction.
  private func finish(_ capture: Capture, _ outcome: Outcome, _ work: WorkFolder) async throws {
    switch outcome {
    case .complete(let report):
      let reason = report.reason.map { clean($0, work) }
      try await conclude(capture, .complete, reason: reason, report: report)
    case .rejected(let reason, let report):
      try await conclude(capture, .rejected, reason: reason, report: report)
    case .unknown:
      try await conclude(capture, .quarantined, reason: "Nothing in it is a recording that can be read.", report: nil)
    case .failed(let reason, let detail, let isFinal):
      try await fail(capture, reason: reason, detail: clean(detail, work), isFinal: isFinal)
    }
  }

  private enum Conclusion: Equatable {
    case written
    /// The capture was deleted in the meantime.
    case deleted
    /// Of two movies with one name that were converted at the same time, this one is converted again, under its capture's id.
    case again
    /// An id of a take that another capture of the project has.
    case nameTaken(String)
  }

  private func conclude(_ capture: Capture, _ status: CaptureStatus, reason: String?, report: ConversionReport?) async throws {
    let evidence = try report?.evidence(hasApps: !configuration.appIDs.isEmpty)
    let written = report?.written ?? []
    let conclusion = try await database.pool.write { database -> Conclusion in
      try database.execute(sql: "DELETE FROM take WHERE capture = ?", arguments: [capture.id])
      if let name = try written.first(where: { try ConversionInput.isTaken($0, byOthersThan: capture, database) }) {
        guard capture.type == .movie else { return .nameTaken(name) }
        try database.execute(sql: "UPDATE conversion SET state = 'waiting' WHERE capture = ?", arguments: [capture.id])
        return .again
      }
      try database.execute(
        sql: "UPDATE capture SET status = ?, reason = ?, evidence = ?, rows = ?, seconds = ?, badge = ? WHERE id = ?",
        arguments: [
          status.rawValue, reason, evidence, report?.rows, report?.seconds,
          evidence.flatMap { CaptureEvidence($0)?.badge?.state.rawValue }, capture.id,
        ])
      if database.changesCount == 0 { return .deleted }
      try database.execute(
        sql:
          "UPDATE conversion SET state = 'done', attempts = attempts + 1, lastError = NULL, pipeline = ?, finishedAt = ? WHERE capture = ?",
        arguments: [report?.pipeline, Time.now(), capture.id])
      for take in written {
        try database.execute(sql: "INSERT INTO take (id, capture) VALUES (?, ?)", arguments: [take, capture.id])
      }
      return .written
    }
    if conclusion != .written || status != .complete { await remove(capture) }
    if case .nameTaken(let name) = conclusion {
      return try await fail(
        capture, reason: "Another capture of the project has a recording that is named \(name), too.", detail: "\(name) exists",
        isFinal: true)
    }
    logger.info("capture \(capture.id): \(status.rawValue)\(reason.map { ": \($0)" } ?? "")")
  }

  private func remove(_ capture: Capture) async {
    let path = data.conversion(of: capture.id)
    try? await NIOThreadPool.singleton.runIfActive { DurableFile.removeFolder(path) }
  }

  /// Counts an attempt; after the last one the capture is `failed`.
  func fail(_ capture: Capture, reason: String, detail: String, isFinal: Bool) async throws {
    let kept = String(detail.suffix(4000))
    let attempts = try await database.pool.write { [configuration] database -> Int? in
      guard let attempts = try Int.fetchOne(database, sql: "SELECT attempts + 1 FROM conversion WHERE capture = ?", arguments: [capture.id])
      else { return nil }
      let isLast = isFinal || attempts >= configuration.conversionAttempts
      try database.execute(
        sql: "UPDATE conversion SET state = ?, attempts = ?, notBefore = ?, lastError = ? WHERE capture = ?",
        arguments: [isLast ? "done" : "waiting", attempts, Time.now() + Self.pause(after: attempts), kept, capture.id])
      if isLast {
        let times = attempts == 1 ? "" : " It was tried \(attempts) times."
        try database.execute(
          sql: "UPDATE capture SET status = 'failed', reason = ? WHERE id = ?", arguments: [reason + times, capture.id])
      }
      return attempts
    }
    logger.warning("capture \(capture.id): attempt \(attempts ?? 0): \(reason) \(kept)")
  }

  /// Milliseconds before another attempt: 1 s, 4 s, 16 s, … up to 5 minutes.
  private static func pause(after attempts: Int) -> Int64 { min(1000 << (2 * Int64(min(max(attempts - 1, 0), 8))), 300_000) }
}
