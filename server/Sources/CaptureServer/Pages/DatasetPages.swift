import Foundation
import GRDB
import HTTPTypes
import Hummingbird
import Model
import NIOPosix

/// `/datasets`, and the report about each.
struct DatasetPages {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let page: Page
  let reports: DatasetReports

  func add(to routes: Routes) {
    let reading = routes.open(to: .key(.read))
    reading.get("datasets") { request, context in try await list(request, context) }
    reading.get("datasets/:name/report") { _, context in try await report(context) }
    reading.get("datasets/:name/download") { _, context in try await download(context) }
  }

  private struct Dataset: FetchableRecord, Decodable {
    var name: String
    var project: String
    var captures: Int64
    var takes: Int64
    var rows: Int64
  }

  private func datasets(_ context: CaptureContext, named name: String? = nil) async throws -> [Dataset] {
    let project = context.key?.project
    return try await database.pool.read { database in
      try Dataset.fetchAll(
        database,
        sql: """
          SELECT dataset AS name, project, COUNT(*) AS captures, COALESCE(SUM(rows), 0) AS rows,
            SUM((SELECT COUNT(*) FROM take WHERE take.capture = capture.id)) AS takes
          FROM merged JOIN capture ON capture.id = merged.capture
          WHERE (? IS NULL OR dataset = ?) AND (? IS NULL OR project = ?) GROUP BY dataset, project ORDER BY dataset
          """, arguments: [name, name, project, project])
    }
  }

  private struct Row {
    var name: String
    var href: String
    var download: String
    var project: String
    var address: String
    var captures: String
    var takes: String
    var rows: String
    var size: String
    var written: String
  }
  private struct Datasets {
    var isEmpty: Bool
    var sendOptions: String
    var datasets: [Row]
  }

  private func list(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let found = try await datasets(context)
    let rows = try await NIOThreadPool.singleton.runIfActive {
      found.compactMap { dataset -> Row? in
        guard let folder = try? data.dataset(dataset.name), let stamp = FileStamp(of: folder + "/manifest.json") else { return nil }
        return Row(
          name: dataset.name, href: "/datasets/\(Figure.address(dataset.name))/report",
          download: "/datasets/\(Figure.address(dataset.name))/download", project: dataset.project,
          address: Figure.escaped(dataset.name), captures: dataset.captures.grouped, takes: dataset.takes.grouped,
          rows: dataset.rows.grouped, size: Figure.size(Self.bytes(below: folder)),
          written: Figure.time(stamp.milliseconds))
      }
    }
    let contents = Datasets(isEmpty: rows.isEmpty, sendOptions: configuration.sendOptions(for: request), datasets: rows)
    return try await page.response("Datasets", template: "datasets", contents, place: "/datasets", for: context)
  }

  private static func bytes(below folder: String) -> Int64 {
    var sum: Int64 = 0
    let files = FileManager.default.enumerator(at: URL(fileURLWithPath: folder), includingPropertiesForKeys: [.fileSizeKey])
    while let file = files?.nextObject() as? URL {
      sum = sum.addingReportingOverflow(Int64((try? file.resourceValues(forKeys: [.fileSizeKey]))?.fileSize ?? 0)).partialValue
    }
    return sum
  }

  /// The report allows itself only its own script and style, by their digests. What we add lets no site frame it, and keeps its script
  /// away from everything else that this server has.
  private static let policy = """
    default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; sandbox allow-scripts
    """

  private static let missing = Failure(.notFound, "NOT_FOUND", "There is no such dataset")

  /// The name of a dataset that the reader may see.
  private func name(_ context: CaptureContext) async throws -> String {
    let name = context.parameters.get("name") ?? ""
    guard try await !datasets(context, named: name).isEmpty else { throw Self.missing }
    return name
  }

  private func download(_ context: CaptureContext) async throws -> Response {
    let name = try await name(context)
    return try await DatasetDownload(of: name, in: data).response(named: name)
  }

  private func report(_ context: CaptureContext) async throws -> Response {
    let name = try await name(context)
    switch await reports.report(of: name) {
    case .none: throw Self.missing
    case .making:
      return try await page.message(
        "Report of \(name)", "The report is being made.", canRepeat: true, place: "/datasets", for: context, status: .accepted)
    case .failed:
      throw Failure(
        .serviceUnavailable, "REPORT_FAILED", "The report could not be made. Try again in a minute.", headers: [.retryAfter: "60"])
    case .ready(let path):
      let headers: HTTPFields = [
        .contentType: "text/html; charset=utf-8", .cacheControl: "no-store", .contentSecurityPolicy: Self.policy,
        .xContentTypeOptions: "nosniff",
      ]
      return Response(status: .ok, headers: headers, body: try await FileIO().loadFile(path: path, context: context))
    }
  }
}
