import Foundation
import HDF5

/// What the manifest says of one take.
package struct TakeRecord: Sendable {
  package enum Outcome: String, Sendable { case written, rejected, failed }

  package var id: String
  package var reader: String?
  package var variant: String?
  package var outcome: Outcome
  package var reason: String?
  package var findings: [Finding]
  package var inputs: TakeInputs?
  package var passage: Passage?
  package var shard: (path: String, summary: ShardSummary)?

  package init(
    id: String, reader: String?, outcome: Outcome, reason: String? = nil, findings: [Finding], inputs: TakeInputs? = nil,
    passage: Passage? = nil
  ) {
    self.id = id
    self.reader = reader
    variant = passage?.source.variant
    self.outcome = outcome
    self.reason = reason
    self.findings = findings
    self.inputs = inputs
    self.passage = passage
  }

  var framesIn: Int { passage?.source.sourceFrames ?? 0 }
  var framesOut: Int { shard?.summary.samples ?? 0 }

  /// The record in the manifest's canonical form. Inputs are written one by one: a long take has tens of thousands.
  package var canonicalBytes: [UInt8] {
    let members = members
    var output: [UInt8] = []
    JSONValue.appendObject(members.keys + ["inputs"], to: &output) { key, output in
      if let member = members[key] {
        member.appendCanonical(to: &output)
      } else if let inputs {
        inputs.appendCanonical(to: &output)
      } else {
        output += "[]".utf8
      }
    }
    return output
  }

  /// All members but the inputs.
  private var members: [String: JSONValue] {
    var members: [String: JSONValue] = [
      "id": .string(id), "reader": JSONValue(reader), "variant": JSONValue(variant),
      "outcome": .string(outcome.rawValue), "reason": JSONValue(reason), "findings": .array(findings.map(\.json)),
      "input_sha256": JSONValue(inputs.map { $0.digest.description }),
      "streams": .array(passage.map { streams($0.source) } ?? []),
      "alignment": .array(passage?.episode.alignments.map(\.json) ?? []), "steps": .array(steps),
      "output": .null,
    ]
    if let details = passage?.episode.details, !details.isEmpty { members["details"] = .object(details) }
    if let verification = passage?.episode.verification { members["verification"] = verification.json }
    if let shard { members["output"] = shard.summary.json(path: shard.path) }
    return members
  }

  private func streams(_ episode: Episode) -> [JSONValue] {
    episode.streams.sorted { $0.key < $1.key }.map { name, stream in
      [
        "name": .string(name), "samples": JSONValue(stream.timestamps.count),
        "rate_hz": Cadence(stream.timestamps, nominalRate: stream.nominalRate).rateHz.map { .number($0) } ?? .null,
        "clock": .string(stream.spec.clock.rawValue),
      ]
    }
  }

  /// The steps that ran; frames that were left when a take was given up are dropped by its outcome.
  private var steps: [JSONValue] {
    var records = passage?.steps ?? []
    if outcome != .written, let last = records.indices.last, records[last].framesOut > 0 {
      records[last].dropped.append(Episode.Dropped(reason: "take-\(outcome.rawValue)", count: records[last].framesOut))
      records[last].framesOut = 0
    }
    return records.map { step in
      [
        "name": .string(step.name), "options": step.options, "frames_in": JSONValue(step.framesIn),
        "frames_out": JSONValue(step.framesOut),
        "dropped": .array(step.dropped.map { ["reason": .string($0.reason), "count": JSONValue($0.count)] }),
      ]
    }
  }
}

extension Finding {
  package var json: JSONValue {
    var members: [String: JSONValue] = [
      "code": .string(code), "severity": .string(severity.rawValue), "message": .string(message),
    ]
    if let file { members["file"] = .string(file) }
    if let field { members["field"] = .string(field) }
    if let count { members["count"] = JSONValue(count) }
    return .object(members)
  }
}

extension Episode.Alignment {
  /// Offsets between clocks can exceed 2^53 ns and are decimal text.
  var json: JSONValue {
    [
      "stream": .string(stream), "method": .string(method), "offset_ns": JSONValue(offset.map { String($0) }),
      "residual_ns": residual.map { .integer($0) } ?? .null,
    ]
  }
}

extension ShardSummary {
  func json(path: String) -> JSONValue {
    [
      "path": .string(path), "bytes": .integer(bytes), "sha256": .string(digest.description),
      "samples": JSONValue(samples),
      "datasets": .array(
        datasets.map { dataset in
          var members = dataset.layout.json(path: dataset.path)
          members["sha256"] = .string(dataset.digest.description)
          return .object(members)
        }),
    ]
  }
}
