import Foundation
import HTTPTypes
import Hummingbird
import NIOCore

extension Request {
  /// The number in `Content-Length`; `nil` for a body in chunks.
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

  /// Receives the body as a file of a session, and compares it with the digests that the request names. The file is on the disk when it
  /// returns. Throws `Failure`: 400 for other bytes and for a body that ends too early, 413, 507.
  func receive(as name: String, in staging: Staging, _ intake: Intake) async throws -> (file: IncomingFile, sha256: String) {
    let digest = try ContentDigest(self)
    if let declaredLength, declaredLength > Tus.maxSize { throw SessionName.tooLarge }
    try intake.checkSpace(for: declaredLength ?? 0)
    let file = try staging.file(name)
    do {
      try await readBody(limit: Tus.maxSize) { block in
        try await file.append(block)
        if declaredLength == nil, file.bytes % Self.spaceStep < Int64(block.readableBytes) { try intake.checkSpace() }
      }
    } catch let cut as BodyCutOff {
      throw cut.failure
    }
    let sha256 = Hex.text(try await file.finish())
    try digest.check(sha256)
    return (file, sha256)
  }

  /// The free space is looked at again after so many bytes.
  private static let spaceStep: Int64 = 32 << 20

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
