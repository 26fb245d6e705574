import Evidence
import Foundation
import GRDB
import Hummingbird
import Model

/// `/`: the captures, newest first, with filters that are the query of its address.
struct CaptureListPage {
  let configuration: Configuration
  let data: DataFolder
  let database: ServerDatabase
  let page: Page

  func add(to routes: Routes) {
    routes.open(to: .key(.read)).get("") { request, context in try await list(request, context) }
  }

  private struct Choice {
    var value: String
    var name: String
    var isChosen: Bool
  }

  private struct Row {
    var id: String
    var name: String
    var type: String
    var project: String
    var status: String
    var tone: String
    var reason: String?
    var badge: String?
    var badgeTone: String
    var task: String?
    var outcome: String?
    var outcomeTone: String
    var device: String?
    var deviceName: String
    var duration: String
    var received: String
    var size: String
    var thumbnail: String?
    /// The text in place of a missing image.
    var placeholder: String
  }

  private struct Contents {
    var summary: String
    var text: String
    var types: [Choice]
    var statuses: [Choice]
    var badges: [Choice]
    var labels: [Choice]
    var first: String
    var last: String
    var sizes: [Choice]
    var device: String?
    var project: String?
    var dataset: String?
    var captures: [Row]
    var isEmpty: Bool
    /// Whether nothing was ever received, rather than nothing found.
    var isNew: Bool
    var sendOptions: String
    var isFiltered: Bool
    var older: String?
    var newer: String?
  }

  /// The columns of a list, which its indexes have: the table's own rows are long.
  private struct Listed: FetchableRecord, Decodable {
    static let columns = "id, type, status, reason, project, device, name, receivedAt, bytes, seconds, badge"
    var id: String
    var type: CaptureType
    var status: CaptureStatus
    var reason: String?
    var project: String
    var device: String?
    var model: String?
    var platform: String?
    var name: String
    var receivedAt: Int64
    var bytes: Int64
    var seconds: Double?
    var badge: VerificationBadge.State?
    /// Of the labels that somebody gave it.
    var task: String?
    var success: Bool?

    var cursor: CaptureListing.Cursor { .init(receivedAt: receivedAt, id: id) }
  }

  /// Rows of a page.
  private static let sizes = [50, 200, 1000]

  private func list(_ request: Request, _ context: CaptureContext) async throws -> Response {
    let (query, project) = (request.uri.queryParameters, context.key?.project)
    // A form sends the fields that were left open, too.
    func value(_ name: String) -> String? { query[name[...]].map(String.init).flatMap { $0.isEmpty ? nil : $0 } }
    var listing = try CaptureListing(project: project, most: Self.sizes.max() ?? 0, query: value)
    try listing.turn(at: value("newer"))
    let (found, counts) = try await database.pool.read { [listing] database in
      let (order, arguments) = listing.selection
      // Without OR, an index has all that is needed.
      let counts = try GRDB.Row.fetchAll(
        database,
        sql: "SELECT status, COUNT(*) AS number FROM capture \(project == nil ? "" : "WHERE project = ?") GROUP BY status ORDER BY status",
        arguments: project.map { [$0] } ?? [])
      return (
        try Listed.fetchAll(
          database,
          sql: """
            SELECT \(Listed.columns), (SELECT model FROM device WHERE device.id = device) AS model,
              (SELECT platform FROM device WHERE device.id = device) AS platform,
              iif(json_valid(labels), json_extract(labels, '$.task'), NULL) AS task,
              iif(json_valid(labels), json_extract(labels, '$.success'), NULL) AS success FROM capture \(order) LIMIT ?
            """, arguments: arguments + [listing.limit + 1]),
        counts.map { ($0["number"] as Int64, $0["status"] as String) }
      )
    }
    var shown = Array(found.prefix(listing.limit))
    let hasMore = found.count > listing.limit
    if listing.newer != nil { shown.reverse() }
    // Whoever came by a link to newer ones can go back, and the other way round.
    let older = listing.newer != nil || hasMore ? shown.last.map { listing.query(("cursor", $0.cursor)) } : nil
    let newer = listing.cursor != nil || listing.newer != nil && hasMore ? shown.first.map { listing.query(("newer", $0.cursor)) } : nil
    let contents = Contents(
      summary: counts.isEmpty ? "" : counts.map { "\($0.0.grouped) \($0.1)" }.joined(separator: ", "),
      text: listing.text ?? "", types: Self.choices(CaptureType.allCases.map { ($0.rawValue, $0.rawValue) }, listing.type?.rawValue),
      statuses: Self.choices(CaptureStatus.allCases.map { ($0.rawValue, $0.rawValue) }, listing.status?.rawValue),
      badges: Self.choices(VerificationBadge.State.allCases.map { ($0.rawValue, $0.words) }, listing.badge?.rawValue),
      labels: Self.choices([("yes", "labelled"), ("no", "not labelled")], listing.labels?.rawValue),
      first: listing.first?.text ?? "", last: listing.last?.text ?? "",
      sizes: Self.sizes.map { Choice(value: "\($0)", name: "\($0)", isChosen: $0 == listing.limit) },
      device: listing.device, project: listing.project, dataset: listing.dataset, captures: shown.map(row), isEmpty: shown.isEmpty,
      isNew: counts.isEmpty,
      sendOptions: configuration.sendOptions(for: request), isFiltered: listing.query() != "/",
      older: older, newer: newer)
    return try await page.response("Captures", template: "captures", contents, place: "/", for: context)
  }

