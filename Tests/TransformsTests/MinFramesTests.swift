import Evidence
import Model
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

@Suite struct MinFramesTests {
  private func step(_ options: JSONValue) throws -> MinFrames { try Options.decode(MinFrames.self, over: options, at: "min-frames") }

  @Test func passesTakesWithEnoughFrames() throws {
    // The synthetic episode has 6 frames.
    for count: JSONValue in [1, 5, 6] {
      let episode = try step(["count": count]).apply(to: SyntheticEpisode().episode)
      #expect(episode.frames.count == 6)
      #expect(episode.dropped.isEmpty)
    }
  }

  @Test func rejectsTakesWithFewer() throws {
    let rejection = #expect(throws: Rejection.self) { try step(["count": 7]).apply(to: SyntheticEpisode().episode) }
    #expect(rejection?.message == "6 frames; at least 7 are needed")
    let single = #expect(throws: Rejection.self) { try step(["count": 2]).apply(to: SyntheticEpisode(times: [0]).episode) }
    #expect(single?.message == "1 frame; at least 2 are needed")
    #expect(throws: Rejection.self) { try step(["count": 1]).apply(to: SyntheticEpisode(times: []).episode) }
  }

  @Test(arguments: [[:], ["count": nil], ["count": 0], ["count": -1], ["count": .number(2.5)], ["count": "10"]] as [JSONValue])
  func needsACount(options: JSONValue) {
    let error = #expect(throws: PipelineFileError.self) { try step(options) }
    #expect(error?.path == "min-frames.count")
  }
}
