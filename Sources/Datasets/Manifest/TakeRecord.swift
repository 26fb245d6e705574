package import Evidence
import Foundation
package import Model
package import Steps

/// The manifest's record of one take. Plain data: it can be decoded from the manifest, the journal or a worker's result.
package struct TakeRecord: Sendable, Equatable {
  /// The outcome of a conversion: a step may reject a take, which is a decision; a take fails where it cannot be read or written.
  package enum Outcome: String, Sendable { case written, rejected, failed }

  /// A file of the take that was read, by its content.
  package struct Input: Sendable, Equatable {
    /// Relative to the take, `/`-separated.
    package var path: String
    package var bytes: Int64
    package var digest: Digest
    package var role: TakeInputs.Role

    package init(path: String, bytes: Int64, digest: Digest, role: TakeInputs.Role) {
      (self.path, self.bytes, self.digest, self.role) = (path, bytes, digest, role)
    }
  }

  /// A stream as the sensor gave it, before any step: samples are not rows.
  package struct StreamRecord: Sendable, Equatable {
    package var name: StreamName
    package var samples: Int
    package var rateHz: Double?
    package var clock: Clock

    package init(name: StreamName, samples: Int, rateHz: Double? = nil, clock: Clock) {
      (self.name, self.samples, self.rateHz, self.clock) = (name, samples, rateHz, clock)
    }
  }

  /// A step that ran, with the frames that it took and gave.
  package struct Step: Sendable, Equatable {
    package var name: String
    package var options: JSONValue
    package var framesIn: Int
    package var framesOut: Int
    package var dropped: [Dropped]
    /// Rows that repeat the frame of an earlier row, and ticks in gaps; only of steps that resample.
    package var repeated: Int?
    package var skippedTicks: Int?

    package init(
      name: String, options: JSONValue, framesIn: Int, framesOut: Int, dropped: [Dropped], repeated: Int? = nil, skippedTicks: Int? = nil
    ) {
      (self.name, self.options, self.framesIn, self.framesOut, self.dropped, self.repeated, self.skippedTicks) = (
        name, options, framesIn, framesOut, dropped, repeated, skippedTicks
      )
    }

    /// The number of frames that a step dropped for a reason, such as `blurred`.
    package struct Dropped: Sendable, Equatable {
      package var reason: String
      package var count: Int

      package init(reason: String, count: Int) { (self.reason, self.count) = (reason, count) }
    }
  }

  /// The placement of a stream on the frames' timeline. Offsets and the residual are in nanoseconds.
  package struct Alignment: Sendable, Equatable {
    package var stream: StreamName
    package var method: String
    /// Decimal text: offsets between clocks can exceed 2^53 ns.
    package var offset: String?
    package var residual: Int64?
    /// Decimal text, where a latency was given.
    package var latency: String?
    package var member: String?

    package init(
      stream: StreamName, method: String, offset: String? = nil, residual: Int64? = nil, latency: String? = nil, member: String? = nil
    ) {
      (self.stream, self.method, self.offset, self.residual, self.latency) = (stream, method, offset, residual, latency)
      self.member = member
    }
  }

  /// A stream that `takeset add` has added to the episode.
  package struct Addition: Sendable, Equatable {
    package var stream: StreamName
    /// The name of the file that the values were in, without its folder, and the digest of its bytes.
    package var file: String
    package var digest: Digest
    package var unit: String

    package init(stream: StreamName, file: String, digest: Digest, unit: String) {
      (self.stream, self.file, self.digest, self.unit) = (stream, file, digest, unit)
    }
  }

  package var id: EpisodeID
  package var reader: String?
  package var variant: String?
  package var outcome: Outcome
  package var reason: String?
  package var findings: [Finding]
  package var inputs: [Input] = []
  package var inputDigest: Digest?
  package var streams: [StreamRecord] = []
  package var alignment: [Alignment] = []
  package var steps: [Step] = []
  package var details: [String: JSONValue]?
  package var verification: JSONValue?
  package var output: OutputRecord?
  package var additions: [Addition] = []
  /// Of an episode that is written; `nil` where an earlier version has written it.
  package var measures: Measures?

  package init(id: EpisodeID, reader: String?, outcome: Outcome, reason: String? = nil, findings: [Finding]) {
    (self.id, self.reader, self.outcome, self.reason, self.findings) = (id, reader, outcome, reason, findings)
  }

  package var framesIn: Int { steps.first?.framesIn ?? 0 }
  package var framesOut: Int { output?.samples ?? 0 }

  /// Whether a take can have so many frames, rows, episodes or bytes. Sums over millions of takes are numbers, too.
  package static func isPlausibleCount(_ count: Int) -> Bool { (0...(1 << 40)).contains(count) }

  /// True where a take is written with a finding above `info`.
  package var hasWarnings: Bool { outcome == .written && findings.contains { $0.severity != .info } }

  // MARK: Faults of the machine

  /// Whether it failed for a reason that may pass: files that are still arriving, or a disk that fails to answer.
  package var mayPass: Bool { hasFailed(by: [.changedWhileReading, .unreadable]) }

  /// Whether it failed because the machine did not let its files be read, whatever they are.
  package var isUnreadable: Bool { hasFailed(by: FindingCode.ofMachine) }

  /// Whether another attempt, or one with other limits, may have another result: the failure says more of the machine than of the take.
  package var mayDiffer: Bool { mayPass || hasFailed(by: [.conversionCrashed, .internal, .memoryLimit, .timeLimit]) }

  private func hasFailed(by codes: Set<FindingCode>) -> Bool { outcome == .failed && findings.contains { codes.contains($0.code) } }

  // MARK: Canonical form

  /// The record in the manifest's canonical form (RFC 8785). Inputs are written one by one: a long take has tens of thousands.
  package var canonicalBytes: [UInt8] {
    let members = members
    var output: [UInt8] = []
    output.reserveCapacity(4096 + inputs.count * 150)
    JSONValue.appendObject(members.keys + ["inputs"], to: &output) { key, output in
      if let member = members[key] { return member.appendCanonical(to: &output) }
      output.append(UInt8(ascii: "["))
      for (index, input) in inputs.enumerated() {
        if index > 0 { output.append(UInt8(ascii: ",")) }
        output += "{\"bytes\":\(input.bytes),\"path\":".utf8
        JSONValue.appendQuoted(input.path, to: &output)
        output += ",\"role\":\"\(input.role.rawValue)\",\"sha256\":\"\(input.digest)\"}".utf8
      }
      output.append(UInt8(ascii: "]"))
    }
    return output
  }

  /// All members except the inputs.
  private var members: [String: JSONValue] {
    var members: [String: JSONValue] = [
      "reader": JSONValue(reader), "variant": JSONValue(variant), "outcome": .string(outcome.rawValue),
      "reason": JSONValue(reason), "findings": .array(findings.map(\.json)), "input_sha256": JSONValue(inputDigest?.description),
      "streams": .array(
        streams.map {
          [
            "name": .string($0.name.rawValue), "samples": JSONValue($0.samples), "rate_hz": $0.rateHz.map { .number($0) } ?? .null,
            "clock": .string($0.clock.rawValue),
          ]
        }),
      "alignment": .array(alignment.map(\.json)), "steps": .array(steps.map(\.json)), "output": output?.json ?? .null,
    ]
    id.addMembers(to: &members)
    if let details { members["details"] = .object(details) }
    if let verification { members["verification"] = verification }
    if let measures { members["measures"] = measures.json }
    if !additions.isEmpty {
      members["additions"] = .array(
        additions.map {
          [
            "stream": .string($0.stream.rawValue), "file": .string($0.file), "sha256": .string($0.digest.description),
            "unit": .string($0.unit),
          ]
        })
    }
    return members
  }
}

