import Foundation
import GRDB
import HTTPTypes
import Hummingbird

/// The small images of a capture, its preview, and its files as they were received.
struct CaptureFileRoutes {
  let data: DataFolder
  let database: ServerDatabase
  let store: any CaptureStore

  func add(to routes: Routes) {
    let reading = routes.open(to: .key(.read))
    addShown(to: reading, below: "captures/:id")
    reading.get("captures/:id/download") { _, context in try await download(context) }
    reading.get("captures/:id/files/**") { request, context in try await file(request, context) }
    reading.head("captures/:id/files/**") { request, context in try await file(request, context) }
  }

  /// Adds the routes for everybody: the contents of a capture's page whose link was given away.
  func addShared(to routes: Routes) {
    addShown(to: routes.open(to: .everybody), below: "shown/:link")
  }

  private func addShown(to routes: Routes.Group, below path: String) {
    for name in ["thumbnail.jpg", "overlay.jpg"] {
      routes.get("\(path)/\(name)") { _, context in try await shown(name, "image/jpeg", context) }
    }
    routes.get("\(path)/preview/:name") { _, context in
      let name = context.parameters.get("name") ?? ""
      guard let type = CapturePreview.type(of: name) else { throw Failure(.notFound, "NOT_FOUND", "The capture has no such file") }
      return try await shown(CapturePreview.folder + "/" + name, type, context)
    }
  }

  /// A file that the converter made.
  private func shown(_ name: String, _ type: String, _ context: CaptureContext) async throws -> Response {
    let id = try await capture(context)
    guard let body = try? await FileIO().loadFile(path: data.conversion(of: id) + "/" + name, context: context) else {
      throw Failure(.notFound, "NOT_FOUND", "The capture has no such file")
    }
    let headers: HTTPFields = [.contentType: type, .cacheControl: "private, max-age=60", .xContentTypeOptions: "nosniff"]
    return Response(status: .ok, headers: headers, body: body)
  }

  /// A received file, by the name that its row has. Whatever it is, no browser opens it.
  private func file(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let id = try await capture(context)
    let name = context.parameters.getCatchAll().map { $0.removingPercentEncoding ?? "" }.joined(separator: "/")
    let found = try await database.pool.read {
      try CaptureFile.filter(Column("capture") == id && Column("name") == name).fetchOne($0)
    }
    guard let found else { throw Failure(.notFound, "NOT_FOUND", "The capture has no such file") }
    let last = found.name.split(separator: "/").last.map(String.init) ?? ""
    return try FileAnswer(store: store, file: found, name: last, isShown: false).response(to: request)
  }

  /// All files of a capture as a tar file, in a folder of its id.
  private func download(_ context: CaptureContext) async throws -> Response {
    let id = try await capture(context)
    let files = try await database.pool.read { try CaptureFile.filter(Column("capture") == id).order(Column("name")).fetchAll($0) }
    guard !files.isEmpty else { throw Failure(.notFound, "NOT_FOUND", "The capture's files are no longer kept") }
    return TarAnswer(name: id, members: files.map { .init(name: "\(id)/\($0.name)", bytes: $0.bytes) }) {
      number, write in
      try await store.read(files[number], 0..<files[number].bytes, write)
    }.response()
  }

  /// The id of a capture that the reader may see.
  private func capture(_ context: CaptureContext) async throws -> String {
    if let link = context.parameters.get("link") {
      let found = try await database.pool.read {
        try String.fetchOne($0, sql: "SELECT id FROM capture WHERE link = ?", arguments: [link])
      }
      guard let found else { throw Failure.captureNotFound }
      return found
    }
    let (id, project) = (context.parameters.get("id")?.lowercased() ?? "", context.key?.project)
    let isKnown = try await database.pool.read { database in
      try Bool.fetchOne(
        database, sql: "SELECT EXISTS (SELECT 1 FROM capture WHERE id = ? AND (? IS NULL OR project = ?))",
        arguments: [id, project, project])
    }
    guard isKnown == true else { throw Failure.captureNotFound }
    return id
  }
}
