import Crypto
import Foundation
import GRDB
import Hummingbird
import NIOPosix

/// Sessions that arrive file by file. A file is acknowledged when it is on the disk and in the database; after a cut, a kill or a restart
/// the client asks which ones are there and sends the others. `complete` makes all of them one capture.
struct SessionFolders: Sendable {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let intake: Intake

  private var lifetime: Int64 { Int64(configuration.uploadExpiry) * 1000 }
  private func path(_ folder: String) -> String { data.uploads + "/" + folder }
  private static func missing() -> Failure { Failure(.notFound, "SESSION_NOT_FOUND", "Nothing of this session has arrived") }
  private static func otherBytes() -> Failure {
    Failure(.conflict, "NAME_TAKEN", "There are other bytes of this name")
  }

  // MARK: Files

  /// Receives a file. `isNew` is false if the same bytes were there.
  func put(_ request: Request, _ name: String, in session: String, project: String) async throws -> (FolderFile, isNew: Bool) {
    let staging = try Staging(in: data)
    defer { staging.discard() }
    let (file, sha256) = try await request.receive(as: "file", in: staging, intake)
    let bytes = file.bytes
    return try await uninterrupted {
      let folder = try await self.folder(session, project: project)
      let new = FolderFile(folder: folder.id, name: name, bytes: bytes, sha256: sha256, stored: UUID().uuidString.lowercased())
      let stored = path(folder.id) + "/" + new.stored
      try await NIOThreadPool.singleton.runIfActive { [uploads = data.uploads, path = path(folder.id)] in
        try DurableFile.makeFolder(path)
        // With a file in the database, the folder is on the disk.
        if folder.files == 0 { try DurableFile.syncFolder(uploads) }
        try DurableFile.rename(file.path, to: stored)
        try DurableFile.syncFolder(path)
      }
      do {
        let kept = try await database.pool.write { [lifetime, configuration = configuration] database in
          try Self.insert(new, session: session, project: project, expiresAt: Time.now() + lifetime, configuration, in: database)
        }
        if kept.stored != new.stored { unlink(stored) }
        return (kept, kept.stored == new.stored)
      } catch {
        unlink(stored)
        throw error
      }
    }
  }

  /// The folder's row, which is made if need be.
  private func folder(_ session: String, project: String) async throws -> FolderRecord {
    if let folder = try await database.pool.read({ try FolderRecord.find(session, project: project, in: $0) }),
      folder.capture == nil
    {
      return folder
    }
    return try await database.pool.write { [lifetime] database in
      if let folder = try FolderRecord.find(session, project: project, in: database) {
        // A capture that was deleted makes room for another of its name.
        guard let capture = folder.capture, try !Capture.exists(database, key: capture) else { return folder }
        try folder.delete(database)
      }
      let folder = FolderRecord(
        id: UUID().uuidString.lowercased(), project: project, name: session, files: 0, bytes: 0, expiresAt: Time.now() + lifetime,
        capture: nil)
      try folder.insert(database)
      return folder
    }
  }

  /// Inserts the file, or returns the one of the same name and bytes. Throws `Failure`: 409 for other bytes and for a name that is both a
  /// file and a folder, 422 for too many files, 507 for more than the project's quota.
  private static func insert(
    _ file: FolderFile, session: String, project: String, expiresAt: Int64, _ configuration: Configuration, in database: Database
  ) throws -> FolderFile {
    guard var folder = try FolderRecord.fetchOne(database, key: file.folder) else {
      throw Failure(.conflict, "SESSION_REMOVED", "The session was removed meanwhile; send the file again")
    }
    if let capture = folder.capture {
      guard let known = try CaptureFile.fetchOne(database, key: ["capture": capture, "name": "session/" + file.name]),
        known.sha256 == file.sha256
      else { throw Failure(.conflict, "SESSION_COMPLETE", "The session is complete and cannot get other files") }
      return FolderFile(folder: folder.id, name: file.name, bytes: known.bytes, sha256: known.sha256, stored: "")
    }
    if let known = try FolderFile.fetchOne(database, key: ["folder": folder.id, "name": file.name]) {
      guard known.sha256 == file.sha256 else { throw otherBytes() }
      return known
    }
    // A file cannot be a folder: neither a part of its path nor something below it.
    var parents: [String] = []
    var path = file.name[...]
    while let slash = path.lastIndex(of: "/") {
      path = path[..<slash]
      parents.append(String(path))
    }
    let collides =
      try FolderFile.filter(Column("folder") == folder.id && parents.contains(Column("name"))).fetchCount(database) > 0
      || FolderFile.filter(
        Column("folder") == folder.id && Column("name") >= file.name + "/" && Column("name") < file.name + "0"
      ).fetchCount(database) > 0
    if collides { throw Failure(.conflict, "NAME_TAKEN", "A name is both a file and a folder") }
    guard folder.files < SessionName.fileLimit else {
      throw Failure(.unprocessableContent, "TOO_MANY_FILES", "A session has at most \(SessionName.fileLimit) files")
    }
    let (bytes, overflows) = folder.bytes.addingReportingOverflow(file.bytes)
    guard !overflows, bytes <= Tus.maxSize else { throw SessionName.tooLarge }
    try Intake.checkQuota(file.bytes, of: nil, in: project, configuration, database)
    try file.insert(database)
    (folder.files, folder.bytes, folder.expiresAt) = (folder.files + 1, bytes, expiresAt)
    try folder.update(database)
    return file
  }