  private static func choices(_ all: [(value: String, name: String)], _ chosen: String?) -> [Choice] {
    [Choice(value: "", name: "all", isChosen: chosen == nil)]
      + all.map { Choice(value: $0.value, name: $0.name, isChosen: $0.value == chosen) }
  }

  private func row(_ capture: Listed) -> Row {
    Row(
      id: capture.id,
      name: CaptureName.shown(
        capture.name, receivedAt: capture.receivedAt, seconds: capture.seconds,
        source: Device.source(platform: capture.platform, model: capture.model) ?? capture.type.rawValue), type: capture.type.rawValue,
      project: Figure.short(capture.project, 100),
      status: capture.status.rawValue, tone: capture.status.tone, reason: capture.reason.map { Figure.short($0, 300) },
      badge: capture.badge?.words, badgeTone: capture.badge?.tone ?? "soft",
      task: capture.task.map { Figure.short($0, 200) }, outcome: capture.success.map { $0 ? "success" : "failure" },
      outcomeTone: capture.success == true ? "good" : "fair", device: capture.device.map(Figure.escaped),
      deviceName: Figure.short(capture.model ?? capture.device.map { String($0.prefix(8)) } ?? "", 60),
      duration: capture.seconds.map(Figure.duration) ?? "", received: Figure.time(capture.receivedAt), size: Figure.size(capture.bytes),
      thumbnail: data.hasImage(of: capture.id, "thumbnail.jpg") ? "/captures/\(capture.id)/thumbnail.jpg" : nil,
      placeholder: capture.status == .processing ? "waiting" : "no image")
  }
}

extension DataFolder {
  /// Whether a conversion made an image of this name.
  func hasImage(of capture: String, _ name: String) -> Bool { access("\(conversion(of: capture))/\(name)", F_OK) == 0 }
}

extension CaptureStatus {
  /// A class of the style.
  var tone: String {
    switch self {
    case .complete: "good"
    case .processing: "soft"
    case .quarantined: "fair"
    case .failed, .rejected: "bad"
    }
  }
}

extension VerificationBadge.State {
  var words: String {
    switch self {
    case .complete: "verified"
    case .partial: "partly verified"
    case .none: "not verified"
    }
  }

  /// A class of the style. What is verified in part is no warning.
  var tone: String {
    switch self {
    case .complete: "good"
    case .partial: "info"
    case .none: "fair"
    }
  }
}
