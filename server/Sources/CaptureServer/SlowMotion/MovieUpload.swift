import Connections
import Foundation
import GRDB
import Hummingbird
import Logging
import NIOCore

/// `POST /upload`: a movie of a slow-motion phone.
///
/// The phone takes any answer, whatever its status, for a success and then deletes its movie. So an odd upload is kept and quarantined; and
/// when its bytes cannot be kept there is no answer at all, and the phone keeps its movie.
struct MovieUpload {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let intake: Intake
  let logger: Logger

  @Sendable func respond(_ request: Request, _ context: CaptureContext) async throws -> Response {
    do {
      let key = SentKey.of(request.uri, authorization: request.headers[.authorization])
      let access = try await SlowMotionKey(configuration: configuration, database: database).access(key, isForwarded: request.isForwarded)
      guard case .granted(let found) = access else { throw KeyMiddleware.refusal("An API key is needed") }
      try context.admit(found, to: .upload)
      return try await receive(request, found?.project ?? "default")
    } catch {
      // Nobody else learns of it: the phone gets no answer, and keeps its movie.
      if let failure = error as? Failure {
        let address = ClientAddress.of(request, context, trusting: configuration.trustedProxies)?.ipAddress ?? "?"
        logger.warning("a movie from \(address) is refused: \(failure.message)")
      }
      throw await context.drop(because: error)
    }
  }

  private struct Success: Encodable {
    var success = true
    var filename: String
    var size: Int64
    var path: String
    /// SHA-256 of the movie as it is stored, so that a camera knows that its own may go.
    var sha256: String
  }

  private struct Refusal: Encodable {
    var success = false
    var error: String
  }

  /// The fields that came with the movie, for later readers.
  private struct Received: Encodable {
    var receivedAt: String
    var contentType: String?
    var files: [String?]
    var fields: [String: String]
    var problem: String?
  }

  private func receive(_ request: Request, _ project: String) async throws -> Response {
    let length = request.headers[.contentLength].flatMap { Int64($0) }
    if let length, length > Self.limit { throw Self.tooLarge }
    try intake.checkSpace(for: length ?? 0)
    let receivedAt = Time.now()
    let staging = try Staging(in: data)
    defer { staging.discard() }

    let form = MovieForm(staging, contentType: request.headers[.contentType])
    var (received, nextCheck): (Int64, Int64) = (0, Self.spaceStep)
    for try await piece in request.body {
      received += Int64(piece.readableBytes)
      guard received <= Self.limit else { throw Self.tooLarge }
      // A body in chunks does not say how long it is, and others write meanwhile.
      if received >= nextCheck {
        nextCheck = received + Self.spaceStep
        try intake.checkSpace()
      }
      try await form.append(piece)
    }
    if let length, received != length {
      throw Failure(.badRequest, "VALIDATION_ERROR", "The body is not complete", reason: "\(received) of \(length) bytes arrived")
    }
    try await form.finish()
    guard let movie = form.files.first else {
      return try JSONAnswer.response(Refusal(error: "No file uploaded"), status: .badRequest)
    }
    // The app sends such a form when it cannot read its movie, which would be lost with any answer.
    if form.files.allSatisfy({ $0.stored.bytes == 0 }) {
      throw Failure(.badRequest, "VALIDATION_ERROR", "The file is empty", reason: "the phone could not read its movie, and keeps it")
    }
    try intake.checkSpace()

    var files = form.files.map(\.stored)
    let problem = Self.problem(movie, form)
    let note = Received(
      receivedAt: Time.text(receivedAt), contentType: request.headers[.contentType], files: form.files.map(\.clientName),
      fields: form.fields, problem: problem)
    files.append(try await staging.write(Array(JSONAnswer.data(note)), as: Self.note))

    // The same files are the same movie, which a phone may send again after its connection failed.
    let digests = form.files.map(\.stored.sha256).joined(separator: "+")
    let digest = problem == nil ? "movie:\(project):\(digests)" : nil
    var capture = Capture(
      type: .movie, status: problem == nil ? .processing : .quarantined, project: project, name: "", receivedAt: receivedAt,
      bytes: files.reduce(0) { $0 + $1.bytes }, contentDigest: digest)
    capture.name = MovieName.listed(movie.stored.name, capture)
    capture.reason = problem
    let kept = try await intake.accept(staging, files: files, as: capture) { database in
      guard let digest else { return nil }
      return try Capture.filter(Column("contentDigest") == digest).fetchOne(database)
    }
    return try JSONAnswer.response(
      Success(filename: kept.name, size: movie.stored.bytes, path: "/uploads/" + kept.name, sha256: movie.stored.sha256))
  }

  static let note = "received.json"
  /// The limit in bytes, that of an upload in pieces.
  private static let limit = Tus.maxSize
  private static let tooLarge = Failure.tooLarge("A movie has at most \(limit) bytes")
  /// The free space is looked at again after so many bytes.
  private static let spaceStep: Int64 = 8 << 20

  /// Returns the reason why no reader is known for it; `nil` for a movie.
  private static func problem(_ movie: MovieForm.File, _ form: MovieForm) -> String? {
    if let problem = form.problem { return "The upload is odd: \(problem)" }
    return MovieName.startsMovie(movie.start) ? nil : "The file is neither a QuickTime nor an MP4 movie"
  }
}
