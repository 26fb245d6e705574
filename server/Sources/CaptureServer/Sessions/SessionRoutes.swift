import Crypto
import Foundation
import GRDB
import HTTPTypes
import Hummingbird

/// Sessions as archives, `PUT /api/v1/sessions/NAME.zip`, and as folders, file by file.
struct SessionRoutes {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let intake: Intake
  private var folders: SessionFolders { SessionFolders(configuration: configuration, data: data, database: database, intake: intake) }
  private static let prefix: RouterPath = "api/v1/sessions"

  func add(to routes: Routes) {
    let sessions = routes.open(to: .key(.upload)).group(Self.prefix)
    sessions.put("{session}") { request, context in try await putArchive(request, context) }
    sessions.get("{session}") { request, context in try await list(request, context) }
    sessions.delete("{session}") { request, context in try await remove(request, context) }
    sessions.put("{session}/files/**") { request, context in try await putFile(request, context) }
    sessions.head("{session}/files/**") { request, context in try await statusOfFile(request, context) }
    sessions.post("{session}/complete") { request, context in try await complete(request, context) }
  }

  // MARK: Archives

  private func putArchive(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let name = try session(request)
    guard let ending = name.split(separator: ".").last?.lowercased(), ["zip", "tar"].contains(ending), name.count > 4 else {
      throw Failure(.notFound, "NOT_FOUND", "A session is sent as NAME.zip, as NAME.tar, or as NAME/files/PATH")
    }
    let staging = try Staging(in: data)
    defer { staging.discard() }
    let (file, sha256) = try await request.receive(as: "session.\(ending)", in: staging, intake)
    var metadata = try UploadMetadata("")
    metadata.kind = .session
    let received = try await ReceivedFile.inspect(file.path, metadata)
    guard received.problem == nil, received.name == "session.\(ending)" else {
      throw Failure(
        .unprocessableContent, "ARCHIVE_REFUSED", "The archive is refused: \(received.problem ?? "it is not a \(ending)")")
    }
    let capture = Capture(
      type: .session, project: context.project, name: name, bytes: file.bytes,
      contentDigest: received.contentDigest(sha256: sha256, project: context.project))
    let kept = try await uninterrupted {
      try await intake.accept(
        staging, files: [CaptureFile(capture: capture.id, name: received.name, bytes: capture.bytes, sha256: sha256)], as: capture
      ) { try SessionFolders.known(capture, in: $0) }
    }
    return try answer(kept, isNew: kept.id == capture.id, request, context)
  }

  // MARK: Folders

  private func putFile(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let (session, file) = try names(request)
    let (stored, isNew) = try await folders.put(request, file, in: session, project: context.project)
    return try JSONAnswer.response(Answer(File(stored), context), status: isNew ? .created : .ok, headers: [.contentSHA256: stored.sha256])
  }

  private func statusOfFile(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let (session, name) = try names(request)
    guard let file = try await folders.file(name, in: session, project: context.project) else {
      throw Failure(.notFound, "FILE_NOT_FOUND", "The file has not arrived")
    }
    // `Content-Length` would be that of the file, which cannot be fetched here.
    return Response(status: .noContent, headers: [.contentSHA256: file.sha256, .cacheControl: "no-store"])
  }

  private func list(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let limit = request.uri.queryParameters.get("limit", as: Int.self) ?? 1000
    guard (1...10_000).contains(limit) else { throw Failure.invalid("limit is not from 1 to 10000") }
    let cursor = request.uri.queryParameters.get("cursor") ?? ""
    let folder = try await folders.list(try session(request), project: context.project, after: cursor, limit: limit)
    struct Contents: Encodable { var name: String, files: [File], bytes: Int64, count: Int64, capture_id: String? }
    struct Page: Encodable {
      struct Meta: Encodable { var next: String?, request_id: String, timestamp: String }
      var data: Contents
      var meta: Meta
    }
    let meta = Meta(context)
    let record = folder.record
    return try JSONAnswer.response(
      Page(
        data: Contents(
          name: record.name, files: folder.files.map(File.init), bytes: record.bytes, count: record.files, capture_id: record.capture),
        meta: .init(
          next: folder.files.count == limit ? folder.files.last?.name : nil, request_id: meta.request_id, timestamp: meta.timestamp)))
  }

  private func remove(_ request: Request, _ context: CaptureContext) async throws -> Response {
    try await folders.remove(try session(request), project: context.project)
    return Response(status: .noContent)
  }

  private func complete(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let session = try session(request)
    var body: [UInt8] = []
    do {
      try await request.readBody(limit: 32 << 20) { body.append(contentsOf: $0.readableBytesView) }
    } catch let cut as BodyCutOff {
      throw cut.failure
    }
    var expected: [ExpectedFile]?
    if !body.isEmpty {
      do {
        expected = try JSONDecoder().decode([ExpectedFile].self, from: Data(body))
      } catch {
        throw Failure.invalid("the list is not JSON such as [{\"name\":\"metadata.json\",\"size\":123,\"sha256\":\"…\"}]")
      }
    }
    let (capture, isNew) = try await folders.complete(session, project: context.project, expected: expected)
    return try answer(capture, isNew: isNew, request, context)
  }

  /// A file that the client says it sent.
  struct ExpectedFile: Decodable, Sendable {
    var name: String
    var size: Int64?
    var sha256: String?
  }

  private struct File: Encodable {
    var name: String
    var bytes: Int64
    var sha256: String

    init(_ file: FolderFile) { (name, bytes, sha256) = (file.name, file.bytes, file.sha256) }
  }

  // MARK: Answers

  private func session(_ request: Request) throws -> String {
    try SessionName.session(try SessionName.parts(of: request.uri.path, after: 3).first ?? "")
  }

  private func names(_ request: Request) throws -> (session: String, file: String) {
    (try session(request), try SessionName.file(try SessionName.parts(of: request.uri.path, after: 5)))
  }

  private func answer(_ capture: Capture, isNew: Bool, _ request: Request, _ context: CaptureContext) throws -> Response {
    struct Contents: Encodable { var capture_id, type, status, name, received_at, verification_url: String, bytes: Int64 }
    return try JSONAnswer.response(
      Answer(
        Contents(
          capture_id: capture.id, type: capture.type.rawValue, status: capture.status.rawValue, name: capture.name,
          received_at: Time.text(capture.receivedAt),
          verification_url: "\(configuration.root(for: request))/verify/\(capture.id)", bytes: capture.bytes), context),
      status: isNew ? .created : .ok,
      headers: [.captureID: capture.id, .location: "\(configuration.baseURL ?? "")/api/v1/captures/\(capture.id)"])
  }
}
