import GRDB
import Hummingbird
import Model

/// `/jobs`: conversions that run, wait or have failed.
struct JobsPage {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let page: Page

  func add(to routes: Routes) {
    routes.open(to: .key(.read)).get("jobs") { _, context in try await jobs(context) }
  }

  private struct Job: FetchableRecord, Decodable {
    var capture: String
    var name: String
    var type: CaptureType
    var project: String
    var state: String
    var attempts: Int
    var notBefore: Int64
    var startedAt: Int64?
    var finishedAt: Int64?
    var receivedAt: Int64
    var lastError: String?
    var isStranger: Bool
    var worker: String?
  }

  private struct Row {
    var id: String
    var canConvert: Bool
    var name: String
    var project: String
    var state: String
    var tone: String
    var time: String
    var attempts: String
    var problem: String?
  }

  private struct Contents {
    var summary: String
    /// The reason why no conversion goes on.
    var notice: String?
    var isIdle: Bool
    var jobs: [Row]
    var more: String?
  }

  private static let limit = 200

  private func jobs(_ context: CaptureContext) async throws -> Response {
    let (project, now) = (context.key?.project, Time.now())
    let (jobs, counts) = try await database.pool.read { database in
      // By two indexes: there are few of these among very many captures.
      let mine = """
        FROM conversion JOIN capture ON capture.id = conversion.capture
        WHERE capture.id IN (
          SELECT capture FROM conversion WHERE state IN ('waiting', 'running') UNION ALL SELECT id FROM capture WHERE status = 'failed')
        AND (? IS NULL OR project = ?)
        """
      let counts = try GRDB.Row.fetchAll(
        database,
        sql: """
          SELECT iif(state = 'done', status, state) AS state, COUNT(*) AS number \(mine) GROUP BY 1
          """, arguments: [project, project])
      return (
        try Job.fetchAll(
          database,
          sql: """
            SELECT conversion.*, name, type, project, receivedAt, isStranger \(mine)
            ORDER BY state = 'running' DESC, state = 'waiting' DESC, isStranger, receivedAt LIMIT ?
            """, arguments: [project, project, Self.limit]),
        counts.reduce(into: [String: Int64]()) { $0[$1["state"]] = $1["number"] }
      )
    }
    let (running, waiting, failed) = (counts["running"] ?? 0, counts["waiting"] ?? 0, counts["failed"] ?? 0)
    // What went wrong names programs and files of this machine.
    let canChange = context.key?.allows(.change) ?? true
    let all = running + waiting + failed
    let contents = Contents(
      summary: "\(running.grouped) running, \(waiting.grouped) waiting, \(failed.grouped) failed",
      notice: jobs.contains { $0.worker != nil } ? nil : notice,
      isIdle: all == 0, jobs: jobs.map { row($0, now, canChange: canChange) },
      more: all > jobs.count ? "These are \(jobs.count) of \(all.grouped) jobs." : nil)
    return try await page.response("Jobs", template: "jobs", contents, place: "/jobs", for: context)
  }

  private var notice: String? {
    if configuration.conversions == 0 { return "This server converts nothing: it was started with --conversions 0." }
    if data.freeBytes < configuration.reserve {
      return "Conversions wait: the disk has less free space than the reserve of \(Figure.size(configuration.reserve))."
    }
    return nil
  }

  private func row(_ job: Job, _ now: Int64, canChange: Bool) -> Row {
    func ago(_ time: Int64) -> String { Figure.duration(Double(max(now - time, 0) / 1000)) }
    let (state, tone, time): (String, String, String) =
      switch job.state {
      case "running": ("running", "info", (job.startedAt.map { "for \(ago($0))" } ?? "") + (job.worker.map { " by \($0)" } ?? ""))
      case "waiting" where job.notBefore > now:
        ("waiting", "fair", "tried again in \(Figure.duration(Double((job.notBefore - now) / 1000)))")
      case "waiting":
        ("waiting", "soft", "received \(ago(job.receivedAt)) ago" + (job.isStranger ? ", after all others: nobody vouches for it" : ""))
      default: ("failed", "bad", "no longer tried")
      }
    return Row(
      id: job.capture, canConvert: canChange && state == "failed",
      name: CaptureName.shown(job.name, receivedAt: job.receivedAt, seconds: nil, source: job.type.rawValue),
      project: Figure.short(job.project, 100), state: state, tone: tone,
      time: time, attempts: "\(job.attempts)", problem: canChange ? job.lastError.map { Figure.short($0, 400) } : nil)
  }
}
