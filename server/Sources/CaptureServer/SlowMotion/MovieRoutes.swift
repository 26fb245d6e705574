import Foundation
import GRDB
import HTTPTypes
import Hummingbird

/// Lists the movies that phones sent, and serves them: `GET /videos` and `GET /uploads/{name}`.
struct MovieRoutes {
  let services: Services

  func add(to routes: some RouterMethods<CaptureContext>) {
    routes.get("videos") { _, context in try await list(context) }
    routes.get("uploads/{name}") { request, context in try await movie(request, context) }
    routes.head("uploads/{name}") { request, context in try await movie(request, context) }
  }

  private struct List: Encodable {
    var success = true
    var videos: [Entry]
  }

  private struct Entry: Encodable {
    var filename: String
    var size: Int64
    var created: String
  }

  private struct Movie: FetchableRecord {
    var capture: Capture
    var file: CaptureFile

    init(row: Row) throws {
      capture = try Capture(row: row)
      file = CaptureFile(capture: capture.id, name: row["fileName"], bytes: row["fileBytes"], sha256: row["fileDigest"])
    }
  }

  /// A movie's own file is that of its capture which neither is our note nor came after it.
  private static let movies = """
    SELECT capture.*, file.name AS fileName, file.bytes AS fileBytes, file.sha256 AS fileDigest
    FROM capture JOIN file ON file.capture = capture.id
    WHERE capture.type = 'movie' AND file.name <> '\(MovieUpload.note)' AND file.name NOT LIKE 'part-%' AND file.name NOT LIKE '%/%'
    """

  /// Newest first; what is quarantined is no movie.
  private func list(_ context: CaptureContext) async throws -> Response {
    let project = context.key?.project
    let movies = try await services.database.pool.read { database in
      try Movie.fetchAll(
        database,
        sql: Self.movies + " AND capture.status <> 'quarantined' AND (? IS NULL OR capture.project = ?) "
          + "ORDER BY capture.receivedAt DESC, capture.rowid DESC",
        arguments: [project, project])
    }
    let entries = movies.map { Entry(filename: $0.capture.name, size: $0.file.bytes, created: Time.text($0.capture.receivedAt)) }
    return try JSONAnswer.response(List(videos: entries))
  }

  /// A movie by its listed name, which is looked up and never a path.
  private func movie(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let name = try context.parameters.require("name")
    let project = context.key?.project
    let found = try await services.database.pool.read { database in
      try Movie.fetchOne(
        database, sql: Self.movies + " AND capture.name = ? AND (? IS NULL OR capture.project = ?)", arguments: [name, project, project])
    }
    guard let found else { throw Failure(.notFound, "NOT_FOUND", "There is no such movie") }
    let isMovie = found.capture.status != .quarantined
    let file = found.file
    let tag = "\"\(file.sha256)\""
    var headers: HTTPFields = [
      .acceptRanges: "bytes", .eTag: tag, .cacheControl: "private, no-cache", .contentTypeOptions: "nosniff",
      .contentType: isMovie ? MovieName.mediaType(name) : "application/octet-stream",
      .contentDisposition: isMovie ? "inline" : "attachment",
    ]
    if let known = request.headers[.ifNoneMatch], known == "*" || known.contains(tag) {
      return Response(status: .notModified, headers: headers)
    }
    var range = ByteRange.Choice.whole
    if let wanted = request.headers[.range], request.headers[.ifRange].map({ $0 == tag }) ?? true {
      range = ByteRange.choose(wanted, of: file.bytes)
    }
    let part: Range<Int64>
    var status = HTTPResponse.Status.ok
    switch range {
    case .whole: part = 0..<file.bytes
    case .part(let wanted):
      part = wanted
      status = .partialContent
      headers[.contentRange] = "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(file.bytes)"
    case .unsatisfiable:
      throw Failure(
        .rangeNotSatisfiable, "RANGE_NOT_SATISFIABLE", "The movie has \(file.bytes) bytes",
        headers: [.contentRange: "bytes */\(file.bytes)"])
    }
    headers[.contentLength] = "\(part.count)"
    if request.method == .head { return Response(status: status, headers: headers) }
    return Response(
      status: status, headers: headers,
      body: ResponseBody(contentLength: part.count) { [store = services.store] writer in
        try await store.read(file, part) { try await writer.write($0) }
        try await writer.finish(nil)
      })
  }
}

extension HTTPField.Name {
  static let contentTypeOptions = custom("X-Content-Type-Options")
}

/// The header `Range` (RFC 9110, section 14.2).
enum ByteRange {
  enum Choice: Equatable {
    /// No range, several, or one that is not understood.
    case whole
    case part(Range<Int64>)
    case unsatisfiable
  }

  static func choose(_ header: String, of size: Int64) -> Choice {
    guard let match = header.wholeMatch(of: #/bytes=\s*([0-9]{0,18})-([0-9]{0,18})\s*/#) else { return .whole }
    switch (Int64(match.1), Int64(match.2)) {
    case (nil, nil): return .whole
    case (nil, let count?):
      guard count > 0, size > 0 else { return .unsatisfiable }
      return .part(max(0, size - count)..<size)
    case (let first?, let last):
      guard first < size else { return .unsatisfiable }
      if let last, last < first { return .whole }
      return .part(first..<min(size, (last ?? size - 1) + 1))
    }
  }
}
