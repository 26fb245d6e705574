package import Datasets
package import Evidence
package import Model
import Readers
package import Runs
package import Steps

/// The contents and findings of a take, and the outcome that a run would give it; nothing is written.
package struct Inspection: Sendable {
  package var id: String
  package var path: String
  package var reader: String?
  package var variant: String?
  package var outcome: TakeRecord.Outcome
  package var reason: String?
  package var findings: [Finding] = []
  package var episode: EpisodeSummary?
  /// Number of episodes that a step makes of the take; `nil` where none does.
  package var episodes: Int?
  package var verification: BundleVerification?
  /// The alignments that `align` would make.
  package var alignments: [Episode.Alignment] = []

  /// Every take among the inputs, sorted by id. `visit` may read samples of each episode after the pipeline's transforms. Throws `NoInputs`
  /// when none of the inputs exists.
  package static func all(
    inputs: [String], pipeline: Pipeline, followsLinks: Bool = false, context: RunContext = RunContext(),
    visit: (Episode) -> Void = { _ in }
  ) throws -> (inspections: [Inspection], ignored: IgnoredPlaces, notices: [String]) {
    let search = TakeSearch(inputs: inputs, pipeline: pipeline, followsLinks: followsLinks)
    if search.hasNoInput { throw NoInputs(search.unmatchedInWords) }
    let unmatched = search.unmatched.map {
      Inspection(
        id: $0.id, path: $0.path, outcome: .failed, reason: $0.failure.description, findings: [$0.failure.finding])
    }
    let found = search.found.map { Inspection($0, pipeline, context, visit) }
    let all = (found + unmatched).sorted { $0.id.utf8.lexicographicallyPrecedes($1.id.utf8) }
    return (all, search.ignored, search.notices)
  }

  private init(id: String, path: String, outcome: TakeRecord.Outcome, reason: String?, findings: [Finding]) {
    (self.id, self.path, self.outcome, self.reason, self.findings) = (id, path, outcome, reason, findings)
  }

  private init(_ found: TakeSearch.Found, _ pipeline: Pipeline, _ context: RunContext, _ visit: (Episode) -> Void) {
    id = found.id
    path = found.location.path
    reader = type(of: found.reader).name
    outcome = .written
    findings = found.findings
    do {
      let inputs = try found.reader.inputs(of: found.location)
      _ = try inputs.stamp()
      let take = Take(id: found.id, location: found.location, inputs: inputs, duplicateFolder: found.duplicateFolder)
      let traces = try pipeline.open(take, with: found.reader, in: context)
      guard let trace = traces.first else { return }
      if trace.parts != nil { episodes = traces.count }
      variant = trace.source.variant
      findings += trace.episode.findings
      alignments = trace.episode.alignments
      verification = trace.episode.verification
      episode = EpisodeSummary(trace.source, final: trace.episode)
      traces.forEach { visit($0.episode) }
      let obstacles = traces.compactMap(\.obstacle)
      // A take is rejected if all of its episodes are.
      if let obstacle = obstacles.first(where: { !($0 is Rejection) }) ?? (obstacles.count == traces.count ? obstacles.first : nil) {
        end(obstacle)
      } else {
        for trace in traces where trace.obstacle == nil { _ = try pipeline.writer.plan(trace.episode) }
      }
      try check(trace.source)
      try inputs.checkMembers()
    } catch {
      end(error)
    }
  }

  private mutating func end(_ error: any Error) {
    if let rejection = error as? Rejection {
      outcome = .rejected
      reason = rejection.reason
      variant = variant ?? rejection.variant
    } else {
      let failure = error as? TakeFailure ?? (error as? FileError)?.failure() ?? TakeFailure(.internal, "\(error)")
      outcome = .failed
      reason = failure.description
      findings.append(failure.finding)
    }
  }

  /// Decodes every sample, images at the lowest decode resolution.
  private mutating func check(_ episode: Episode) throws {
    for (_, stream) in episode.streams.sorted(by: { $0.key < $1.key }) where stream.spec.kind.isRaster {
      var lost: [Finding] = [], noted: [Finding] = []
      var cursor = try stream.source.makeCursor(SampleRequest(form: .check))
      var bytes: [UInt8] = []
      for index in stream.timestamps.indices {
        do {
          try cursor.read(index, into: &bytes)
          for note in cursor.notes { noted.note(note) }
        } catch let failure as SampleFailure {
          lost.note(failure.finding)
        }
      }
      try stream.source.access.feed?.finish()
      findings += lost + noted
      if stream.spec.kind == .image, let finding = lost.first, lost.reduce(0, { $0 + ($1.count ?? 0) }) * 5 > stream.timestamps.count {
        throw TakeFailure.tooManyUndecodable(of: stream.timestamps.count, first: finding)
      }
    }
  }

  package var json: JSONValue {
    var members: [String: JSONValue] = [
      "id": .string(id), "path": .string(path), "reader": JSONValue(reader), "variant": JSONValue(variant),
      "would_be": .string(outcome.rawValue), "reason": JSONValue(reason), "findings": .array(findings.map(\.json)),
      "frames": episode.map { JSONValue($0.frames) } ?? .null,
      "source_frames": episode.map { JSONValue($0.sourceFrames) } ?? .null,
      "seconds": episode?.seconds.map { .number($0) } ?? .null,
      "rate_hz": episode?.rateHz.map { .number($0) } ?? .null,
      "details": episode.map { .object($0.details) } ?? [:], "verification": verification?.json ?? .null,
      "alignment": .array(alignments.map { TakeRecord.Alignment($0).json }),
      "gaps": episode.map { JSONValue($0.gaps) } ?? .null,
      "dropped": .array(
        (episode?.dropped ?? []).map { ["reason": .string($0.reason), "count": JSONValue($0.count)] }),
      "streams": .array((episode?.streams ?? []).map(\.json)),
    ]
    if let episodes { members["episodes"] = JSONValue(episodes) }
    return .object(members)
  }
}

extension EpisodeSummary.StreamSummary {
  fileprivate var json: JSONValue {
    [
      "name": .string(name.rawValue), "samples": JSONValue(samples), "shape": .array(shape.map { JSONValue($0) }),
      "dtype": .string(numpyName), "unit": .string(unit), "clock": .string(clock.rawValue),
      "coverage": coverage.map { .number($0) } ?? .null,
      "intrinsics": size.flatMap { size in intrinsics.map { $0.json(for: size) } } ?? .null,
      "rate_hz": rateHz.map { .number($0) } ?? .null,
    ]
  }
}
