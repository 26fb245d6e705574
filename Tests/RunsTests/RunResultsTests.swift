import Foundation
import Model
import Testing
import TestSupport

@testable import Datasets
@testable import Readers
@testable import Runs
@testable import Steps
@testable import Transforms

@Suite struct RunResultsTests {
  private let directory: TemporaryDirectory
  private let journal: Journal
  private let conversion: TakeConversion
  private let shard = DatasetFiles.shard(of: "a")
  private let task = TakeTask(id: "a", location: TakeLocation(path: "/in/a.mov", isDirectory: false), reader: SlowMotionVideo())

  /// A dataset to which an earlier run has written the take a.
  init() throws {
    directory = try TemporaryDirectory()
    conversion = TakeConversion(
      pipeline: Pipeline(readers: .auto, join: nil, transforms: [Align()], writer: MemoryWriter()),
      tool: ToolIdentity(version: "1", revision: "r"),
      context: RunContext())
    journal = try Journal(path: directory.path + "/journal.jsonl")
    let path = try directory.write(shard, Array("rows".utf8))
    let record = TakeRecord(id: "a", reader: "slow-motion-video", outcome: .written, findings: [])
    try journal.append(
      Journal.Entry(
        .init(
          id: "a", location: "/in/a.mov", pipeline: conversion.digest, toolVersion: "1", outcome: .written, reader: "slow-motion-video",
          shard: UpToDateCheck.stamp(of: path))), record: record.canonicalBytes)
  }

  /// Ends a run that could not convert the take.
  private func fail(_ code: FindingCode) -> RunResults {
    let results = RunResults(
      journal, conversion, directory: directory.path, stopsAtFailure: false, countsEarlierWarnings: false, report: { _ in })
    let record = TakeRecord(
      id: "a", reader: "slow-motion-video", outcome: .failed, reason: "because", findings: [Finding(code, "because")])
    results.finish(TakeJob(task: task), .success([TakeResult(record: record, seconds: 0, framesIn: 0, framesRepeated: 0)]))
    return results
  }

  private var hasShard: Bool { FileManager.default.fileExists(atPath: directory.path + "/" + shard) }

  @Test func theEpisodeOfATakeThatCannotBeReadNowIsKept() {
    let results = fail(.unreadable)
    #expect(results.summary.failed == 1 && !results.hasChanged)
    #expect(journal.entries["a"]?.outcome == .written && hasShard)
  }

  @Test func theEpisodeOfATakeThatIsDamagedNowIsRemoved() {
    #expect(fail(.movieCorrupt).hasChanged)
    #expect(journal.entries["a"]?.outcome == .failed && !hasShard)
  }

  @Test(arguments: [true, false]) func anEpisodeWhoseShardIsNotAsWrittenIsNotKept(isThere: Bool) throws {
    if isThere {
      try directory.write(shard, Array("other rows".utf8))
    } else {
      try FileManager.default.removeItem(atPath: directory.path + "/" + shard)
    }
    let results = fail(.unreadable)
    #expect(results.summary.failed == 1 && results.hasChanged)
    #expect(journal.entries["a"]?.outcome == .failed && !hasShard)
  }
}
