import Evidence
import Model
import Testing
import TestSupport

@testable import Reports
@testable import Runs
@testable import Steps
@testable import Transforms

@Suite struct InspectionTests {
  private let directory: TemporaryDirectory

  init() throws {
    directory = try TemporaryDirectory()
    // Three episodes, of three, two frames and one.
    try directory.write("in/take.frames", Array("0 100 200 600 700 1200".utf8))
  }

  private func inspect(leastFrames count: JSONValue) throws -> Inspection {
    let transforms: [any Transform] = [
      try Options.decode(SplitEpisodes.self, over: ["at": "gaps"], at: "split-episodes"),
      try Options.decode(MinFrames.self, over: ["count": count], at: "min-frames"),
    ]
    let pipeline = Pipeline(readers: .one(ListedFrames()), join: nil, transforms: transforms, writer: MemoryWriter())
    return try #require(Inspection.all(inputs: [directory.path + "/in"], pipeline: pipeline).inspections.first)
  }

  @Test func aTakeIsWrittenIfOneOfItsEpisodesIs() throws {
    let take = try inspect(leastFrames: 3)
    #expect(take.outcome == .written && take.reason == nil && take.episodes == 3)
    #expect(take.json["would_be"] == "written")
  }

  @Test func aTakeIsRejectedIfAllOfItsEpisodesAre() throws {
    let take = try inspect(leastFrames: 4)
    #expect(take.outcome == .rejected && take.reason == "min-frames: 3 frames; at least 4 are needed" && take.episodes == 3)
  }
}
