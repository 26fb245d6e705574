import Crypto
import Foundation
import GRDB
import Hummingbird
import NIOPosix

/// Uploads that arrive in pieces and survive cuts, kills and restarts.
///
/// The bytes are in `uploads/<id>`, the offset is in the database. An offset is saved after the bytes before it were fsynced, so a killed
/// server finds at least as many bytes as it acknowledged; more than that are dropped. The offset reaches the length in the very
/// transaction that makes the upload a capture: an upload that is complete is a capture.
struct Uploads: Sendable {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let intake: Intake
  private let locks = UploadLocks.shared

  private var lifetime: Int64 { Int64(configuration.uploadExpiry) * 1000 }
  private func path(_ id: String) -> String { data.uploads + "/" + id }

  // MARK: Rows

  /// Throws `Failure` 507 if the project has no room for it.
  func create(length: Int64?, metadata: String, project: String) async throws -> Upload {
    let now = Time.now()
    let upload = Upload(
      id: UUID().uuidString.lowercased(), length: length, offset: 0, metadata: metadata, project: project, createdAt: now,
      expiresAt: now + lifetime, capture: nil)
    try await database.pool.write { database in
      try Intake.checkQuota(length ?? 1, of: nil, in: project, configuration, database)
      try upload.insert(database)
    }
    return upload
  }

  /// Throws `Failure` 404 for an upload that is not there or belongs to another project, and 410 for one that expired.
  func find(_ id: String, project: String) async throws -> Upload {
    guard var upload = try await database.pool.read({ try Upload.fetchOne($0, key: id) }), upload.project == project else {
      throw Failure(.notFound, "UPLOAD_NOT_FOUND", "There is no such upload")
    }
    guard upload.expiresAt > Time.now() else { throw Failure(.gone, "UPLOAD_EXPIRED", "The upload has expired; start it again") }
    guard upload.capture == nil else { return upload }
    let bytes = try await UploadFile.size(path(id))
    guard bytes < upload.offset else { return upload }
    // It may have become a capture meanwhile, and then its file is no longer here.
    if let now = try await database.pool.read({ try Upload.fetchOne($0, key: id) }), now.capture != nil { return now }
    // A disk that lost what it had confirmed must not make us promise it.
    upload.offset = bytes
    return upload
  }

  /// Removes the upload and its bytes. A capture that it became stays.
  func remove(_ id: String, project: String) async throws {
    _ = try await find(id, project: project)
    try await locks.withLock(id) { try await discard(id) }
  }

  /// Removes an upload, unless a request has prolonged it beyond `time` meanwhile.
  private func discard(_ id: String, expiredAt time: Int64 = .max) async throws {
    let path = path(id)
    try await uninterrupted { [locks] in
      let isGone = try await database.pool.write {
        try Upload.filter(Column("id") == id && Column("expiresAt") <= time).deleteAll($0) > 0
      }
      guard isGone else { return }
      unlink(path)
      locks.keep(nil, of: id)
    }
  }

  // MARK: Bytes

  /// The body of the request that creates an upload. Nothing remains unless all of it could be kept: the client does not know the
  /// upload's address yet.
  func receiveFirst(_ request: Request, into upload: Upload, checksum: ChunkChecksum?) async throws -> Upload {
    do {
      return try await locks.withLock(upload.id) { try await receive(request, into: upload, checksum: checksum) }
    } catch {
      try? await discard(upload.id)
      throw error
    }
  }

  /// The body of a request that continues an upload at an offset.
  ///
  /// - Parameter length: The length of the whole, if only this request declares it.
  /// - Returns: The upload as it is then, in the database too.
  func append(
    _ request: Request, to id: String, project: String, at offset: Int64, length: Int64?, checksum: ChunkChecksum?
  ) async throws -> Upload {
    _ = try await find(id, project: project)
    return try await locks.withLock(id) {
      var upload = try await find(id, project: project)
      guard upload.offset == offset else {
        throw Failure(
          .conflict, "OFFSET_CONFLICT", "The upload is at \(upload.offset), not at \(offset)",
          headers: [.uploadOffset: "\(upload.offset)"])
      }
      if let length {
        guard upload.length == nil || upload.length == length else { throw Failure.invalid("the length of an upload cannot change") }
        guard length >= offset else { throw Failure.invalid("Upload-Length is less than what has arrived") }
        upload.length = length
      }
      if upload.capture != nil {
        try await request.readBody(limit: 0) { _ in }
        return upload
      }
      return try await receive(request, into: upload, checksum: checksum)
    }
  }

  /// Throws `Failure` 507 if the project has no room for an upload up to an offset, beyond what its row counts for already. That can only
  /// be where it has not announced its length.
  private static func checkQuota(
    _ upload: Upload, upTo end: Int64, _ configuration: Configuration, _ database: Database
  ) throws {
    let counted = try Upload.fetchOne(database, key: upload.id).map { $0.length ?? $0.offset } ?? 0
    let more = (upload.length ?? end) - counted
    if more > 0 { try Intake.checkQuota(more, of: nil, in: upload.project, configuration, database) }
  }

  private func checkRoom(for upload: Upload, upTo end: Int64) async throws {
    try intake.checkSpace()
    guard configuration.projectQuota > 0 else { return }
    try await database.pool.read {
      try Self.checkQuota(upload, upTo: end, configuration, $0)
    }
  }

