import HTTPTypes
import Hummingbird
import HummingbirdCore
import NIOCore

/// Reads what is sent no faster than its reader takes it. Writes are queued for the connection's event loop, and until that has seen them
/// the connection seems writable: a reader that takes nothing would cost as many blocks as the disk gives meanwhile.
struct PacingMiddleware: RouterMiddleware {
  /// Smaller answers are one block.
  private static let smallest = 64 << 10

  func handle(
    _ request: Request, context: CaptureContext, next: (Request, CaptureContext) async throws -> Response
  ) async throws -> Response {
    var response = try await next(request, context)
    guard response.body.contentLength ?? .max > Self.smallest else { return response }
    let body = response.body
    response.body = ResponseBody(contentLength: body.contentLength) { [loop = context.channel.eventLoop] writer in
      try await body.write(PacedWriter(writer: writer, loop: loop))
    }
    return response
  }
}

private struct PacedWriter: ResponseBodyWriter {
  var writer: any ResponseBodyWriter
  let loop: any EventLoop

  mutating func write(_ buffer: ByteBuffer) async throws {
    try await writer.write(buffer)
    // The loop has then given the block to the connection; the next one waits until that is writable.
    try await loop.submit {}.get()
  }

  consuming func finish(_ trailingHeaders: HTTPFields?) async throws { try await writer.finish(trailingHeaders) }
}
