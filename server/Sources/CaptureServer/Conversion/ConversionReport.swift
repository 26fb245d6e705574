import Evidence
import Foundation
import Model

/// The result of a conversion, from the manifest of its dataset.
struct ConversionReport: Sendable {
  private struct Manifest: Decodable {
    struct Record: Decodable {
      var pipeline_sha256: String
      var takes: [Take]
      var labels: [String: JSONValue]?
    }
    var record: Record
  }

  private struct Take: Decodable {
    struct Output: Decodable { var samples: Int64 }
    var id: String
    var reader: String?
    var variant: String?
    var outcome: String
    var reason: String?
    var findings: [JSONValue]
    var output: Output?
    var details: JSONValue?
    var verification: JSONValue?
  }

  private let takes: [Take]
  /// By the ids of episodes.
  private let labels: [String: JSONValue]
  /// Digest of the pipeline's options.
  let pipeline: String
  /// Duration of the written takes together, where that is known.
  var seconds: Double?

  /// Number of findings that are listed; nobody would read more.
  private static let findingsLimit = 200
  /// Reads a manifest. Throws if the file is missing or is no manifest.
  init(manifest path: String) throws {
    let manifest = try JSONDecoder().decode(Manifest.self, from: Data(contentsOf: URL(fileURLWithPath: path)))
    takes = manifest.record.takes
    labels = manifest.record.labels ?? [:]
    pipeline = manifest.record.pipeline_sha256
    // It becomes the name of a dataset, and a worker may have written it.
    guard ClientName.sha256(pipeline) == pipeline else { throw Mistake("pipeline_sha256 of the manifest is no SHA-256") }
  }

  var written: [String] { takes.filter { $0.outcome == "written" }.map(\.id) }
  var rows: Int64 { takes.reduce(0) { $0 + ($1.output?.samples ?? 0) } }

  /// The reason why a take could not be converted, if it may go away, such as a disk that cannot be read.
  var ownFailure: String? {
    for take in takes where take.outcome == "failed" {
      if take.findings.contains(where: {
        $0["severity"]?.string == "error" && FindingCode(rawValue: $0["code"]?.string ?? "").map(FindingCode.mayPass.contains) ?? false
      }) {
        return take.reason ?? take.id
      }
    }
    return nil
  }

  /// The reason why takes are not in the dataset, as a sentence; `nil` if all are.
  var reason: String? {
    let others = takes.filter { $0.outcome != "written" }
    guard let first = others.first else { return nil }
    let reason = first.reason ?? "no reason was given"
    if takes.count == 1 { return reason }
    return "\(others.count) of its \(takes.count) takes cannot be converted, the first because: \(reason)"
  }

  /// The reason why no signature is checked on a server that is told of no app.
  static let noApps = "no app id is configured (--app-id)"

  /// The evidence that is stored with a capture: that of the only take, or of the first one, and a line for each.
  ///
  /// - Parameter hasApps: Whether keys were given to the converter, which cannot know why there were none.
  func evidence(hasApps: Bool) throws -> String {
    var members: [String: JSONValue] = ["pipeline_sha256": .string(pipeline), "rows": .integer(rows)]
    // Those that were written say most.
    let main = takes.first { $0.outcome == "written" } ?? takes.first
    for (name, value) in main?.verification?.object ?? [:] { members[name] = value }
    if !hasApps, case .object(var assertion)? = members["assertion"], assertion["state"]?.string == "no-key" {
      assertion["reason"] = .string(Self.noApps)
      members["assertion"] = .object(assertion)
    }
    var depth = main?.details?["depth_metrics"]?.object ?? [:]
    for name in ["alignment", "keyframes", "width", "height"] {
      if let value = main?.details?["depth"]?[name] { depth[name] = value }
    }
    if !depth.isEmpty { members["depth"] = .object(depth) }
    if let main {
      members["first_row_ns"] = main.details?["first_row_ns"]
      let take = CaptureLabels.takes(of: [main.id])
      let own = CaptureLabels(recorded: written.filter { take == CaptureLabels.takes(of: [$0]) }.compactMap { labels[$0] })
      if !own.values.isEmpty { members["labels"] = .object(own.values) }
    }
    members["findings"] = .array(Array(takes.flatMap(\.findings).prefix(Self.findingsLimit)))
    members["takes"] = .array(
      takes.prefix(Self.findingsLimit).map { take in
        .object([
          "id": .string(take.id), "reader": take.reader.map { .string($0) } ?? .null, "variant": take.variant.map { .string($0) } ?? .null,
          "outcome": .string(take.outcome), "reason": take.reason.map { .string($0) } ?? .null,
          "rows": .integer(take.output?.samples ?? 0),
        ])
      })
    return String(decoding: try JSONAnswer.data(JSONValue.object(members)), as: UTF8.self)
  }
}
