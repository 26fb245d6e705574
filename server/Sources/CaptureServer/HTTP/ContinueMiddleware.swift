import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTPTypes

/// Tells a client that asks before it sends a large body (`Expect: 100-continue`, RFC 9110, section 10.1.1) to go on, when a handler begins
/// to read the body. One that is refused by its head gets that answer instead, and need not send anything.
struct ContinueMiddleware: RouterMiddleware {
  func handle(
    _ request: Request, context: CaptureContext, next: (Request, CaptureContext) async throws -> Response
  ) async throws -> Response {
    guard request.headers[.expect]?.lowercased() == "100-continue" else { return try await next(request, context) }
    var request = request
    request.body = RequestBody(asyncSequence: AwaitedBody(body: request.body, channel: context.channel))
    return try await next(request, context)
  }
}

/// The body of a request whose client waits for a word.
private struct AwaitedBody: AsyncSequence, Sendable {
  let body: RequestBody
  let channel: any Channel

  struct AsyncIterator: AsyncIteratorProtocol {
    var pieces: RequestBody.AsyncIterator
    var channel: (any Channel)?

    mutating func next() async throws -> ByteBuffer? {
      if let channel {
        self.channel = nil
        channel.writeAndFlush(HTTPResponsePart.head(HTTPResponse(status: .continue)), promise: nil)
      }
      return try await pieces.next()
    }
  }

  func makeAsyncIterator() -> AsyncIterator { AsyncIterator(pieces: body.makeAsyncIterator(), channel: channel) }
}
