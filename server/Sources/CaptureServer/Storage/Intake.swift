import Foundation
import GRDB

/// The only way in which a capture is accepted: files durable first, then one transaction. A capture therefore has a row only if all its
/// bytes are there; files without a row are removed at the next start.
struct Intake: Sendable {
  let configuration: Configuration
  let data: DataFolder
  let store: any CaptureStore
  let database: Database
  let conversions: ConversionQueue

  /// Throws `Failure` 507 if these bytes would leave less than the reserve.
  func checkSpace(for bytes: Int64 = 0) throws {
    if data.freeBytes - max(bytes, 0) < configuration.reserve { throw Failure.insufficientStorage() }
  }

  /// Keeps a capture whose files were received into a staged folder, and queues it for conversion.
  ///
  /// - Parameter deciding: Runs in the transaction, before the capture is inserted. If it returns an earlier capture, that one is the result
  ///   and the new files are removed; if it throws, nothing is kept.
  /// - Returns: The capture as it is in the database.
  func accept(
    _ staging: Staging, files: [CaptureFile], as capture: Capture,
    deciding: @escaping @Sendable (GRDB.Database) throws -> Capture? = { _ in nil }
  ) async throws -> Capture {
    let files = files.map { CaptureFile(capture: capture.id, name: $0.name, bytes: $0.bytes, sha256: $0.sha256) }
    try await store.publish(staging.path, as: capture.id, files: files)
    do {
      let kept = try await database.pool.write { [configuration] database in
        if let earlier = try deciding(database) { return earlier }
        try Self.checkQuota(capture, configuration, database)
        try capture.insert(database)
        for file in files { try file.insert(database) }
        if capture.status == .processing {
          try Conversion(capture: capture.id, state: "waiting", attempts: 0, notBefore: 0).insert(database)
        }
        return capture
      }
      if kept.id == capture.id { conversions.wake() } else { try? await store.remove(capture.id) }
      return kept
    } catch {
      try? await store.remove(capture.id)
      throw error
    }
  }

  /// Removes files without a capture, which a killed server leaves.
  func sweep() async throws {
    let known = try await database.pool.read { try String.fetchSet($0, sql: "SELECT id FROM capture") }
    for capture in try await store.captures() where !known.contains(capture) { try await store.remove(capture) }
  }

  private static func checkQuota(_ capture: Capture, _ configuration: Configuration, _ database: GRDB.Database) throws {
    func check(_ column: String, _ value: String?, _ quota: Int64) throws {
      guard quota > 0, let value else { return }
      let sum = try Int64.fetchOne(database, sql: "SELECT SUM(bytes) FROM capture WHERE \(column) = ?", arguments: [value]) ?? 0
      if sum + capture.bytes > quota {
        throw Failure(.fullDisk, "QUOTA_EXCEEDED", "The quota of this \(column) is used up: \(sum) of \(quota) bytes")
      }
    }
    try check("device", capture.device, configuration.deviceQuota)
    try check("project", capture.project, configuration.projectQuota)
  }
}
