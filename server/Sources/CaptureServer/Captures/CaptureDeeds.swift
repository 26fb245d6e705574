import Crypto
import GRDB
import Hummingbird

/// The actions on a capture, by a script or by the buttons of its page. A key reaches only its project's.
struct CaptureDeeds: Sendable {
  let database: ServerDatabase
  let intake: Intake
  let conversions: ConversionQueue

  /// Removes a capture and its files. Its take leaves the dataset of its project soon afterwards. Throws `Failure` 404, 409 while it is
  /// converted.
  func delete(_ id: String, _ context: CaptureContext) async throws {
    try await database.pool.write { database in
      let capture = try Self.capture(id, context, database)
      if try Conversion.fetchOne(database, key: id)?.state == "running" {
        throw Failure(
          .conflict, "CAPTURE_BUSY", "The capture is being converted. Try again when that has ended.", headers: [.retryAfter: "10"])
      }
      try capture.delete(database)
      try Leftovers.add(id, isDue: true, database)
    }
    await intake.leftovers.remove(id)
    conversions.wake()
    context.logger.info("capture \(id) was deleted \(context.key.map { "with the key \($0.id)" } ?? "without a key")")
  }

  /// Queues a capture once more. Throws `Failure` 404, 409 while it waits or is converted and where its files are gone.
  func convert(_ id: String, _ context: CaptureContext) async throws {
    try await database.pool.write { database in
      _ = try Self.capture(id, context, database)
      switch try Reconversion.queue(id, database) {
      case .unknown: throw Failure.captureNotFound
      case .busy:
        throw Failure(
          .conflict, "CAPTURE_BUSY", "The capture waits for its conversion, or is being converted.", headers: [.retryAfter: "10"])
      case .withoutFiles:
        throw Failure(.conflict, "FILES_REMOVED", "The capture's files are no longer kept, so it cannot be converted again.")
      case .queued: break
      }
    }
    conversions.wake()
    context.logger.info("capture \(id) is converted again")
  }

  /// The address at which everybody may see a capture's page, without a key; it stays the same until it is taken back. Throws `Failure` 404.
  func share(_ id: String, _ context: CaptureContext, root: String) async throws -> String {
    let link = try await database.pool.write { database in
      if let link = try Self.capture(id, context, database).link { return link }
      let link = SymmetricKey(size: .bits128).withUnsafeBytes { Hex.text($0) }
      try database.execute(sql: "UPDATE capture SET link = ? WHERE id = ?", arguments: [link, id])
      return link
    }
    context.logger.info("capture \(id) is shown to whoever has its link")
    return "\(root)/shown/\(link)"
  }

  /// Takes the address back: it leads nowhere from now on. Throws `Failure` 404.
  func unshare(_ id: String, _ context: CaptureContext) async throws {
    try await database.pool.write { database in
      _ = try Self.capture(id, context, database)
      try database.execute(sql: "UPDATE capture SET link = NULL WHERE id = ?", arguments: [id])
    }
    context.logger.info("capture \(id) is no longer shown")
  }

  /// Changes what somebody has said of a capture; the dataset of its project has it soon afterwards. Throws `Failure` 404, 409 for segments
  /// of a capture with several takes, 412 for other labels than those that the client knows, and what `change` throws.
  ///
  /// - Parameters:
  ///   - known: The number of the labels that the client has seen; `nil` where it does not say.
  ///   - change: Gets the capture and its labels.
  func label(
    _ id: String, _ context: CaptureContext, known: Int64?, change: @escaping @Sendable (Capture, inout CaptureLabels) throws -> Void
  ) async throws {
    let isChanged = try await database.pool.write { database in
      let capture = try Self.capture(id, context, database)
      var labels = CaptureLabels(stored: capture.labels)
      try change(capture, &labels)
      let stored = try labels.stored
      if stored == capture.labels { return false }
      if let known, known != capture.labelsRevision {
        throw Failure(
          .preconditionFailed, "LABELS_CHANGED",
          "Somebody has changed the labels: they are of revision \(capture.labelsRevision), and were of \(known).")
      }
      let takes = CaptureLabels.takes(of: try String.fetchAll(database, sql: "SELECT id FROM take WHERE capture = ?", arguments: [id]))
      if takes.count > 1, !labels.segments.isEmpty {
        throw Failure(
          .conflict, "SEVERAL_TAKES",
          "The capture has \(takes.count) takes, and segments are in seconds of one: label those of the dataset.")
      }
      try database.execute(sql: "UPDATE capture SET labels = ?, labelsRevision = labelsRevision + 1 WHERE id = ?", arguments: [stored, id])
      return true
    }
    guard isChanged else { return }
    conversions.wake()
    context.logger.info("capture \(id) is labelled \(context.key.map { "with the key \($0.id)" } ?? "without a key")")
  }

  /// Returns a capture; one of another project is treated as missing.
  private static func capture(_ id: String, _ context: CaptureContext, _ database: Database) throws -> Capture {
    guard let capture = try Capture.fetchOne(database, key: id), context.key == nil || context.key?.project == capture.project else {
      throw Failure.captureNotFound
    }
    return capture
  }
}
