import GRDB
import Hummingbird
import Model

/// `/server`: how much is kept of each project; for operators also the room that is left, and the standby.
struct ServerPage {
  let configuration: Configuration
  let database: ServerDatabase
  let intake: Intake
  let shipping: DatabaseShipping?
  let page: Page

  func add(to routes: Routes) {
    routes.open(to: .key(.watch)).get("server") { _, context in try await server(context) }
  }

  private struct Fact {
    var name: String
    var value: String
    var badge: String?
    var tone = ""
  }
  private struct Project {
    var name: String
    var captures: String
    var kept: String
    var quota: String
    var used: String?
    var tone: String
  }
  private struct Contents {
    var isOperator: Bool
    var facts: [Fact]
    var isEmpty: Bool
    var projects: [Project]
  }

  private func server(_ context: CaptureContext) async throws -> Response {
    let project = context.key?.scope
    let uses = try await database.pool.read { try ProjectUse.all(of: project, $0) }
    let contents = Contents(isOperator: project == nil, facts: facts, isEmpty: uses.isEmpty, projects: uses.map(row))
    return try await page.response("Server", template: "server", contents, place: "/server", for: context)
  }

  private var facts: [Fact] {
    let (free, isStrict) = (intake.freeBytes, configuration.policy == .strict)
    func room(_ name: String, _ reserve: Int64) -> Fact {
      Fact(
        name: name, value: "\(Figure.size(free)) free; nothing is accepted below \(Figure.size(reserve))",
        badge: free < reserve ? "nothing is accepted" : "enough", tone: free < reserve ? "bad" : "good")
    }
    let rooms =
      [room("room", configuration.reserve)] + (isStrict ? [] : [room("room for strangers", configuration.reserve(isStranger: true))])
    return [Fact(name: "version", value: CaptureServer.version)] + rooms + [standby]
  }

  private var standby: Fact {
    guard let lag = shipping?.lag else { return Fact(name: "standby", value: "there is none") }
    let isBehind = lag > DatabaseShipping.mostLag
    return Fact(
      name: "standby", value: "\(Figure.duration(lag)) since its copy was whole", badge: isBehind ? "behind" : "up to date",
      tone: isBehind ? "bad" : "good")
  }

  /// Percent of a quota from which on it is nearly used up.
  private static let nearly = 90.0

  private func row(_ use: ProjectUse) -> Project {
    let quota = configuration.projectQuota
    let percent = quota > 0 ? 100 * Double(use.bytes) / Double(quota) : nil
    return Project(
      name: Figure.short(use.project, 100), captures: use.captures.grouped, kept: Figure.size(use.bytes),
      quota: quota > 0 ? Figure.size(quota) : "none", used: percent.map { "\(Int(min($0, 999).rounded(.down))) %" },
      tone: percent.map { $0 >= 100 ? "bad" : $0 >= Self.nearly ? "fair" : "soft" } ?? "")
  }
}