  /// Bytes that arrived before a cut are kept, unless they have a checksum that could not be compared.
  private func receive(_ request: Request, into upload: Upload, checksum: ChunkChecksum?) async throws -> Upload {
    let room = (upload.length ?? Tus.maxSize) - upload.offset
    if let declared = request.declaredLength, declared > room { throw Failure.tooLarge("The upload has room for \(room) bytes") }
    try intake.checkSpace(for: request.declaredLength ?? 0)
    try await checkRoom(for: upload, upTo: upload.offset + (request.declaredLength ?? 0))
    let file = try await UploadFile.open(
      path(upload.id), offset: upload.offset, start: locks.start(of: upload.id), checksum: checksum)
    var (current, cut) = (upload, BodyCutOff?.none)
    do {
      do {
        try await request.readBody(limit: room) { block in
          try await file.append(block)
          guard file.isDue, file.end != upload.length else { return }
          if checksum == nil { current = try await save(file, of: current) }
          try await checkRoom(for: current, upTo: file.end)
        }
      } catch let error as BodyCutOff {
        cut = error
      } catch is CancellationError {
        // The server ends.
        cut = BodyCutOff(bytes: file.end - upload.offset)
      }
      if checksum != nil {
        if let cut { throw cut.failure }
        guard try await file.matchesChecksum() else {
          throw Failure(.checksumMismatch, "CHECKSUM_MISMATCH", "The bytes do not match Upload-Checksum; send them again")
        }
      }
      current = file.end == current.length ? try await finish(file, of: current) : try await save(file, of: current)
    } catch {
      let offset = current.offset
      try await uninterrupted { if file.end > offset { try await file.truncate(to: offset) } }
      throw error
    }
    if let cut, current.capture == nil { throw cut.failure }
    return current
  }

  /// Makes the bytes so far durable, then the offset.
  private func save(_ file: UploadFile, of upload: Upload) async throws -> Upload {
    let now = Time.now()
    let saved = try await uninterrupted { [lifetime] in
      try await file.sync()
      var saved = upload
      (saved.offset, saved.expiresAt) = (file.end, now + lifetime)
      let row = saved
      try await database.pool.write { database in
        try Self.checkQuota(row, upTo: row.offset, configuration, database)
        try row.update(database)
      }
      return saved
    }
    locks.keep(file.start, of: upload.id)
    return saved
  }

  // MARK: Captures

  /// Makes a complete upload a capture. Throws `Failure` 460 and starts the upload again if it has not the digest that it was announced
  /// with.
  private func finish(_ file: UploadFile, of upload: Upload) async throws -> Upload {
    let path = path(upload.id)
    return try await uninterrupted { [lifetime, locks] in
      try await file.sync()
      let digest = Hex.text(try await file.digest())
      let metadata = try UploadMetadata(upload.metadata)
      if let expected = metadata.sha256, expected != digest {
        var again = upload
        again.offset = 0
        let row = again
        try await database.pool.write { try row.update($0) }
        try await file.truncate(to: 0)
        throw Failure(.checksumMismatch, "CHECKSUM_MISMATCH", "The upload has not the SHA-256 it was announced with; it starts again at 0")
      }
      let received = try await ReceivedFile.inspect(path, metadata)
      let staging = try Staging(in: data)
      defer { staging.discard() }
      try await NIOThreadPool.singleton.runIfActive { try DurableFile.link(path, to: staging.path + "/" + received.name) }
      var capture = Capture(
        type: received.type, status: received.problem == nil ? .processing : .quarantined, project: upload.project,
        name: metadata.filename, bytes: file.end,
        contentDigest: received.contentDigest(sha256: digest, project: upload.project))
      capture.reason = received.problem
      var finished = upload
      (finished.offset, finished.length, finished.expiresAt) = (file.end, file.end, Time.now() + lifetime)
      let row = finished
      let kept = try await intake.accept(
        staging, files: [CaptureFile(capture: capture.id, name: received.name, bytes: file.end, sha256: digest)], as: capture
      ) { [capture] database in
        let earlier = try Capture.withContents(capture.contentDigest, in: database)
        var row = row
        row.capture = earlier?.id ?? capture.id
        try row.update(database)
        return earlier
      }
      unlink(path)
      locks.keep(nil, of: upload.id)
      finished.capture = kept.id
      return finished
    }
  }

  // MARK: Sweeping

  /// Removes expired uploads, and files without an upload, which a killed server leaves.
  func sweep() async throws {
    let (uploads, pool) = (data.uploads, database.pool)
    let found = try await NIOThreadPool.singleton.runIfActive { try FileManager.default.contentsOfDirectory(atPath: uploads) }
    let now = Time.now()
    let expired = try await pool.read {
      try String.fetchAll($0, sql: "SELECT id FROM upload WHERE expiresAt <= ?", arguments: [now])
    }
    for id in expired { try? await locks.withLock(id) { try await discard(id, expiredAt: now) } }
    try await SessionFolders(configuration: configuration, data: data, database: database, intake: intake).sweep(at: now)
    // Rows come before files, so that a file of a request under way is never taken for an orphan.
    let known = try await pool.read {
      try String.fetchSet($0, sql: "SELECT id FROM upload WHERE capture IS NULL UNION SELECT id FROM folder WHERE capture IS NULL")
    }
    for name in found where !known.contains(name) { DurableFile.removeFolder(uploads + "/" + name) }
  }
}

extension Capture {
  /// An earlier capture with the same contents.
  static func withContents(_ digest: String?, in database: Database) throws -> Capture? {
    guard let digest else { return nil }
    return try Capture.filter(Column("contentDigest") == digest).fetchOne(database)
  }
}
