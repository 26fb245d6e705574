import GRDB
import HTTPTypes
import Hummingbird

/// `/metrics`: captures by status, conversions by state and quotas, of the key's project or of all; for operators also requests, the disk
/// and the standby.
struct MetricsRoutes {
  let configuration: Configuration
  let database: ServerDatabase
  let intake: Intake
  let shipping: DatabaseShipping?
  let metrics: PrometheusMetrics

  /// The meaning of the metrics: those of every request, and ours.
  static let help = [
    "hb_request_errors_total": "Requests that ended in an error of the server.",
    "hb_requests_total": "Requests that were answered.",
    "http_server_request_duration_seconds": "Time from a request's head to the end of its answer.",
    "takeset_capture_bytes": "Bytes of captures as received.",
    "takeset_captures": "Captures in the database.",
    "takeset_conversions": "Conversions in the queue and done.",
    "takeset_free_bytes": "Free bytes where captures are kept.",
    "takeset_project_bytes": "Bytes that count against the quota of a project.",
    "takeset_project_quota_bytes": "Most bytes kept of a project.",
    "takeset_standby_lag_seconds": "Seconds since the standby's copy of the database was whole.",
  ]

  func add(to routes: Routes) {
    routes.open(to: .key(.watch)).get("metrics") { _, context in
      let project = context.key?.scope
      // Requests, the disk and the standby are the operator's.
      var gauges = try await gauges(of: project)
      if project == nil {
        if let shipping { gauges.append(.init(name: "takeset_standby_lag_seconds", value: shipping.lag)) }
        gauges.append(.init(name: "takeset_free_bytes", value: Double(intake.freeBytes)))
      }
      return Response(
        status: .ok, headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8"],
        body: .init(byteBuffer: ByteBuffer(string: metrics.text(gauges, hasRequests: project == nil))))
    }
  }

  /// Returns the figures of a project from the database; `nil` for all.
  private func gauges(of project: String?) async throws -> [PrometheusMetrics.Gauge] {
    let (captures, conversions, uses) = try await database.pool.read { database in
      let mine = project == nil ? "" : "WHERE project = ?"
      let arguments: StatementArguments = project.map { [$0] } ?? []
      let queue = project == nil ? "conversion" : "conversion JOIN capture ON capture.id = conversion.capture"
      return (
        try Self.sums(database, "SELECT status AS name, COUNT(*) AS number, SUM(bytes) AS bytes FROM capture", mine, arguments),
        try Self.sums(database, "SELECT state AS name, COUNT(*) AS number, 0 AS bytes FROM \(queue)", mine, arguments),
        try ProjectUse.all(of: project, database)
      )
    }
    var gauges: [PrometheusMetrics.Gauge] = []
    for status in CaptureStatus.allCases.map(\.rawValue) {
      let (labels, sum) = ([("status", status)], captures[status])
      gauges.append(.init(name: "takeset_captures", labels: labels, value: Double(sum?.number ?? 0)))
      gauges.append(.init(name: "takeset_capture_bytes", labels: labels, value: Double(sum?.bytes ?? 0)))
    }
    for state in ["waiting", "running", "done"] {
      gauges.append(.init(name: "takeset_conversions", labels: [("state", state)], value: Double(conversions[state]?.number ?? 0)))
    }
    for use in uses { gauges.append(.init(name: "takeset_project_bytes", labels: [("project", use.project)], value: Double(use.bytes))) }
    if configuration.projectQuota > 0 {
      gauges.append(.init(name: "takeset_project_quota_bytes", value: Double(configuration.projectQuota)))
    }
    return gauges
  }

  private struct Sum: Sendable {
    var number, bytes: Int64
  }

  private static func sums(_ database: Database, _ query: String, _ condition: String, _ arguments: StatementArguments) throws -> [String:
    Sum]
  {
    try GRDB.Row.fetchAll(database, sql: "\(query) \(condition) GROUP BY 1", arguments: arguments).reduce(into: [:]) { sums, row in
      sums[row["name"]] = Sum(number: row["number"], bytes: row["bytes"])
    }
  }
}
