import Foundation
import HTTPTypes
import Hummingbird

/// Resumable uploads by tus 1.0 below `/files`.
struct TusRoutes {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let intake: Intake
  private var uploads: Uploads { Uploads(configuration: configuration, data: data, database: database, intake: intake) }

  func add(to routes: Routes) {
    let files = routes.open(to: .key(.upload))
    for method in [HTTPRequest.Method.options, .post, .head, .get, .put, .patch, .delete] {
      for path in ["files", "files/{upload}"] as [RouterPath] {
        files.on(path, method: method) { request, context in try await answer(request, context) }
      }
    }
  }

  private func answer(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let upload = context.parameters.get("upload")
    // For clients that can send no other method.
    let method = request.headers[.methodOverride].flatMap { HTTPRequest.Method($0.uppercased()) } ?? request.method
    do {
      var response = try await respond(to: method, request, upload, context)
      response.headers[.tusResumable] = Tus.version
      return response
    } catch var failure as Failure {
      failure.headers[.tusResumable] = Tus.version
      throw failure
    }
  }

  private func respond(
    to method: HTTPRequest.Method, _ request: Request, _ upload: String?, _ context: CaptureContext
  ) async throws -> Response {
    if method == .options { return options }
    if request.headers[.tusResumable] != Tus.version, [.post, .head, .patch, .delete].contains(method) {
      throw Failure(
        .preconditionFailed, "TUS_VERSION", "Tus-Resumable must be \(Tus.version)", headers: [.tusVersion: Tus.version])
    }
    switch (method, upload) {
    case (.post, nil): return try await create(request, context)
    case (.head, let upload?): return try await status(of: upload, context)
    case (.patch, let upload?): return try await append(request, to: upload, context)
    case (.delete, let upload?):
      try await uploads.remove(upload, project: context.project)
      return Response(status: .noContent)
    default:
      throw Failure(.methodNotAllowed, "METHOD_NOT_ALLOWED", "The method is not for this address", headers: [.allow: Tus.methods])
    }
  }

  private var options: Response {
    Response(
      status: .noContent,
      headers: [
        .tusVersion: Tus.version, .tusExtension: Tus.extensions, .tusMaxSize: "\(Tus.maxSize)",
        .tusChecksumAlgorithm: ChunkChecksum.algorithms, .allow: Tus.methods,
      ])
  }

  // MARK: Creation

  private func create(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let length = try declaredLength(request)
    if let text = request.headers[.uploadDeferLength] {
      guard text == "1", length == nil else { throw Failure.invalid("Upload-Defer-Length is 1, and then there is no Upload-Length") }
    } else if length == nil {
      throw Failure.invalid("Upload-Length is missing")
    }
    let metadata = request.headers[.uploadMetadata] ?? ""
    _ = try UploadMetadata(metadata)
    let carriesBytes = request.headers[.contentType].map(isChunk) ?? false
    let checksum = try carriesBytes ? checksum(request) : nil
    if carriesBytes, let length, let declared = request.declaredLength, declared > length {
      throw Failure.tooLarge("The upload has room for \(length) bytes")
    }
    try intake.checkSpace(for: length ?? 0)
    var upload = try await uploads.create(length: length, metadata: metadata, project: context.project)
    if carriesBytes || length == 0 { upload = try await uploads.receiveFirst(request, into: upload, checksum: checksum) }
    var headers = headers(of: upload)
    headers[.location] = (configuration.baseURL ?? "") + "/files/" + upload.id
    if !carriesBytes { headers[.uploadOffset] = nil }
    return Response(status: .created, headers: headers)
  }

  // MARK: The other requests

  private func status(of id: String, _ context: CaptureContext) async throws -> Response {
    let upload = try await uploads.find(id, project: context.project)
    var headers = headers(of: upload)
    headers[.cacheControl] = "no-store"
    if let length = upload.length { headers[.uploadLength] = "\(length)" } else { headers[.uploadDeferLength] = "1" }
    if !upload.metadata.isEmpty { headers[.uploadMetadata] = upload.metadata }
    return Response(status: .ok, headers: headers)
  }

  private func append(_ request: Request, to id: String, _ context: CaptureContext) async throws -> Response {
    guard request.headers[.contentType].map(isChunk) ?? false else {
      throw Failure(.unsupportedMediaType, "MEDIA_TYPE", "Content-Type must be \(Tus.mediaType)")
    }
    guard let offset = request.headers[.uploadOffset].flatMap(Tus.number) else {
      throw Failure.invalid("Upload-Offset is missing or no number")
    }
    let upload = try await uploads.append(
      request, to: id, project: context.project, at: offset, length: try declaredLength(request), checksum: try checksum(request))
    return Response(status: .noContent, headers: headers(of: upload))
  }

  // MARK: Headers

  private func headers(of upload: Upload) -> HTTPFields {
    var headers: HTTPFields = [.uploadOffset: "\(upload.offset)"]
    if let capture = upload.capture { headers[.captureID] = capture } else { headers[.uploadExpires] = Tus.date(upload.expiresAt) }
    return headers
  }

  /// `Upload-Length`. Throws `Failure` 400 for what is no number, and 413 for more than is accepted.
  private func declaredLength(_ request: Request) throws -> Int64? {
    guard let text = request.headers[.uploadLength] else { return nil }
    guard let length = Tus.number(text) else { throw Failure.invalid("Upload-Length is no number") }
    guard length <= Tus.maxSize else { throw Failure.tooLarge("An upload has at most \(Tus.maxSize) bytes") }
    return length
  }

  private func checksum(_ request: Request) throws -> ChunkChecksum? { try request.headers[.uploadChecksum].map(ChunkChecksum.init) }

  private func isChunk(_ contentType: String) -> Bool {
    contentType.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces).lowercased() == Tus.mediaType
  }
}
