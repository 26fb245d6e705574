import Datasets
import Model
import Steps

extension Journal.Entry.Contents {
  /// The entry of a result, without the stamp of its shard.
  init(_ result: TakeResult, of task: TakeTask, _ conversion: TakeConversion) {
    let record = result.record
    self.init(record, location: task.location.path, conversion)
    (stamp, origin, recording, keys) = (result.stamp, result.origin, result.recording, result.keys)
    (framesIn, framesRepeated, seconds) = (result.framesIn, result.framesRepeated, result.seconds)
    parts = result.parts
    hadDuplicateFolder = task.duplicateFolder != nil
  }

  /// The entry of a take that was not converted.
  init(_ record: TakeRecord, location: String, _ conversion: TakeConversion) {
    self.init(
      id: record.id, location: location, pipeline: conversion.digest, toolVersion: conversion.tool.version, outcome: record.outcome,
      reader: record.reader, inputDigest: record.inputDigest?.description, framesIn: record.framesIn, framesOut: record.framesOut)
  }
}
