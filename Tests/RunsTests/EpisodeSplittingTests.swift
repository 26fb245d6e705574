import Evidence
import Foundation
import Model
import Synchronization
import Testing
import TestSupport

@testable import Datasets
@testable import Runs
@testable import Steps
@testable import Transforms

/// Fails for episodes of two frames.
private struct FailsForTwo: Transform {
  static let name = "fails-for-two"
  static let summary = "Fails for episodes of two frames, for tests"
  func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    if episode.frames.count == 2 { throw TakeFailure(.limit, "two frames") }
    return episode
  }
}

@Suite struct EpisodeSplittingTests {
  private let directory: TemporaryDirectory
  private var output: String { directory.path + "/out" }
  /// Gaps after the third and the fifth frame.
  private let three = "0 100 200 600 700 1200"

  init() throws { directory = try TemporaryDirectory() }

  private func step<S: Step>(_ type: S.Type, _ options: JSONValue) throws -> S { try Options.decode(type, over: options, at: S.name) }
  private func gaps() throws -> SplitEpisodes { try step(SplitEpisodes.self, ["at": "gaps"]) }

  private func run(
    _ transforms: [any Transform], replaces: Bool = false, jobs: Int = 1, report: @escaping @Sendable (Run.Event) -> Void = { _ in }
  ) throws -> Run.Summary {
    var run = Run(
      inputs: [directory.path + "/in"], output: output,
      pipeline: Pipeline(readers: .one(ListedFrames()), join: nil, transforms: transforms, writer: HDF5Writer()),
      tool: ToolIdentity(version: "test", revision: "test"))
    (run.replaces, run.jobs) = (replaces, jobs)
    return try run.execute(report: report)
  }

