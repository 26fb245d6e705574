import GRDB
import HTTPTypes
import Hummingbird

/// `/metrics`: requests, captures by status, conversions by state, free disk.
struct MetricsRoutes {
  let database: ServerDatabase
  let intake: Intake
  let shipping: DatabaseShipping?
  let metrics: PrometheusMetrics

  /// What the metrics mean: those of every request, and ours.
  static let help = [
    "hb_request_errors_total": "Requests that ended in an error of the server.",
    "hb_requests_total": "Requests that were answered.",
    "http_server_request_duration_seconds": "Time from a request's head to the end of its answer.",
    "takeset_capture_bytes": "Bytes of captures as received.",
    "takeset_captures": "Captures in the database.",
    "takeset_conversions": "Conversions in the queue and done.",
    "takeset_free_bytes": "Free bytes where captures are kept.",
    "takeset_standby_lag_seconds": "Seconds since the standby's copy of the database was whole.",
  ]

  func add(to routes: some RouterMethods<CaptureContext>) {
    routes.get("metrics") { _, _ in
      let (captures, conversions) = try await database.pool.read { database in
        (
          try Self.sums(database, "SELECT status AS name, COUNT(*) AS number, SUM(bytes) AS bytes FROM capture GROUP BY status"),
          try Self.sums(database, "SELECT state AS name, COUNT(*) AS number, 0 AS bytes FROM conversion GROUP BY state")
        )
      }
      for status in CaptureStatus.allCases.map(\.rawValue) {
        metrics.set("takeset_captures", [("status", status)], to: Double(captures[status]?.number ?? 0))
        metrics.set("takeset_capture_bytes", [("status", status)], to: Double(captures[status]?.bytes ?? 0))
      }
      for state in ["waiting", "running", "done"] {
        metrics.set("takeset_conversions", [("state", state)], to: Double(conversions[state]?.number ?? 0))
      }
      if let shipping = shipping { metrics.set("takeset_standby_lag_seconds", to: shipping.lag) }
      metrics.set("takeset_free_bytes", to: Double(intake.freeBytes))
      return Response(
        status: .ok, headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8"],
        body: .init(byteBuffer: ByteBuffer(string: metrics.text)))
    }
  }

  private struct Sum: Sendable {
    var number, bytes: Int64
  }

  private static func sums(_ database: Database, _ query: String) throws -> [String: Sum] {
    try GRDB.Row.fetchAll(database, sql: query).reduce(into: [:]) { sums, row in
      sums[row["name"]] = Sum(number: row["number"], bytes: row["bytes"])
    }
  }
}
