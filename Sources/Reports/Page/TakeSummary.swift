import Datasets
import Evidence
import Foundation
import Model

/// An entry of the manifest with what was read from its file.
struct TakeSummary: Sendable {
  var take: TakeRecord
  /// Name of its part of the split.
  var split: String?
  var labels = Labels()
  var contents: EpisodeContents?
  /// The reason why the file of a written take could not be read.
  var problem: String?
  var strips: [ContactStrip] = []
  /// The reason why its images could not be read.
  var stripProblem: String?

  /// Worst first: failed, unreadable, rejected, with warnings, without.
  var rank: Int {
    switch take.outcome {
    case .failed: 0
    case .written where problem != nil: 1
    case .rejected: 2
    case .written: take.hasWarnings ? 3 : 4
    }
  }

  /// The order of the page, and of who is first to get images.
  func precedes(_ other: TakeSummary) -> Bool {
    if rank != other.rank { return rank < other.rank }
    return take.id < other.take.id
  }

  /// The codes of its findings and of its rejection.
  var codes: [FindingCode] {
    var found: Set<FindingCode> = []
    return (take.findings.map(\.code) + [rejection].compactMap(\.self)).filter { found.insert($0).inserted }
  }

  /// The rule that rejected it.
  var rejection: FindingCode? {
    take.outcome == .rejected ? FindingCode(ofRejection: take.reason) : nil
  }

  var severity: String {
    if take.outcome == .failed || problem != nil { return "error" }
    if take.findings.contains(where: { $0.severity == .error }) { return "error" }
    if take.findings.contains(where: { $0.severity == .warning }) { return "warning" }
    return take.findings.isEmpty ? "none" : "info"
  }

  /// Frames that steps dropped, by reason.
  var dropped: [(reason: String, count: Int)] {
    var order: [String] = []
    var counts: [String: Int] = [:]
    for drop in take.steps.flatMap(\.dropped) {
      if counts[drop.reason] == nil { order.append(drop.reason) }
      counts[drop.reason, default: 0] &+= drop.count
    }
    return order.map { ($0, counts[$0] ?? 0) }
  }

  // MARK: JSON

  /// The take's line with its measures, as `--json` prints it. A page has the measures of all takes in a table, which is a third as long.
  var rowWithMeasures: JSONValue {
    var members = row.object ?? [:]
    if let known = take.measures?.known, !known.isEmpty { members["measures"] = .object(known.mapValues { .number($0) }) }
    return .object(members)
  }

  /// The take's line in the table.
  var row: JSONValue {
    var members: [String: JSONValue] = [
      "id": .string(take.id.text), "outcome": .string(take.outcome.rawValue), "severity": .string(severity),
      "codes": .array(codes.map { .string($0.rawValue) }), "frames_in": JSONValue(take.framesIn), "frames": JSONValue(take.framesOut),
      "frames_dropped": JSONValue(dropped.reduce(0) { $0 &+ $1.count }),
    ]
    func add(_ key: String, _ value: JSONValue?) { if let value { members[key] = value } }
    add("take", take.id.part.map { _ in .string(take.id.take) })
    add("part", take.id.part.map { JSONValue($0) })
    add("reason", take.reason.map { .string($0) })
    add("reader", take.reader.map { .string($0) })
    add("variant", take.variant.map { .string($0) })
    add("split", split.map { .string($0) })
    add("task", labels.task.map { .string($0) })
    add("success", labels.success.map { .string($0 ? "yes" : "no") })
    if !labels.tags.isEmpty { add("tags", .array(labels.tags.map { .string($0) })) }
    add("problem", problem.map { .string($0) })
    add("bytes", take.output.map { .integer($0.bytes) })
    add("verified", VerificationBadge(take.verification).map { ["state": .string($0.state.rawValue), "text": .string($0.text)] })
    if let contents {
      add("seconds", .number(Self.rounded(contents.seconds, 1e6)))
      add("rate_hz", contents.rateHz.map { .number(Self.rounded($0, 1e3)) })
      add("gaps", JSONValue(contents.gaps.count))
      add("frames_missing", JSONValue(contents.missing))
      add("alignment_error_ms", contents.largestError.map { .number(Self.rounded(Double($0) / 1e6, 1e3)) })
    }
    return .object(members)
  }

  private static func rounded(_ value: Double, _ factor: Double) -> Double { (value * factor).rounded() / factor }

  /// The content of its details, without drawings and images.
  var details: [String: JSONValue] {
    var members: [String: JSONValue] = [
      "findings": .array(take.findings.map(\.json)), "facts": .array(facts.map { [.string($0.0), .string($0.1)] }),
    ]
    if let details = VerificationDetails(take.verification) { members["verification"] = details.json }
    guard let contents else { return members }
    members["streams"] = .array(contents.streams.map(stream))
    if !contents.gaps.isEmpty {
      members["gaps"] = .array(
        contents.gaps.prefix(5).map {
          .string(
            "\(Figures.short($0.seconds)) s without a frame after \(Figures.short($0.start)) s (\(counted($0.missing, "frame")) missing)"
          )
        } + (contents.gaps.count > 5 ? [.string("and \(counted(contents.gaps.count - 5, "more gap"))")] : []))
    }
    return members
  }

