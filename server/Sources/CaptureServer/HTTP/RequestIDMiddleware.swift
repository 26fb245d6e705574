import Foundation
import GRDB
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOHTTP1

/// Gives each request its id, echoes it, and logs with it failures, changes and who was refused.
struct RequestIDMiddleware: RouterMiddleware {
  let configuration: Configuration

  func handle(
    _ request: Request, context: CaptureContext, next: (Request, CaptureContext) async throws -> Response
  ) async throws -> Response {
    var context = context
    if let sent = request.headers[.requestID], let id = UUID(uuidString: sent) { context.requestID = id.uuidString.lowercased() }
    context.logger[metadataKey: "request"] = "\(context.requestID)"
    var response: Response
    do {
      response = try await next(request, context)
    } catch let error as any HTTPResponseError where !(error is Failure) {
      response = try error.response(from: request, context: context)
    } catch {
      let failure = Self.failure(error)
      let reason = failure.reason ?? failure.message
      context.logger.log(level: Self.level(of: failure, error), "\(failure.status.code) \(failure.code): \(reason)")
      response = try failure.response(from: request, context: context)
    }
    context.note(request, response.status, configuration)
    response.headers[.requestID] = context.requestID
    if configuration.tlsCertificate != nil, !configuration.isLoopback { response.headers[.strictTransportSecurity] = "max-age=31536000" }
    // An error's body after HEAD would be taken for the next answer.
    return request.method == .head ? response.createHeadResponse() : response
  }

  /// The answer to an error.
  private static func failure(_ error: any Error) -> Failure {
    switch error {
    case let failure as Failure: return failure
    case let error as DatabaseError where error.isFullDisk:
      var failure = Failure.insufficientStorage()
      failure.reason = "\(error)"
      return failure
    case is HTTPParserError, is ChannelError, is IOError, is CancellationError:
      return Failure(.badRequest, "BODY_INCOMPLETE", "The body ended too early", reason: "the client has gone: \(error)")
    default:
      return Failure(
        .internalServerError, "INTERNAL_ERROR", "Something went wrong here. Try again later.", reason: "\(error)")
    }
  }

  /// A client that goes away is not logged as an error; only failures of the server are.
  private static func level(of failure: Failure, _ error: any Error) -> Logger.Level {
    if failure.code == "BODY_INCOMPLETE" { return .debug }
    return error is Failure || failure.status == .fullDisk ? .info : .error
  }
}

extension DatabaseError {
  /// Whether the database found no room: for its file, its log, or the index of its log.
  var isFullDisk: Bool { resultCode == .SQLITE_FULL || extendedResultCode == .SQLITE_IOERR_SHMSIZE }
}
