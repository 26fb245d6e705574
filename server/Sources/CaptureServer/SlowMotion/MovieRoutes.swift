import GRDB
import Hummingbird

/// Lists the movies that phones sent, and serves them: `GET /videos` and `GET /uploads/{name}`.
struct MovieRoutes {
  let database: ServerDatabase
  let store: any CaptureStore

  func add(to routes: Routes) {
    let reading = routes.open(to: .address(.read))
    reading.get("videos") { request, context in try await list(request, context) }
    reading.get("uploads/{name}") { request, context in try await movie(request, context) }
    reading.head("uploads/{name}") { request, context in try await movie(request, context) }
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

    var name: String { MovieName.listed(file.name, capture) }
  }

  /// A movie's own file is that of its capture which neither is our note nor came after it.
  private static let movies = """
    SELECT capture.*, file.name AS fileName, file.bytes AS fileBytes, file.sha256 AS fileDigest
    FROM capture JOIN file ON file.capture = capture.id
    WHERE capture.type = 'movie' AND file.name <> '\(MovieUpload.note)' AND file.name NOT LIKE 'part-%' AND file.name NOT LIKE '%/%'
    """

  /// Newest first, all or at most `?limit=`; what is quarantined is no movie.
  private func list(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let project = context.key?.project
    let limit = request.uri.queryParameters["limit"].flatMap { Int64($0) }.map { max($0, 0) } ?? -1
    let movies = try await database.pool.read { database in
      try Movie.fetchAll(
        database,
        sql: Self.movies + " AND capture.status <> 'quarantined' AND (? IS NULL OR capture.project = ?) "
          + "ORDER BY capture.receivedAt DESC, capture.rowid DESC LIMIT ?",
        arguments: [project, project, limit])
    }
    let entries = movies.map { Entry(filename: $0.name, size: $0.file.bytes, created: Time.text($0.capture.receivedAt)) }
    return try JSONAnswer.response(List(videos: entries))
  }

  /// A movie by its listed name, which is looked up and never a path.
  private func movie(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let name = try context.parameters.require("name")
    let project = context.key?.project
    let found = try await database.pool.read { database -> Movie? in
      guard let start = MovieName.captureID(name) else { return nil }
      return try Movie.fetchAll(
        database, sql: Self.movies + " AND capture.id BETWEEN ? AND ? AND (? IS NULL OR capture.project = ?)",
        arguments: [start, start + "g", project, project]
      ).first { $0.name == name }
    }
    guard let found else { throw Failure(.notFound, "NOT_FOUND", "There is no such movie") }
    return try FileAnswer(
      store: store, file: found.file, name: name, isShown: found.capture.status != .quarantined && MediaType.isMovie(name)
    ).response(to: request)
  }
}
