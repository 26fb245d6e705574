import Evidence
import Foundation
import GRDB

/// What somebody has said of a capture: its task, whether it succeeded, tags, segments and whatever else. It is written into the dataset of the
/// project whenever that is made anew, as `takeset label` does; `null` takes away what the capture itself says.
struct CaptureLabels: Equatable, Sendable {
  private(set) var values: [String: JSONValue] = [:]

  /// Bytes of a request that sets them.
  static let limit = 256 << 10

  /// - Parameter stored: The text that a capture's row has.
  init(stored: String?) {
    let found = stored.flatMap { try? JSONDecoder().decode(JSONValue.self, from: Data($0.utf8)) }
    values = found?.object ?? [:]
  }

  /// - Parameter body: Of a request: a JSON object of labels. Throws `Failure` 400.
  init(body: some Sequence<UInt8>) throws {
    guard let found = try? JSONDecoder().decode(JSONValue.self, from: Data(body)) else { throw Failure.invalid("the body is not JSON") }
    guard case .object(let members) = found else { throw Failure.invalid("expected an object of labels") }
    for (name, value) in members.sorted(by: { $0.key < $1.key }) { try set(name, value) }
  }

  /// The labels that a conversion has found in a capture, of its first take.
  ///
  /// - Parameter recorded: Those of the episodes of the take, as their manifest has them.
  init(recorded: [JSONValue] = []) {
    for labels in recorded {
      for (name, value) in labels.object ?? [:] where name != "sources" {
        guard let value = try? LabelValue.checked(name, value) else { continue }
        if name == LabelValue.segmentsName, let segments = value.array {
          // Each episode has those that its rows are in.
          let known = values[name]?.array ?? []
          values[name] = .array(known + segments.filter { !known.contains($0) })
        } else {
          values[name] = value
        }
      }
    }
  }

  /// Throws `Failure` 400 for a label that cannot be.
  mutating func set(_ name: String, _ value: JSONValue) throws {
    do { values[name] = try LabelValue.checked(name, value) } catch { throw Failure.invalid("\(error)") }
  }

  mutating func remove(_ name: String) { values[name] = nil }

  /// What a row has; `nil` for nothing.
  var stored: String? {
    get throws { values.isEmpty ? nil : String(decoding: try JSONAnswer.data(JSONValue.object(values)), as: UTF8.self) }
  }

  var segments: [LabelValue.Segment] { (values[LabelValue.segmentsName]?.array ?? []).compactMap { try? LabelValue.segment($0) } }

  /// These over those that the capture itself says.
  func over(_ own: CaptureLabels) -> CaptureLabels {
    var all = own
    all.values.merge(values) { $1 }
    all.values = all.values.filter { $0.value != .null }
    return all
  }

  // MARK: Datasets

  /// The takes among ids of episodes: one that was split has ids such as `take.0`.
  static func takes(of episodes: some Sequence<String>) -> Set<String> {
    Set(episodes.map { id in id.wholeMatch(of: /(.+)\.[0-9]+/).map { String($0.1) } ?? id })
  }

  /// Bytes of labels in one file, about: the converter reads no large one.
  private static let fileBytes = 1 << 20

  /// Files for `takeset label --from` with the labels of captures; none where none has any. Segments are in seconds of a take, so those of a
  /// capture with several takes are left out.
  static func files(of captures: Set<String>, _ database: Database) throws -> [Data] {
    var (files, lines, bytes): ([Data], [String: JSONValue], Int) = ([], [:], 0)
    func close() throws {
      if !lines.isEmpty { files.append(try JSONAnswer.data(JSONValue.object(lines))) }
      (lines, bytes) = ([:], 0)
    }
    let labelled = try Row.fetchCursor(database, sql: "SELECT id, labels FROM capture WHERE labels IS NOT NULL")
    while let row = try labelled.next() {
      let (capture, stored): (String, String) = (row["id"], row["labels"])
      guard captures.contains(capture) else { continue }
      var own = CaptureLabels(stored: stored)
      let episodes = try String.fetchAll(database, sql: "SELECT id FROM take WHERE capture = ?", arguments: [capture])
      if takes(of: episodes).count > 1 { own.remove(LabelValue.segmentsName) }
      guard !own.values.isEmpty else { continue }
      for id in episodes {
        if bytes + stored.utf8.count > fileBytes { try close() }
        lines[id] = .object(own.values)
        bytes += stored.utf8.count
      }
    }
    try close()
    return files
  }
}
