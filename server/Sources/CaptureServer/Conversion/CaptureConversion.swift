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
  let converter: Converter
  let logger: Logger

  /// The outcome of an attempt.
  private enum Outcome: Sendable {
    /// A take was written; where only some were, why not the others.
    case complete(ConversionReport)
    /// The capture is damaged or was tampered with.
    case rejected(String, ConversionReport)
    /// Nothing in it is a take.
    case unknown
    /// A failure on our side. It is tried again, except where that would not help.
    case failed(String, detail: String, isFinal: Bool)
  }

  /// Converts a capture that was claimed. Whatever happens is written to the database, except when the task is cancelled: the capture
  /// then stays claimed, and the next server converts it. Throws `StoreUnavailable`: that was no attempt.
  func run(_ capture: Capture) async throws {
    let work = try WorkFolder(below: data.work)
    defer { work.discard() }
    let result: ConversionResult
    do {
      result = try await convert(capture, in: work)
    } catch let error as StoreUnavailable {
      throw error
    } catch {
      try Task.checkCancellation()
      result = .failed("The conversion could not be started.", detail: "\((error as? Failure)?.reason ?? "\(error)")")
    }
    try Task.checkCancellation()
    try await finish(capture, result, in: work)
  }

  private func convert(_ capture: Capture, in work: WorkFolder) async throws -> ConversionResult {
    let (files, input, keys) = try await database.pool.read { [configuration] in
      try ConversionInput.all(of: capture, apps: configuration.appIDs, $0)
    }
    guard !files.isEmpty else { return .withoutFiles }
    return try await store.withFolder(of: capture.id, files: files) { folder in
      let path = try await NIOThreadPool.singleton.runIfActive {
        try input.place(from: folder, in: work.path + "/input")
      }
      let pipeline = configuration.pipeline.map { URL(fileURLWithPath: $0).standardizedFileURL.path }
      return try await converter.convert(path, pipeline: pipeline, keys: keys, in: work)
    }
  }

  // MARK: Finishing

  /// Writes what a converter made of a claimed capture, here or on another machine, into the work folder.
  func finish(_ capture: Capture, _ result: ConversionResult, in work: WorkFolder) async throws {
    switch await published(outcome(of: result, in: work), of: capture, in: work) {
    case .complete(let report):
      try await conclude(capture, .complete, reason: report.reason.map { clean($0, result.folder) }, report: report)
    case .rejected(let reason, let report):
      try await conclude(capture, .rejected, reason: reason, report: report)
    case .unknown:
      try await conclude(capture, .quarantined, reason: "Nothing in it is a recording that can be read.", report: nil)
    case .failed(let reason, let detail, let isFinal):
      try await fail(capture, reason: reason, detail: clean(detail, result.folder), isFinal: isFinal)
    }
  }

  /// Returns the meaning of a result for the capture.
  private func outcome(of result: ConversionResult, in work: WorkFolder) -> Outcome {
    switch result.outcome {
    case .unknown: return .unknown
    case .failed: return .failed(result.reason, detail: result.detail, isFinal: result.isFinal)
    case .converted:
      let dataset = work.path + "/" + Converter.dataset
      let manifest = dataset + "/manifest.json"
      guard access(manifest, F_OK) == 0 else {
        return .failed("The conversion gave no result.", detail: "no manifest", isFinal: false)
      }
      var report: ConversionReport
      do {
        report = try ConversionReport(manifest: manifest)
      } catch {
        return .failed("The conversion gave no result.", detail: "\(Mistake(error))", isFinal: false)
      }
      if let failure = report.ownFailure {
        return .failed("The conversion could not finish.", detail: failure, isFinal: false)
      }
      report.seconds = result.seconds
      guard report.written.isEmpty else { return .complete(report) }
      DurableFile.removeFolder(dataset)
      return .rejected(clean(report.reason ?? "It holds no take.", result.folder), report)
    }
  }

  /// A reason without the names of this machine's folders.
  private func clean(_ reason: String, _ folder: String) -> String {
    var reason = reason
    for folder in ["\(folder)/input/", "\(folder)/", data.path + "/"] where folder.count > 1 {
      reason = reason.replacingOccurrences(of: folder, with: "")
    }
    return reason
  }

  /// Puts what a conversion wrote in place, before anything says that it is there. A disk that is full makes it a failure.
  private func published(_ outcome: Outcome, of capture: Capture, in work: WorkFolder) async -> Outcome {
    guard case .complete = outcome else { return outcome }
    do {
      try await NIOThreadPool.singleton.runIfActive { [data] in
        try DurableFile.syncFolder(work.path + "/" + Converter.result)
        try DurableFile.replaceFolder(data.conversion(of: capture.id), with: work.path + "/" + Converter.result)
      }
      return outcome
    } catch {
      return .failed("The conversion could not be stored.", detail: "\((error as? Failure)?.reason ?? "\(error)")", isFinal: false)
    }
  }

  private enum Conclusion: Equatable {
    case written
    /// The capture was deleted in the meantime.
    case deleted
    /// One of two movies with one name that were converted at the same time: it is converted again, under its capture's id.
    case again
    /// An id of a take that another capture of the project has.
    case nameTaken(String)
  }

  /// Writes status and evidence in one transaction.
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
