import Evidence
import Foundation
import Model
import Testing
import TestSupport

@testable import Datasets
@testable import Readers
@testable import Runs
@testable import Steps
@testable import Transforms

@Suite struct UpToDateCheckTests {
  private let directory: TemporaryDirectory
  private let journal: Journal
  private let conversion: TakeConversion
  private let location: TakeLocation

  init() throws {
    directory = try TemporaryDirectory()
    location = TakeLocation(path: try directory.write("in/a.mov", Array("content".utf8)), isDirectory: false)
    journal = try Journal(path: directory.path + "/journal.jsonl")
    conversion = TakeConversion(
      pipeline: Pipeline(readers: .auto, join: nil, transforms: [Align()], writer: MemoryWriter()),
      tool: ToolIdentity(version: "1", revision: "r"),
      context: RunContext())
  }

  private func listed(_ id: String = "a", duplicateFolder: TakeLocation? = nil) throws -> TakeJob {
    let job = TakeJob(task: TakeTask(id: id, location: location, reader: SlowMotionVideo(), duplicateFolder: duplicateFolder))
    try conversion.list(job)
    return job
  }

  /// The entry of a take that was rejected, so that no shard is needed.
  private func entry(_ job: TakeJob) throws -> Journal.Entry {
    try job.inputs?.finishDigests()
    return Journal.Entry(
      .init(
        id: EpisodeID(take: job.task.id), location: location.path, pipeline: conversion.digest, toolVersion: "1", outcome: .rejected,
        reader: "slow-motion-video", stamp: job.stamp?.description, inputDigest: job.inputs?.digest.description))
  }

  private func isFresh(_ job: TakeJob, _ entry: Journal.Entry?, checksContent: Bool = false) throws -> Bool {
    try isFresh(job, entries: entry.map { [$0] } ?? [], checksContent: checksContent)
  }

  private func isFresh(_ job: TakeJob, entries: [Journal.Entry], checksContent: Bool = false) throws -> Bool {
    for entry in entries { try journal.append(entry, record: Array("{}".utf8)) }
    let freshness = UpToDateCheck(
      journal: journal, earlier: Dictionary(grouping: entries, by: \.id.take), conversion: conversion, directory: directory.path,
      checksContent: checksContent, replaces: false, checks: .none)
    if case .fresh = try freshness.verdict(job, log: { _ in }) { return true }
    return false
  }

  @Test func aTakeThatIsThereAsItWouldBeMadeIsFresh() throws {
    let job = try listed()
    #expect(try isFresh(job, entry(job)))
    #expect(try isFresh(listed(), entry(job), checksContent: true))
    #expect(try !isFresh(listed(), nil))
  }

  @Test func everythingThatDecidesTheOutcomeMakesItStale() throws {
    let changes: [(inout Journal.Entry) -> Void] = [
      { $0.pipeline = "other" }, { $0.toolVersion = "2" }, { $0.reader = "other" }, { $0.outcome = .failed },
      { $0.keys = "some keys" }, { $0.hadDuplicateFolder = true },
    ]
    for (index, change) in changes.enumerated() {
      let job = try listed()
      var changed = try entry(job)
      change(&changed)
      #expect(try !isFresh(job, changed), "change \(index)")
    }
    let job = try listed(duplicateFolder: TakeLocation(path: "/folder", isDirectory: true))
    #expect(try !isFresh(job, entry(job)))
  }

  @Test func aTakeThatLacksAnEpisodeIsStale() throws {
    let job = try listed()
    let whole = try entry(job)
    func episodes(_ numbers: [Int], of count: Int) -> [Journal.Entry] {
      numbers.map { number in
        var contents = whole.contents
        (contents.id.part, contents.parts) = (number, count)
        return Journal.Entry(contents)
      }
    }
    #expect(try isFresh(job, entries: episodes([2, 0, 1], of: 3)))
    for lacking in [[0, 1], [1, 2], [0]] { #expect(try !isFresh(job, entries: episodes(lacking, of: 3)), "\(lacking)") }
    // Of two conversions.
    #expect(try !isFresh(job, entries: episodes([0, 1], of: 2) + episodes([2], of: 3)))
    #expect(try !isFresh(job, entries: [whole] + episodes([0], of: 1)))
  }

  @Test func touchedFilesAreComparedByContentAndNotedAgain() throws {
    let earlier = try entry(listed())
    try FileManager.default.setAttributes([.modificationDate: Date(timeIntervalSince1970: 1_000_000_000)], ofItemAtPath: location.path)
    let touched = try listed()
    #expect(touched.stamp?.description != earlier.stamp)
    #expect(try isFresh(touched, earlier))
    // The next run need not read it.
    #expect(journal.entries["a"]?.stamp == touched.stamp?.description)
    try directory.write("in/a.mov", Array("changed".utf8))
    #expect(try !isFresh(listed(), earlier))
  }

  @Test func aWrittenTakeWhoseShardIsGoneIsStale() throws {
    let job = try listed()
    var written = try entry(job)
    (written.outcome, written.shard) = (.written, "a stamp that no file has")
    var record = TakeRecord(id: "a", reader: "slow-motion-video", outcome: .written, findings: [])
    record.output = OutputRecord(
      path: "episodes/a.memory", bytes: 0, samples: 0, arrays: [], structureDigest: Digest.of(""), attributesDigest: Digest.of(""))
    try journal.append(written, record: record.canonicalBytes)
    let freshness = UpToDateCheck(
      journal: journal, earlier: ["a": [written]], conversion: conversion, directory: directory.path, checksContent: false,
      replaces: false, checks: .none)
    guard case .stale(let reason) = try freshness.verdict(job, log: { _ in }) else { return #expect(Bool(false), "it is fresh") }
    #expect(reason?.contains("shard") == true)
  }
}
