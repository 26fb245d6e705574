import Evidence
import Foundation
import GRDB

/// The selection of captures that a client wants to see; newest first.
struct CaptureListing: Sendable {
  private(set) var limit = standardLimit
  private(set) var cursor: Cursor?
  private(set) var status: CaptureStatus?
  private(set) var type: CaptureType?
  /// Id of a device, in lower case.
  private(set) var device: String?
  private(set) var project: String?
  /// Name of a dataset that holds them.
  private(set) var dataset: String?
  private(set) var badge: VerificationBadge.State?
  /// Whether somebody has labelled them.
  private(set) var labels: Labelling?
  /// Text that the name contains, or that the id or the device's begins with, whatever the case of its letters.
  private(set) var text: String?
  /// Days in UTC, the last included.
  private(set) var first, last: Day?
  /// The first capture of a page, of which the page before is wanted. Its captures come in the opposite order.
  private(set) var newer: Cursor?
  /// The only project that the client may see; `nil` for all.
  let visibleProject: String?

  enum Labelling: String, CaseIterable { case yes, no }

  private static let standardLimit = 50

  /// The last capture of a page; the next page begins after it, whatever came meanwhile.
  struct Cursor: Sendable {
    let receivedAt: Int64
    let id: String

    var text: String { "\(receivedAt)_\(id)" }

    init(receivedAt: Int64, id: String) { (self.receivedAt, self.id) = (receivedAt, id) }

    init?(_ text: String) {
      let halves = text.split(separator: "_", omittingEmptySubsequences: false)
      guard halves.count == 2, let time = Int64(halves[0]), UUID(uuidString: String(halves[1])) != nil else { return nil }
      self.init(receivedAt: time, id: String(halves[1]))
    }
  }

  /// A day in UTC, such as 2026-01-31.
  struct Day: Sendable {
    let text: String
    /// Its first millisecond since 1970.
    let start: Int64
    var end: Int64 { start + 86_400_000 }

    init?(_ text: String) {
      guard text.count == 10, let date = try? Date(text, strategy: Date.ISO8601FormatStyle().year().month().day()) else { return nil }
      self.text = text
      start = Int64(date.timeIntervalSince1970) * 1000
    }
  }

  /// - Parameters:
  ///   - project: The only project that the client may see; `nil` for all.
  ///   - most: The most captures of a page.
  ///   - query: A value of the query by its name.
  /// - Throws: `Failure` 400 for values that make no sense.
  init(project: String?, most: Int, query: (String) -> String?) throws {
    visibleProject = project
    if let text = query("limit") {
      guard let number = Int(text), (1...most).contains(number) else {
        throw Failure.invalid("limit must be a whole number from 1 to \(most)")
      }
      limit = number
    }
    if let text = query("cursor") {
      guard let cursor = Cursor(text) else { throw Failure.invalid("cursor is not one that this server gave") }
      self.cursor = cursor
    }
    status = try Self.value("status", query)
    type = try Self.value("type", query)
    self.project = query("project")
    dataset = query("dataset")
    device = query("device")?.lowercased()
    guard device.map({ UUID(uuidString: $0) != nil }) ?? true else { throw Failure.invalid("device must be a UUID") }
    badge = try Self.value("verified", query)
    labels = try Self.value("labels", query)
    text = query("q").map { String($0.prefix(200)) }
    first = try Self.day("from", query)
    last = try Self.day("to", query)
  }

  private static func day(_ name: String, _ query: (String) -> String?) throws -> Day? {
    guard let text = query(name) else { return nil }
    guard let day = Day(text) else { throw Failure.invalid("\(name) must be a day such as 2026-01-31") }
    return day
  }

  /// Those before a page instead of those after one, for pages that go both ways. Throws as `init` does.
  mutating func turn(at query: String?) throws {
    guard let query else { return }
    guard let newer = Cursor(query) else { throw Failure.invalid("newer is not a cursor that this server gave") }
    (self.newer, cursor) = (newer, nil)
  }

  /// The part of a statement from WHERE to ORDER BY.
  var selection: (sql: String, arguments: StatementArguments) {
    var conditions: [String] = []
    var arguments: StatementArguments = []
    func only(_ condition: String, _ values: StatementArguments) {
      conditions.append(condition)
      arguments += values
    }
    if let cursor { only("(receivedAt, id) < (?, ?)", [cursor.receivedAt, cursor.id]) }
    if let newer { only("(receivedAt, id) > (?, ?)", [newer.receivedAt, newer.id]) }
    if let status { only("status = ?", [status.rawValue]) }
    if let type { only("type = ?", [type.rawValue]) }
    if let device { only("device = ?", [device]) }
    if let dataset { only("id IN (SELECT capture FROM merged WHERE dataset = ?)", [dataset]) }
    if let badge { only("badge = ?", [badge.rawValue]) }
    if let labels { only("labels IS \(labels == .yes ? "NOT NULL" : "NULL")", []) }
    if let first { only("receivedAt >= ?", [first.start]) }
    if let last { only("receivedAt < ?", [last.end]) }
    if let text {
      let start = text.lowercased()
      only(
        "(instr(swiftLowercaseString(name), ?) > 0 OR substr(id, 1, length(?)) = ? OR substr(device, 1, length(?)) = ?)",
        [start, start, start, start, start])
    }
    for project in [visibleProject, project] { if let project { only("project = ?", [project]) } }
    let filter = conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND ")
    return ("\(filter) ORDER BY receivedAt \(newer == nil ? "DESC" : "ASC"), id \(newer == nil ? "DESC" : "ASC")", arguments)
  }

  /// The query of a page with the same filters.
  func query(_ place: (name: String, cursor: Cursor)? = nil) -> String {
    let values: [(String, String?)] = [
      ("q", text), ("type", type?.rawValue), ("status", status?.rawValue), ("verified", badge?.rawValue),
      ("labels", labels?.rawValue), ("device", device),
      ("project", project), ("dataset", dataset), ("from", first?.text), ("to", last?.text),
      ("limit", limit == Self.standardLimit ? nil : "\(limit)"),
      (place?.name ?? "", place?.cursor.text),
    ]
    let parts = values.compactMap { name, value in value.map { "\(name)=\(Figure.escaped($0))" } }
    return parts.isEmpty ? "/" : "/?" + parts.joined(separator: "&")
  }

  private static func value<Value: RawRepresentable & CaseIterable>(
    _ name: String, _ query: (String) -> String?
  ) throws -> Value? where Value.RawValue == String {
    guard let text = query(name) else { return nil }
    guard let value = Value(rawValue: text) else {
      throw Failure.invalid("\(name) must be one of \(Value.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    return value
  }
}
