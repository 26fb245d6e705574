import Foundation
import HTTPTypes
import Hummingbird
import NIOCore

extension Request {
  /// What `Content-Length` says; `nil` for a body in chunks.
  var declaredLength: Int64? { headers[.contentLength].flatMap(Tus.number) }

  /// Hands on the body as it arrives. Throws `Failure` 413 as soon as it has more than `limit` bytes, and `BodyCutOff` if the connection
  /// ends first.
  func readBody(limit: Int64, _ take: (ByteBuffer) async throws -> Void) async throws {
    if let declaredLength, declaredLength > limit { throw Self.tooLarge(limit) }
    var bytes: Int64 = 0
    var iterator = body.makeAsyncIterator()
    while true {
      let block: ByteBuffer?
      do {
        block = try await iterator.next()
      } catch {
        throw BodyCutOff(bytes: bytes)
      }
      guard let block else { break }
      bytes += Int64(block.readableBytes)
      if bytes > limit { throw Self.tooLarge(limit) }
      try await take(block)
    }
    // A connection that the server ends looks like the end of the body.
    if Task.isCancelled || declaredLength.map({ $0 != bytes }) ?? false { throw BodyCutOff(bytes: bytes) }
  }

  private static func tooLarge(_ limit: Int64) -> Failure { .tooLarge("The body has more than the \(limit) bytes that are left for it") }
}

/// The connection ended before the body did.
struct BodyCutOff: Error {
  /// Bytes that arrived.
  var bytes: Int64
  var failure: Failure {
    Failure(.badRequest, "BODY_INCOMPLETE", "The body ended too early", reason: "the body was cut off after \(bytes) bytes")
  }
}

/// Runs the closure to its end even if the connection that asked for it is gone.
func uninterrupted<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws -> Result {
  try await Task { try await body() }.value
}
