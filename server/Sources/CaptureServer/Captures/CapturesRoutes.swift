import Foundation
import GRDB
import HTTPTypes
import Hummingbird

/// `/api/v1/captures`: what was received, of all kinds. A key sees only its project.
struct CapturesRoutes {
  let configuration: Configuration
  let database: ServerDatabase
  let intake: Intake
  let conversions: ConversionQueue

  private var deeds: CaptureDeeds { CaptureDeeds(database: database, intake: intake, conversions: conversions) }

  /// - Parameter group: Routes that recognize keys.
  func add(to routes: Routes) {
    let path: RouterPath = "api/v1/captures"
    routes.open(to: .key(.read)).group(path).get(use: list).get(":id", use: show)
    routes.open(to: .key(.ask)).group(path).head(":id", use: show)
    routes.open(to: .key(.change)).group(path).delete(":id", use: delete).post(":id/link", use: share).delete(":id/link", use: unshare)
      .put(":id/labels", use: label)
  }

  private struct ListMeta: Encodable {
    var next: String?
    var request_id: String
    var timestamp: String

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      // A page without a next one says so.
      try container.encode(next, forKey: .next)
      try container.encode(request_id, forKey: .request_id)
      try container.encode(timestamp, forKey: .timestamp)
    }

    private enum CodingKeys: CodingKey { case next, request_id, timestamp }
  }

  @Sendable private func list(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let query = request.uri.queryParameters
    let listing = try CaptureListing(project: context.key?.project, most: 10_000) { name in query[name[...]].map(String.init) }
    let page = try await database.pool.read { [root = configuration.root(for: request)] in
      try CaptureJSON.page(listing, root: root, $0)
    }
    let meta = Meta(context)
    return try CaptureJSON.response(
      page.json, ListMeta(next: page.next?.text, request_id: meta.request_id, timestamp: meta.timestamp))
  }

  @Sendable private func show(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let id = try Self.id(context)
    let json = try await database.pool.read { [root = configuration.root(for: request)] in
      try CaptureJSON.capture(id, of: context.key?.project, root: root, $0)
    }
    guard let json else { throw Failure.captureNotFound }
    return try CaptureJSON.response(json, Meta(context))
  }

  @Sendable private func delete(_ request: Request, _ context: CaptureContext) async throws -> Response {
    try await deeds.delete(Self.id(context), context)
    return Response(status: .noContent)
  }

  private struct Link: Encodable { var url: String }

  @Sendable private func share(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let root = configuration.root(for: request)
    let url = try await deeds.share(
      Self.id(context), context, root: root)
    return try JSONAnswer.response(Answer(Link(url: url), context))
  }

  @Sendable private func unshare(_ request: Request, _ context: CaptureContext) async throws -> Response {
    try await deeds.unshare(Self.id(context), context)
    return Response(status: .noContent)
  }

  @Sendable private func label(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let body = try await request.body.collect(upTo: CaptureLabels.limit)
    let labels = try CaptureLabels(body: body.readableBytesView)
    // Any labels match an asterisk.
    let known = try request.headers[.ifMatch].flatMap { text -> Int64? in
      if text == "*" { return nil }
      guard let digits = text.wholeMatch(of: /"?([0-9]+)"?/)?.1, let number = Int64(digits) else {
        throw Failure.invalid("If-Match must be the labels_revision of the capture, such as \"3\"")
      }
      return number
    }
    try await deeds.label(Self.id(context), context, known: known) { _, stored in stored = labels }
    return try await show(request, context)
  }

  /// The capture that a request's path names. Throws 404.
  static func id(_ context: CaptureContext) throws -> String {
    guard let id = context.parameters.get("id"), UUID(uuidString: id) != nil else { throw Failure.captureNotFound }
    return id.lowercased()
  }
}
