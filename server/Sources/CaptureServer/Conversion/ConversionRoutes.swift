import Foundation
import GRDB
import HTTPTypes
import Hummingbird

/// `POST /api/v1/captures/{id}/convert`: converts a capture once more.
struct ConversionRoutes {
  let services: Services

  /// - Parameter group: Routes that recognize keys.
  func add(to group: some RouterMethods<CaptureContext>) {
    group.post("api/v1/captures/:id/convert", use: convert)
  }

  @Sendable private func convert(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let id = try CapturesRoutes.id(context)
    let json = try await services.database.pool.write { [root = services.configuration.root(for: request)] database in
      // Of another project, it is as if it were not there.
      guard try CaptureJSON.capture(id, of: context.key?.project, root: root, database) != nil else { throw Failure.captureNotFound }
      switch try Reconversion.queue(id, database) {
      case .unknown: throw Failure.captureNotFound
      case .busy:
        throw Failure(
          .conflict, "CAPTURE_BUSY", "The capture waits for its conversion, or is being converted.", headers: [.retryAfter: "10"])
      case .withoutFiles:
        throw Failure(.conflict, "FILES_REMOVED", "The capture's files are no longer kept, so it cannot be converted again.")
      case .queued: return try CaptureJSON.capture(id, of: nil, root: root, database)
      }
    }
    guard let json else { throw Failure.captureNotFound }
    services.conversions.wake()
    context.logger.info("capture \(id) is converted again")
    var response = try CaptureJSON.response(json, Meta(context))
    response.status = .accepted
    return response
  }
}
