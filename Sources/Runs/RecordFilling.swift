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
    if let start = trace.source.frames.timestamps.first, let first = trace.episode.frames.timestamps.first, first != start {
      details[LabelDetails.firstRow] = .integer(first.since(start))
    }
    self.details = details.isEmpty ? nil : details
    verification = trace.episode.verification?.json
  }

  /// The record's `inputs`.
  static func inputs(_ inputs: TakeInputs) -> [Input] {
    inputs.digested.map { Input(path: $0.path, bytes: $0.bytes, digest: $0.digest, role: $0.role) }
  }
}

extension Journal.Entry.Contents {
  /// The entry of a result, without the stamp of its shard.
  init(_ result: TakeResult, of task: TakeTask, _ conversion: TakeConversion) {
    let record = result.record
    self.init(record, location: task.location.path, conversion)
    (stamp, origin, recording, keys) = (result.stamp, result.origin, result.recording, result.keys)
    (framesIn, framesRepeated, seconds) = (result.framesIn, result.framesRepeated, result.seconds)
    parts = result.parts
    hadDuplicateFolder = task.duplicateFolder != nil
    group = task.joinedGroup?.text
  }

  /// The entry of a take that was not converted.
  init(_ record: TakeRecord, location: String, _ conversion: TakeConversion) {
    self.init(
      id: record.id, location: location, pipeline: conversion.digest, toolVersion: conversion.tool.version, outcome: record.outcome,
      reader: record.reader, inputDigest: record.inputDigest?.description, framesIn: record.framesIn, framesOut: record.framesOut)
    setLabels(record.details)
  }
}
