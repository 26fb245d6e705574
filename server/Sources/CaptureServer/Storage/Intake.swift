import Foundation
import GRDB

/// The only way in which a capture is accepted: files durable first, then one transaction. A capture therefore has a row only if all its
/// bytes are there. Files of one that was not accepted are `Leftovers`, which are removed.
struct Intake: Sendable {
  let configuration: Configuration
  let data: DataFolder
  let store: any CaptureStore
  let database: ServerDatabase
  let leftovers: Leftovers
  let conversions: ConversionQueue

  /// Free bytes for captures: what arrives needs room in the data folder first, then in the store.
  var freeBytes: Int64 { min(data.freeBytes, store.freeBytes) }

  /// Throws `Failure` 507 if these bytes would leave less than the reserve. Strangers leave more, so that they cannot fill the disk of
  /// others.
  func checkSpace(for bytes: Int64 = 0, isStranger: Bool = false) throws {
    if freeBytes - max(bytes, 0) < configuration.reserve(isStranger: isStranger) { throw Failure.insufficientStorage() }
  }

  /// Keeps a capture whose files were received into a staged folder, and queues it for conversion. It runs to its end even if its task is
  /// cancelled, so that what is committed is answered.
  ///
  /// - Parameter deciding: Runs in the transaction, before the capture is inserted. If it returns an earlier capture, that one is the result
  ///   and the new files are removed; if it throws, nothing is kept.
  /// - Parameter checksQuota: False for what lies on this disk whether it is accepted or not.
  /// - Returns: The capture as it is in the database.
  func accept(
    _ staging: Staging, files: [CaptureFile], as capture: Capture, checksQuota: Bool = true,
    deciding: @escaping @Sendable (Database) throws -> Capture? = { _ in nil }
  ) async throws -> Capture {
    try await uninterrupted { try await keep(staging, files: files, as: capture, checksQuota: checksQuota, deciding: deciding) }
  }

  private func keep(
    _ staging: Staging, files: [CaptureFile], as capture: Capture, checksQuota: Bool,
    deciding: @escaping @Sendable (Database) throws -> Capture?
  ) async throws -> Capture {
    let files = files.map { CaptureFile(capture: capture.id, name: $0.name, bytes: $0.bytes, sha256: $0.sha256) }
    try await database.pool.write { try Leftovers.add(capture.id, isDue: false, $0) }
    do {
      try await store.publish(staging.path, as: capture.id, files: files)
      let kept = try await database.pool.write { [configuration] database in
        if let earlier = try deciding(database) { return earlier }
        if checksQuota {
          try Self.checkQuota(
            capture.bytes, of: capture.device, in: capture.project, isStranger: capture.isStranger, configuration, database)
        }
        try capture.insert(database)
        for file in files { try file.insert(database) }
        if capture.status == .processing {
          try Conversion(capture: capture.id, state: "waiting", attempts: 0, notBefore: 0).insert(database)
        }
        try Leftovers.forget(capture.id, database)
        return capture
      }
      if kept.id == capture.id { conversions.wake() } else { await leftovers.remove(capture.id) }
      return kept
    } catch {
      // Whether a commit counts whose bytes the disk did not confirm, only the next start can tell.
      if (error as? DatabaseError)?.resultCode != .SQLITE_IOERR { await leftovers.remove(capture.id) }
      throw error
    }
  }

  /// Throws `Failure` 507 if a device or a project has no room for these bytes. A project's uploads and sessions that are not complete
  /// count, too; an upload with all the bytes that it has announced. What strangers sent counts against strangers only: they fill nobody's
  /// quota.
  static func checkQuota(
    _ bytes: Int64, of device: String?, in project: String, isStranger: Bool = false, _ configuration: Configuration,
    _ database: Database
  ) throws {
    func check(_ owner: String, _ quota: Int64, _ sql: String, _ arguments: StatementArguments) throws {
      guard quota > 0 else { return }
      let sum = try Int64.fetchOne(database, sql: sql, arguments: arguments) ?? 0
      if sum > quota - bytes {
        throw Failure(.fullDisk, "QUOTA_EXCEEDED", "The quota of this \(owner) is used up: \(sum) of \(quota) bytes")
      }
    }
    if let device {
      try check(
        "device", configuration.deviceQuota, "SELECT SUM(bytes) FROM capture WHERE device = ? AND isStranger <= ?", [device, isStranger])
    }
    try check(
      "project", configuration.projectQuota,
      "SELECT SUM(bytes) FROM (\(ProjectUse.parts)) WHERE project = ?", [isStranger, project])
  }
}
