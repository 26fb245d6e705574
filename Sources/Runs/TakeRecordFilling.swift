import Datasets
import Model
import Rasters
import Steps

extension TakeRecord {
  /// Adds the results of reading and transforming a take. Frames that remain when a take is given up count as dropped by its outcome.
  mutating func add(_ trace: TakeTrace) {
    variant = variant ?? trace.source.variant
    id = trace.episode.id
    streams = trace.source.streams.sorted { $0.key < $1.key }.map { name, stream in
      StreamRecord(name: name, samples: stream.timestamps.count, rateHz: stream.cadence.rateHz, clock: stream.spec.clock)
    }
    alignment = trace.episode.alignments.map { Alignment($0) }
    steps = trace.steps
    if outcome != .written, let last = steps.indices.last, steps[last].framesOut > 0 {
      steps[last].dropped.append(Step.Dropped(reason: "take-\(outcome.rawValue)", count: steps[last].framesOut))
      steps[last].framesOut = 0
    }
    var details = trace.episode.details
    // Of a take that ends early, some maps were measured, and which ones depends on timing.
    if outcome == .written, let resampling = trace.episode.depthResampling { details["depth_resampling"] = resampling }
    self.details = details.isEmpty ? nil : details
    verification = trace.episode.verification?.json
  }

  /// The record's `inputs`.
  static func inputs(_ inputs: TakeInputs) -> [Input] {
    inputs.digested.map { Input(path: $0.path, bytes: $0.bytes, digest: $0.digest, role: $0.role) }
  }
}