  // MARK: Questions

  func file(_ name: String, in session: String, project: String) async throws -> FolderFile? {
    try await database.pool.read { database in
      guard let folder = try FolderRecord.find(session, project: project, in: database) else { return nil }
      if let capture = folder.capture {
        return try CaptureFile.fetchOne(database, key: ["capture": capture, "name": "session/" + name]).map {
          FolderFile(folder: folder.id, name: name, bytes: $0.bytes, sha256: $0.sha256, stored: "")
        }
      }
      return try FolderFile.fetchOne(database, key: ["folder": folder.id, "name": name])
    }
  }

  /// The folder and, while it is incomplete, its files in the order of their names.
  func list(
    _ session: String, project: String, after name: String, limit: Int
  ) async throws -> (record: FolderRecord, files: [FolderFile]) {
    try await database.pool.read { database in
      guard let folder = try FolderRecord.find(session, project: project, in: database) else { throw Self.missing() }
      let files = FolderFile.filter(Column("folder") == folder.id && Column("name") > name).order(Column("name")).limit(limit)
      return (folder, try files.fetchAll(database))
    }
  }

  /// Removes what has arrived of an incomplete session. A capture stays.
  func remove(_ session: String, project: String) async throws {
    guard let folder = try await database.pool.read({ try FolderRecord.find(session, project: project, in: $0) }) else {
      throw Self.missing()
    }
    guard folder.capture == nil else { throw Failure(.conflict, "SESSION_COMPLETE", "The session is complete; delete its capture") }
    try await discard(folder.id)
  }

  /// Removes folders that got no file for too long.
  func sweep(at now: Int64) async throws {
    let expired = try await database.pool.read {
      try String.fetchAll($0, sql: "SELECT id FROM folder WHERE expiresAt <= ? AND capture IS NULL", arguments: [now])
    }
    for folder in expired { try await discard(folder, expiredAt: now) }
  }

  /// Removes an incomplete folder, unless a file has prolonged it beyond `time` meanwhile.
  private func discard(_ folder: String, expiredAt time: Int64 = .max) async throws {
    let path = path(folder)
    try await uninterrupted {
      let isGone = try await database.pool.write { database in
        try FolderRecord.filter(Column("id") == folder && Column("capture") == nil && Column("expiresAt") <= time).deleteAll(database) > 0
      }
      if isGone { try await NIOThreadPool.singleton.runIfActive { DurableFile.removeFolder(path) } }
    }
  }

  // MARK: Completion

  /// Makes the folder a capture. Throws `Failure`: 404 if nothing has arrived, 409 if a file is missing or another session has the name,
  /// 422 if a file is not the one that the client lists.
  func complete(_ session: String, project: String, expected: [SessionRoutes.ExpectedFile]?) async throws -> (Capture, isNew: Bool) {
    let (folder, files, capture) = try await database.pool.read { database in
      guard let folder = try FolderRecord.find(session, project: project, in: database) else { throw Self.missing() }
      guard let id = folder.capture else {
        return (folder, try FolderFile.filter(Column("folder") == folder.id).order(Column("name")).fetchAll(database), Capture?.none)
      }
      guard let capture = try Capture.fetchOne(database, key: id) else { throw Self.missing() }
      let files = try CaptureFile.filter(Column("capture") == id).order(Column("name")).fetchAll(database)
      return (
        folder,
        files.map {
          FolderFile(folder: folder.id, name: String($0.name.dropFirst("session/".count)), bytes: $0.bytes, sha256: $0.sha256, stored: "")
        }, capture
      )
    }
    if let expected { try Self.compare(files, with: expected) }
    if let capture { return (capture, false) }
    guard !files.isEmpty else { throw Self.missing() }
    return try await uninterrupted { try await accept(folder, files) }
  }