  private func write(_ times: String, as name: String = "take") throws { try directory.write("in/\(name).frames", Array(times.utf8)) }
  private func records() throws -> [TakeRecord] {
    let dataset = try dataset()
    return try dataset.takes.map { try dataset.record(of: $0) }
  }
  private func entries() throws -> [Journal.Entry] {
    try Journal.contents(at: output + "/journal.jsonl").entries.values.sorted { $0.id < $1.id }
  }
  private func shards() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: output + "/episodes").sorted() }
  private func dataset() throws -> Dataset { try Dataset(directory: output) }
  private func totals() throws -> [String: Int] { try dataset().record.totals.compactMapValues { $0.integer.map { Int($0) } } }

  // MARK: One run

  @Test func everyEpisodeIsAnEntryOfItsTake() throws {
    try write(three)
    let events = Mutex<[String]>([])
    let summary = try run([gaps()]) { event in
      guard case .finished(let id, let take, _, _, _, let rows, _, let endsTake) = event else { return }
      events.withLock { $0.append("\(id) of \(take): \(rows)\(endsTake ? ", the last" : "")") }
    }
    #expect(summary.written == 3 && summary.rows == 6 && summary.unchanged == 0)
    #expect(events.withLock(\.self) == ["take.0 of take: 3", "take.1 of take: 2", "take.2 of take: 1, the last"])
    let entries = try entries()
    #expect(entries.map(\.id) == ["take.0", "take.1", "take.2"] && entries.allSatisfy { $0.id.take == "take" && $0.parts == 3 })
    #expect(entries.map(\.id.part) == [0, 1, 2])
    // The take and its frames count once.
    #expect(entries.map(\.framesIn) == [6, 0, 0] && entries.map(\.framesOut) == [3, 2, 1])
    #expect(Set(entries.map(\.inputDigest)).count == 1 && Set(entries.map(\.shard)).count == 3)
    #expect(try shards() == ["take.0.h5", "take.1.h5", "take.2.h5"])
    #expect(
      try totals() == [
        "takes": 1, "written": 3, "rejected": 0, "failed": 0, "frames_in": 6, "frames_out": 6, "frames_repeated": 0, "frames_dropped": 0,
      ])
    let record = try #require(try records().last)
    #expect(record.id.take == "take" && record.id.part == 2)
    #expect(record.steps.map(\.framesIn) == [6, 6] && record.steps.map(\.framesOut) == [6, 1])
    #expect(record.steps.last?.dropped == [TakeRecord.Step.Dropped(reason: "other-episodes", count: 5)])
    #expect(try dataset().episode(dataset().written[1]).frames.sourceIndex == [3, 4])
    #expect(try Verification(directory: output, inputs: true).isSound)
  }

  @Test func aSecondRunHasNothingToDo() throws {
    try write(three)
    _ = try run([gaps()])
    let before = try (entries(), Data(contentsOf: URL(fileURLWithPath: output + "/manifest.json")))
    let again = try run([gaps()])
    #expect(again.isUpToDate && again.unchanged == 1 && again.written == 0 && again.rows == 6)
    #expect(try entries() == before.0 && Data(contentsOf: URL(fileURLWithPath: output + "/manifest.json")) == before.1)
    // If one shard is lost, the whole take is made again.
    try FileManager.default.removeItem(atPath: output + "/episodes/take.1.h5")
    let mended = try run([gaps()])
    #expect(mended.written == 3 && mended.unchanged == 0)
    #expect(try shards().count == 3)
  }

  @Test func episodesAreInOrderOfTheirNumbersWhateverTheThreads() throws {
    try write((0..<12).map { String($0 * 1000) }.joined(separator: " "), as: "b")
    try write("0 100", as: "a")
    _ = try run([gaps()])
    let expected = ["a.0"] + (0..<12).map { "b.\($0)" }
    #expect(try dataset().takes.map(\.id.text) == expected)
    let alone = try records().map(\.canonicalBytes)
    try FileManager.default.removeItem(atPath: output)
    _ = try run([gaps()], jobs: 4)
    #expect(try records().map(\.canonicalBytes) == alone)
  }

  @Test func episodesOfATakeAreInOnePart() throws {
    for name in 0..<8 { try write(three, as: "take\(name)") }
    _ = try run([gaps(), step(Split.self, ["valid": .number(0.4), "group": "take"])])
    let splits = try dataset().record.splits
    let parts = ["train", "valid"].map { splits[$0]?.array?.compactMap(\.string) ?? [] }
    #expect(parts.map(\.count).reduce(0, +) == 24 && parts.allSatisfy { !$0.isEmpty })
    for part in parts {
      for (_, ids) in Dictionary(grouping: part, by: { $0.split(separator: ".")[0] }) { #expect(ids.count == 3) }
    }
  }

  // MARK: Repeated frames

  @Test func rowsRepeatedBeforeTheSplitCountOnce() throws {
    try write(three)
    _ = try run([step(Resample.self, ["rate": 20]), gaps()])
    // Ticks at 0 to 200, 600 to 700 and 1200 ms: nine, of which three repeat a frame.
    #expect(try entries().map(\.framesOut) == [5, 3, 1] && entries().map(\.framesRepeated) == [3, 0, 0])
    let totals = try totals()
    #expect(totals["frames_in"] == 6 && totals["frames_repeated"] == 3 && totals["frames_out"] == 9 && totals["frames_dropped"] == 0)
  }

  @Test func rowsRepeatedAfterTheSplitCountForTheirEpisode() throws {
    try write(three)
    _ = try run([gaps(), step(Resample.self, ["rate": 20])])
    #expect(try entries().map(\.framesOut) == [5, 3, 1] && entries().map(\.framesRepeated) == [2, 1, 0])
    let totals = try totals()
    #expect(totals["frames_in"] == 6 && totals["frames_repeated"] == 3 && totals["frames_out"] == 9 && totals["frames_dropped"] == 0)
  }

  // MARK: Other episodes than before

  @Test func episodesThatATakeNoLongerHasAreRemoved() throws {
    try write(three)
    _ = try run([gaps()])
    try write("0 100 200 300 900")
    let fewer = try run([gaps()])
    #expect(fewer.written == 2 && fewer.unchanged == 0)
    #expect(try entries().map(\.id) == ["take.0", "take.1"] && entries().allSatisfy { $0.parts == 2 })
    #expect(try shards() == ["take.0.h5", "take.1.h5"] && dataset().takes.map(\.framesOut) == [4, 1])
    #expect(try Verification(directory: output, inputs: true).isSound)
    #expect(try run([gaps()]).isUpToDate)
    try write("0 1000 2000 3000")
    #expect(try run([gaps()]).written == 4)
    #expect(try entries().map(\.id) == ["take.0", "take.1", "take.2", "take.3"])
  }

  @Test func aTakeThatIsNoLongerSplitIsOneAndBack() throws {
    try write(three)
    _ = try run([gaps()])
    _ = try run([], replaces: true)
    #expect(try entries().map(\.id) == ["take"] && shards() == ["take.h5"])
    #expect(try entries().first?.id.part == nil && dataset().takes.map(\.framesOut) == [6])
    _ = try run([gaps()], replaces: true)
    #expect(try entries().map(\.id) == ["take.0", "take.1", "take.2"] && shards().count == 3)
  }

  // MARK: Rejected and failed episodes

  @Test func aRejectedEpisodeLeavesTheOthers() throws {
    try write(three)
    let transforms: [any Transform] = try [gaps(), step(MinFrames.self, ["count": 2])]
    let summary = try run(transforms)
    #expect(summary.written == 2 && summary.rejected == 1)
    #expect(try entries().map(\.outcome) == [.written, .written, .rejected] && shards() == ["take.0.h5", "take.1.h5"])
    let totals = try totals()
    #expect(totals["frames_in"] == 6 && totals["frames_out"] == 5 && totals["frames_dropped"] == 1)
    let rejected = try #require(try records().last)
    #expect(rejected.id == "take.2" && rejected.reason == "min-frames: 1 frame; at least 2 are needed" && rejected.output == nil)
    #expect(try run(transforms).isUpToDate)
    // None left: every one is rejected, and nothing is written.
    let none = try run([gaps(), step(MinFrames.self, ["count": 9])], replaces: true)
    #expect(none.rejected == 3 && none.written == 0)
    #expect(try entries().map(\.outcome) == [.rejected, .rejected, .rejected] && shards() == [])
  }

  @Test func aFailedEpisodeFailsTheTakeAsOne() throws {
    try write("0 100 200 600")
    let transforms: [any Transform] = try [gaps(), FailsForTwo()]
    #expect(try run(transforms).written == 2)
    try write(three)
    let summary = try run(transforms)
    #expect(summary.failed == 1 && summary.written == 0)
    #expect(try entries().map(\.id) == ["take"] && entries().map(\.parts) == [nil] && shards() == [])
    let record = try #require(try records().first)
    #expect(record.outcome == .failed && record.reason == "fails-for-two: two frames" && record.id.part == nil)
    // Its frames are dropped once, before it was split.
    #expect(record.steps.map(\.name) == ["listed-frames"] && record.steps.map(\.framesOut) == [0])
    #expect(try totals()["frames_in"] == 6 && totals()["frames_dropped"] == 6)
  }

  // MARK: Traces

  private func traces(_ times: String, _ transforms: [any Transform]) throws -> [TakeTrace] {
    let path = try directory.write("alone/take.frames", Array(times.utf8))
    let take = Take(
      id: "take", location: TakeLocation(path: path, isDirectory: false), inputs: TakeInputs(file: path, role: .metadata))
    return try Pipeline(readers: .one(ListedFrames()), join: nil, transforms: transforms, writer: MemoryWriter())
      .open(take, with: ListedFrames(), in: RunContext())
  }

  @Test func aTraceIsThatOfItsEpisode() throws {
    let (trim, count) = (try step(Trim.self, ["start-frames": 1]), try step(MinFrames.self, ["count": 2]))
    let traces = try traces(three, [trim, gaps(), count, step(Select.self, ["streams": ["pose"]])])
    #expect(traces.map(\.episode.id) == ["take.0", "take.1", "take.2"] && traces.map(\.episode.id.part) == [0, 1, 2])
    #expect(traces.allSatisfy { $0.episode.id.take == "take" && $0.parts == 3 && $0.stepsBeforeSplit == 2 && $0.source.frames.count == 6 })
    #expect(traces.map { $0.steps.map(\.framesOut) } == [[6, 5, 2, 2, 2], [6, 5, 2, 2, 2], [6, 5, 1]])
    // Few rows do not tell the rate.
    #expect(traces.allSatisfy { $0.episode.frames.nominalRate == 10 })
    #expect(traces.map { $0.obstacle is Rejection } == [false, false, true])
    let whole = traces[2].beforeSplit
    #expect(whole.steps.map(\.name) == ["listed-frames", "trim"] && whole.parts == nil && whole.episode.id.part == nil)
    #expect(try self.traces(three, []).map(\.parts) == [nil])
  }

  @Test func aSingleEpisodeHasANumberToo() throws {
    #expect(try traces("0 100", [gaps()]).map(\.episode.id) == ["take.0"])
    let empty = try traces("", [gaps()])
    #expect(empty.count == 1 && (empty[0].obstacle as? Rejection)?.reason == "no-rows: no frames are left after the transforms")
    let blind = try traces("0 100", [step(Select.self, ["streams": ["camera_image"]]), step(SplitEpisodes.self, ["at": "pauses"])])
    #expect(blind.count == 1 && blind[0].parts == nil)
    #expect((blind[0].obstacle as? TakeFailure)?.message.hasPrefix("split-episodes: poses are needed") == true)
  }
}
