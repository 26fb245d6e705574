/// What is in a take, and everything odd about it; nothing is written.
package struct Inspection: Sendable {
  package var id: String
  package var path: String
  package var reader: String?
  package var variant: String?
  package var outcome: TakeRecord.Outcome
  package var reason: String?
  package var findings: [Finding] = []
  package var episode: Episode?
  package var verification: BundleVerification?
  /// What `align` would do.
  package var alignments: [Episode.Alignment] = []
  /// Part of the frames that would have a sample, by stream.
  package var coverage: [String: Double] = [:]

  /// Every take among the inputs, by id. `visit` may read samples of each; afterwards these are let go of, and with them the files that they
  /// are read from. Throws `NoInputs` when not one input is there.
  package static func all(
    inputs: [String], readers: [any Reader], visit: (Episode) -> Void = { _ in }
  ) throws -> (inspections: [Inspection], notices: [String]) {
    let search = TakeSearch(inputs: inputs, readers: readers)
    if search.isHopeless { throw NoInputs(search) }
    let missed = search.missed.map {
      Inspection(
        id: $0.id, path: $0.path, outcome: .failed, reason: $0.failure.description, findings: [$0.failure.finding])
    }
    let found = search.found.map { found in
      var inspection = Inspection(found)
      inspection.episode.map(visit)
      for name in inspection.episode?.streams.keys.sorted() ?? [] { inspection.episode?.streams[name]?.source = NoSamples() }
      return inspection
    }
    let all = (found + missed).sorted { $0.id.utf8.lexicographicallyPrecedes($1.id.utf8) }
    return (all, search.notices)
  }

  private init(
    id: String, path: String, outcome: TakeRecord.Outcome, reason: String?, findings: [Finding]
  ) {
    self.id = id
    self.path = path
    self.outcome = outcome
    self.reason = reason
    self.findings = findings
  }

  private init(_ found: TakeSearch.Found) {
    id = found.id
    path = found.location.path
    reader = type(of: found.reader).name
    outcome = .written
    findings = found.findings
    do {
      let inputs = try found.reader.inputs(of: found.location)
      _ = try inputs.stamp()
      let episode = try found.reader.open(Take(id: found.id, location: found.location, inputs: inputs, twin: found.twin))
      self.episode = episode
      variant = episode.variant
      // Without keys, only the chain's form; a run by default rejects a bundle whose chain is broken.
      do {
        let verified = try VerifyHashChain().apply(to: episode)
        verification = verified.verification
        findings += verified.findings.dropFirst(episode.findings.count)
      } catch let rejection as Rejection {
        verification = rejection.episode?.verification
        findings += (rejection.episode?.findings ?? []).dropFirst(episode.findings.count)
        outcome = .rejected
        reason = "\(VerifyHashChain.name): \(rejection.reason)"
      }
      findings += episode.findings
      // Nothing is moved by it; how the clocks were brought together is what is wanted.
      let aligned = try Align().apply(to: episode)
      findings += aligned.findings.dropFirst(episode.findings.count)
      alignments = aligned.alignments
      for (name, stream) in aligned.streams {
        guard let rows = stream.rows, !rows.isEmpty else { continue }
        coverage[name] = Double(rows.count { $0 != nil }) / Double(rows.count)
      }
      try probe(episode)
      try inputs.checkMembers()
    } catch let rejection as Rejection {
      outcome = .rejected
      reason = rejection.reason
      variant = variant ?? rejection.variant
    } catch {
      let failure = error as? TakeFailure ?? TakeFailure("internal", "\(error)")
      outcome = .failed
      reason = failure.description
      findings.append(failure.finding)
    }
  }

  /// Looks at every sample's size and header, and decodes movies, which have no others.
  private mutating func probe(_ episode: Episode) throws {
    for (_, stream) in episode.streams.sorted(by: { $0.key < $1.key }) where stream.spec.isGrid {
      var first: [Finding] = []
      for index in stream.timestamps.indices {
        do {
          try stream.source.probe(index)
        } catch let failure as SampleFailure {
          let same = first.firstIndex { $0.code == failure.finding.code }
          if same == nil { first.append(failure.finding) }
          first[same ?? first.count - 1].count = (same.flatMap { first[$0].count } ?? 0) + 1
        }
      }
      try stream.source.feed?.finish()
      findings += first
      if stream.spec.kind == .image, let finding = first.first, first.reduce(0, { $0 + ($1.count ?? 0) }) * 5 > stream.timestamps.count {
        throw TakeFailure.tooManyUndecodable(of: stream.timestamps.count, first: finding)
      }
    }
  }

  package var json: JSONValue {
    [
      "id": .string(id), "path": .string(path), "reader": JSONValue(reader), "variant": JSONValue(variant),
      "would_be": .string(outcome.rawValue), "reason": JSONValue(reason), "findings": .array(findings.map(\.json)),
      "frames": episode.map { JSONValue($0.frames.count) } ?? .null,
      "source_frames": episode.map { JSONValue($0.sourceFrames) } ?? .null,
      "seconds": episode?.seconds.map { .number($0) } ?? .null,
      "rate_hz": episode.flatMap { $0.frames.cadence.rateHz }.map { .number($0) } ?? .null,
      "details": episode.map { .object($0.details) } ?? [:], "verification": verification?.json ?? .null,
      "alignment": .array(alignments.map(\.json)),
      "gaps": episode.map { JSONValue($0.gapCount) } ?? .null,
      "dropped": .array(
        (episode?.dropped ?? []).map { ["reason": .string($0.reason), "count": JSONValue($0.count)] }),
      "streams": .array(
        (episode?.streams ?? [:]).sorted { $0.key < $1.key }.map { name, stream in
          [
            "name": .string(name), "samples": JSONValue(stream.timestamps.count),
            "shape": .array(stream.spec.shape.map { JSONValue($0) }), "dtype": .string(stream.spec.type.numpyName),
            "unit": .string(stream.spec.unit), "clock": .string(stream.spec.clock.rawValue),
            "coverage": coverage[name].map { .number($0) } ?? .null,
            "intrinsics": stream.spec.intrinsics?.usual.json(for: stream.spec.pixels) ?? .null,
            "rate_hz": Cadence(stream.timestamps, nominalRate: stream.nominalRate).rateHz.map { .number($0) } ?? .null,
          ]
        }),
    ]
  }
}

extension Episode {
  /// From the first frame to the last.
  package var seconds: Double? {
    guard let first = frames.timestamps.first, let last = frames.timestamps.last else { return nil }
    return Double(last.since(first)) / 1e9
  }

  package var gapCount: Int { frames.gaps.count }
}