  private func accept(_ folder: FolderRecord, _ files: [FolderFile]) async throws -> (Capture, isNew: Bool) {
    let staging = try Staging(in: data)
    defer { staging.discard() }
    let source = path(folder.id)
    try await NIOThreadPool.singleton.runIfActive { try Self.link(files, from: source, to: staging.path) }
    var hasher = SHA256()
    for file in files { hasher.update(data: Data("\(file.name)\0\(file.sha256)\n".utf8)) }
    let contents = Hex.text(hasher.finalize())
    let capture = Capture(
      type: .session, project: folder.project, name: folder.name, bytes: folder.bytes,
      contentDigest: Hex.text(SHA256.hash(data: Data("folder\0\(folder.project)\0\(contents)".utf8))))
    let kept = try await intake.accept(
      staging, files: files.map { CaptureFile(capture: capture.id, name: "session/" + $0.name, bytes: $0.bytes, sha256: $0.sha256) },
      as: capture
    ) { database in
      // What arrived or went after the list was read would be lost.
      guard var now = try FolderRecord.fetchOne(database, key: folder.id), now.capture == nil, now.files == folder.files else {
        throw Failure(.conflict, "SESSION_CHANGED", "The session changed meanwhile; complete it again")
      }
      let earlier = try Self.known(capture, in: database)
      now.capture = earlier?.id ?? capture.id
      try now.update(database)
      try FolderFile.filter(Column("folder") == folder.id).deleteAll(database)
      return earlier
    }
    try await NIOThreadPool.singleton.runIfActive { DurableFile.removeFolder(source) }
    return (kept, kept.id == capture.id)
  }

  /// Gives the files their names below `session/`. All names are on the disk when it returns.
  private static func link(_ files: [FolderFile], from source: String, to staged: String) throws {
    var folders: Set<String> = []
    func make(_ folder: String) throws {
      guard folders.insert(folder).inserted else { return }
      if let slash = folder.lastIndex(of: "/") { try make(String(folder[..<slash])) }
      try DurableFile.makeFolder(staged + "/" + folder)
    }
    for file in files {
      let name = "session/" + file.name
      if let slash = name.lastIndex(of: "/") { try make(String(name[..<slash])) }
      try DurableFile.link(source + "/" + file.stored, to: staged + "/" + name)
    }
    for folder in folders { try DurableFile.syncFolder(staged + "/" + folder) }
  }

  private static func compare(_ files: [FolderFile], with expected: [SessionRoutes.ExpectedFile]) throws {
    let there = Dictionary(files.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
    var names: Set<String> = []
    for file in expected {
      guard names.insert(file.name).inserted else { throw Failure.invalid("the list has a name twice") }
    }
    let missing = names.subtracting(there.keys).count
    if missing > 0 { throw Failure(.conflict, "FILES_MISSING", "\(missing) of \(expected.count) files have not arrived") }
    if there.count > names.count {
      throw Failure(.conflict, "FILES_NOT_LISTED", "\(there.count - names.count) files have arrived that are not in the list")
    }
    let different = expected.filter { file in
      guard let there = there[file.name] else { return true }
      return file.size.map { $0 != there.bytes } ?? false || file.sha256.map { $0.lowercased() != there.sha256 } ?? false
    }
    if !different.isEmpty {
      throw Failure(.unprocessableContent, "FILES_DIFFER", "\(different.count) files have not the size or SHA-256 of the list")
    }
  }

  /// An earlier session with the same contents, if there is one. Throws `Failure` 409 for one with the same name and others.
  static func known(_ capture: Capture, in database: Database) throws -> Capture? {
    if let earlier = try Capture.withContents(capture.contentDigest, in: database) { return earlier }
    let sameName = Capture.filter(
      Column("project") == capture.project && Column("type") == CaptureType.session.rawValue && Column("name") == capture.name
        && Column("status") != CaptureStatus.quarantined.rawValue)
    if try sameName.fetchCount(database) > 0 { throw otherBytes() }
    return nil
  }
}
