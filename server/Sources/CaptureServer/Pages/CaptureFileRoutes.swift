import Foundation
import GRDB
import HTTPTypes
import Hummingbird

/// The small images of a capture, its preview, and its files as they were received.
struct CaptureFileRoutes {
  let services: Services

  func add(to routes: some RouterMethods<CaptureContext>) {
    for name in ["thumbnail.jpg", "overlay.jpg"] {
      routes.get("captures/:id/\(name)") { _, context in try await shown(name, "image/jpeg", context) }
    }
    routes.get("captures/:id/preview/:name") { _, context in
      let name = context.parameters.get("name") ?? ""
      guard let type = CapturePreview.type(of: name) else { throw Failure(.notFound, "NOT_FOUND", "The capture has no such file") }
      return try await shown(CapturePreview.folder + "/" + name, type, context)
    }
    routes.get("captures/:id/files/**") { request, context in try await file(request, context) }
    routes.head("captures/:id/files/**") { request, context in try await file(request, context) }
  }

  /// A file that the converter made.
  private func shown(_ name: String, _ type: String, _ context: CaptureContext) async throws -> Response {
    let id = try await capture(context)
    guard let body = try? await FileIO().loadFile(path: services.data.conversion(of: id) + "/" + name, context: context) else {
      throw Failure(.notFound, "NOT_FOUND", "The capture has no such file")
    }
    let headers: HTTPFields = [.contentType: type, .cacheControl: "private, max-age=60", .xContentTypeOptions: "nosniff"]
    return Response(status: .ok, headers: headers, body: body)
  }

  /// A received file, by the name that its row has. Whatever it is, no browser opens it.
  private func file(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let id = try await capture(context)
    let name = context.parameters.getCatchAll().map { $0.removingPercentEncoding ?? "" }.joined(separator: "/")
    let found = try await services.database.pool.read {
      try CaptureFile.filter(Column("capture") == id && Column("name") == name).fetchOne($0)
    }
    guard let found else { throw Failure(.notFound, "NOT_FOUND", "The capture has no such file") }
    let last = found.name.split(separator: "/").last.map(String.init) ?? ""
    return try FileAnswer(store: services.store, file: found, name: last, isShown: false).response(to: request)
  }

  /// The id of a capture that the reader may see.
  private func capture(_ context: CaptureContext) async throws -> String {
    let (id, project) = (context.parameters.get("id")?.lowercased() ?? "", context.key?.project)
    let isKnown = try await services.database.pool.read { database in
      try Bool.fetchOne(
        database, sql: "SELECT EXISTS (SELECT 1 FROM capture WHERE id = ? AND (? IS NULL OR project = ?))",
        arguments: [id, project, project])
    }
    guard isKnown == true else { throw Failure.captureNotFound }
    return id
  }
}