  /// Drawings of its details.
  var drawings: [String: JSONValue] {
    guard let contents else { return [:] }
    var members: [String: JSONValue] = [:]
    members["timeline"] = contents.timeline?.json
    members["trajectory"] = contents.trajectory?.drawing.json
    members["trajectory_of"] = contents.trajectoryName.map { .string($0.rawValue) }
    members["side_view"] = contents.sideView?.drawing.json
    if !contents.curves.isEmpty {
      members["curves"] = .array(contents.curves.map { ["name": .string($0.caption), "drawing": $0.drawing.json] })
    }
    let histograms = contents.streams.compactMap { stream in stream.histogram.map { (stream.name.rawValue, $0.json) } }
    if !histograms.isEmpty { members["histograms"] = .object(Dictionary(histograms) { first, _ in first }) }
    return members
  }

  /// The images of its details.
  var images: [String: JSONValue] {
    strips.isEmpty ? [:] : ["strips": .array(strips.map(\.json))]
  }

  private func stream(_ stream: EpisodeContents.Stream) -> JSONValue {
    func milliseconds(_ value: Int64) -> JSONValue { .number(Self.rounded(Double(value) / 1e6, 1e3)) }
    var members: [String: JSONValue] = [
      "name": .string(stream.name.rawValue), "kind": .string(stream.kind), "unit": .string(stream.unit),
      "shape": .string(stream.shape.map(String.init).joined(separator: "x")), "valid": JSONValue(stream.valid),
      "rows": JSONValue(contents?.rows ?? 0),
    ]
    if let error = stream.error {
      members["median_ms"] = milliseconds(error.median)
      members["p95_ms"] = milliseconds(error.percentile95)
      members["max_ms"] = milliseconds(error.largest)
    }
    if let alignment = take.alignment.first(where: { $0.stream == stream.name }) {
      members["method"] = .string(alignment.method)
      // Offsets are decimal text because they can exceed the exact range of JSON numbers.
      if let offset = alignment.offset.flatMap({ Double($0) }), offset != 0 {
        members["offset"] = .string(String(format: "%+.6f s", offset / 1e9))
      }
      if let residual = alignment.residual, residual != 0 {
        members["residual"] = .string(String(format: "within %.3f ms", Double(residual) / 1e6))
      }
    }
    return .object(members)
  }

  private var facts: [(String, String)] {
    var facts: [(String, String)] = []
    func add(_ name: String, _ value: String?) { if let value, !value.isEmpty { facts.append((name, value)) } }
    add("part", take.id.part.map { "episode \($0) of take \(take.id.take)" })
    add("reader", [take.reader, take.variant].compactMap(\.self).joined(separator: ", "))
    add("task", labels.task)
    add("success", labels.success.map { $0 ? "yes" : "no" })
    add("tags", labels.tags.joined(separator: ", "))
    add("segments", labels.segments.map { "\(Figures.short($0.start)) to \(Figures.short($0.end)) s: \($0.text)" }.joined(separator: "; "))
    for (name, value) in labels.others { add(name, value.string ?? value.canonicalText) }
    let inputs = take.inputs.reduce(Int64(0)) { $0 &+ $1.bytes }
    if !take.inputs.isEmpty { add("inputs", "\(counted(take.inputs.count, "file")), \(Figures.bytes(inputs))") }
    add("inputs sha256", take.inputDigest?.description)
    if take.framesIn > 0 || take.output != nil {
      add("frames", "\(take.framesOut.grouped) of \(take.framesIn.grouped)")
    }
    add("dropped by steps", dropped.map { "\($0.count.grouped) \($0.reason)" }.joined(separator: ", "))
    if let contents {
      add("duration", "\(Figures.duration(contents.seconds))\(contents.rateHz.map { String(format: " at %.2f Hz", $0) } ?? "")")
      add("rows are", contents.isResampled ? "ticks of a uniform grid" : "the source's frames, at their own times")
      add("clock", contents.clock.rawValue)
      add("frame problems", contents.quality.map { "\($0.rows.grouped) \($0.name)" }.joined(separator: ", "))
      if let trajectory = contents.trajectory, let unit = contents.streams.first(where: { $0.kind == "pose" })?.unit {
        add("path", "\(Figures.short(trajectory.length)) \(TrajectoryDrawing.unitWords(unit))")
      }
    }
    if let output = take.output {
      add("file", "\(output.path), \(Figures.bytes(output.bytes))")
      add("content sha256", output.contentDigest.description)
    }
    return facts
  }
}

extension ContactStrip {
  fileprivate var json: JSONValue {
    [
      "key": .string(key.rawValue), "w": JSONValue(cell.width), "h": JSONValue(cell.height),
      "times": .array(seconds.map { .string(Figures.short($0)) }), "missing": JSONValue(missing),
      "depth": .bool(isDepth), "jpeg": .string(Data(jpeg).base64EncodedString()),
    ]
  }
}