extension TakeRecord.Step {
  package var json: JSONValue {
    var members: [String: JSONValue] = [
      "name": .string(name), "options": options, "frames_in": JSONValue(framesIn), "frames_out": JSONValue(framesOut),
      "dropped": .array(dropped.map { ["reason": .string($0.reason), "count": JSONValue($0.count)] }),
    ]
    if let repeated { members["repeated"] = JSONValue(repeated) }
    if let skippedTicks { members["skipped_ticks"] = JSONValue(skippedTicks) }
    return .object(members)
  }
}

extension TakeRecord.Alignment {
  package init(_ alignment: Episode.Alignment) {
    self.init(
      stream: alignment.stream, method: alignment.method, offset: alignment.offset.map { String($0) }, residual: alignment.residual,
      latency: alignment.latency.map { String($0) }, member: alignment.member)
  }

  package var json: JSONValue {
    var members: [String: JSONValue] = [
      "stream": .string(stream.rawValue), "method": .string(method), "offset_ns": JSONValue(offset),
      "residual_ns": residual.map { .integer($0) } ?? .null,
    ]
    if let latency { members["latency_ns"] = .string(latency) }
    if let member { members["member"] = .string(member) }
    return .object(members)
  }
}

extension Finding {
  package var json: JSONValue {
    var members: [String: JSONValue] = [
      "code": .string(code.rawValue), "severity": .string(severity.rawValue), "message": .string(message),
    ]
    if let file { members["file"] = .string(file) }
    if let field { members["field"] = .string(field) }
    if let count { members["count"] = JSONValue(count) }
    return .object(members)
  }
}

extension Finding {
  /// Whether its count is one that a take can have.
  package var hasPlausibleCount: Bool { count.map(TakeRecord.isPlausibleCount) ?? true }
}
