import Foundation
import HTTPTypes
import Hummingbird
import NIOCore

/// What is known of a request besides the request itself.
struct CaptureContext: RequestContext {
  var coreContext: CoreRequestContextStorage
  /// The connection, to be closed where an answer would make a phone delete what could not be stored.
  let channel: any Channel
  /// A UUID: the one the client sent, or a new one.
  var requestID = UUID().uuidString.lowercased()
  /// The API key that the request came with.
  var key: APIKey?

  init(source: ApplicationRequestContextSource) {
    coreContext = CoreRequestContextStorage(source: source)
    channel = source.channel
  }

  /// The client's address without its port.
  var address: String { channel.remoteAddress?.ipAddress ?? "local" }
  /// The project that captures of this request belong to.
  var project: String { key?.project ?? "default" }
}

typealias CaptureRouter = Router<CaptureContext>

extension HTTPField.Name {
  static func custom(_ name: String) -> HTTPField.Name {
    guard let name = HTTPField.Name(name) else { preconditionFailure("\(name) is no name of a header") }
    return name
  }
  static let requestID = custom("X-Request-Id")
  static let deviceID = custom("X-Device-Id")
  static let deviceTimestamp = custom("X-Device-Timestamp")
  static let deviceSignature = custom("X-Device-Signature")
  static let idempotencyKey = custom("Idempotency-Key")
}

/// Gives each request its id, echoes it, and logs failures with it.
struct RequestIDMiddleware: RouterMiddleware {
  func handle(
    _ request: Request, context: CaptureContext, next: (Request, CaptureContext) async throws -> Response
  ) async throws -> Response {
    var context = context
    if let sent = request.headers[.requestID], let id = UUID(uuidString: sent) { context.requestID = id.uuidString.lowercased() }
    context.logger[metadataKey: "request"] = "\(context.requestID)"
    var response: Response
    do {
      response = try await next(request, context)
    } catch let failure as Failure {
      context.logger.info("\(failure.status.code) \(failure.code): \(failure.reason ?? failure.message)")
      response = try failure.response(from: request, context: context)
    } catch let error as any HTTPResponseError {
      response = try error.response(from: request, context: context)
    } catch {
      context.logger.error("\(error)")
      response = try Failure(.internalServerError, "INTERNAL_ERROR", "Something went wrong here. Try again later.")
        .response(from: request, context: context)
    }
    response.headers[.requestID] = context.requestID
    // An error's body after HEAD would be taken for the next answer.
    return request.method == .head ? response.createHeadResponse() : response
  }
}
