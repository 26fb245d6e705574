import Foundation
import GRDB
import HTTPTypes
import Hummingbird

/// `POST /api/v1/captures/{id}/convert`: converts a capture once more.
struct ConversionRoutes {
  let configuration: Configuration
  let database: ServerDatabase
  let intake: Intake
  let conversions: ConversionQueue

  /// - Parameter group: Routes that recognize keys.
  func add(to routes: Routes) {
    routes.open(to: .key(.change)).post("api/v1/captures/:id/convert", use: convert)
  }

  @Sendable private func convert(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let id = try CapturesRoutes.id(context)
    try await CaptureDeeds(database: database, intake: intake, conversions: conversions).convert(id, context)
    let json = try await database.pool.read { [root = configuration.root(for: request)] in
      try CaptureJSON.capture(id, of: nil, root: root, $0)
    }
    guard let json else { throw Failure.captureNotFound }
    var response = try CaptureJSON.response(json, Meta(context))
    response.status = .accepted
    return response
  }
}
