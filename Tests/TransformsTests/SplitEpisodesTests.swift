import Evidence
import Model
import Simulate
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

@Suite struct SplitEpisodesTests {
  private func splitter(_ options: JSONValue) throws -> SplitEpisodes {
    try Options.decode(SplitEpisodes.self, over: options, at: "split-episodes")
  }

  private func take(_ milliseconds: [Int64], rate: Double? = 10) -> Episode {
    var episode = SyntheticEpisode(times: milliseconds.map { $0 * 1_000_000 }).episode
    episode.frames.nominalRate = rate
    return episode
  }

  private func ranges(_ options: JSONValue, _ take: Episode) throws -> [Range<Int>] { try splitter(options).episodes(of: take) }

  /// Rows every 100 ms with the camera at these places.
  private func moving(_ x: [Double?]) -> Episode {
    .posed(x.map { $0.map { Pose(position: [$0, 0, 0], quaternion: [0, 0, 0, 1]) } })
  }

  // MARK: Gaps

  @Test func everyGapEndsAnEpisode() throws {
    // A step of 151 ms is longer than 1.5 periods; one of 150 is none.
    #expect(try ranges(["at": "gaps"], take([0, 100, 251, 401, 501, 901])) == [0..<2, 2..<5, 5..<6])
    #expect(try ranges(["at": "gaps"], take([0, 100, 200])) == [0..<3])
    #expect(try ranges(["at": "gaps"], take([5])) == [0..<1])
    #expect(try ranges(["at": "gaps"], take([0, 400, 800])) == [0..<1, 1..<2, 2..<3])
  }

  // MARK: Jumps

  @Test func aJumpBeginsAnEpisodeAndIsNoStep() throws {
    var take = moving([0, 0.01, 0.02, 2, 2.01, 2.02])
    take.frames.quality = [[], [], [], .poseJump, [.poseRepeated], []]
    #expect(try ranges(["at": "jumps"], take) == [0..<3, 3..<6])
    // The last row of the first part has no next row: what follows is somewhere else.
    #expect(take.keeping([0, 1, 2], dropping: "part", continues: true).following == nil)
    #expect(take.keeping([0, 1], dropping: "part", continues: true).following != nil)
    take.dropsRowWithoutNext = true
    #expect(take.keeping([0, 1, 2, 3], dropping: "part").endingBeforeTheNextRow().frames.count == 2)
    take.dropsRowWithoutNext = false
    // Nothing comes before the first frame.
    take.frames.quality = [.poseJump, [], [], [], .poseJump, .poseJump]
    #expect(try ranges(["at": "jumps"], take) == [0..<4, 4..<5, 5..<6])
    take.frames.quality = []
    #expect(try ranges(["at": "jumps"], take) == [0..<6])
  }

  @Test func aTailOfJumpsIsDroppedAtOnce() throws {
    // Poses in a wrong unit are all jumps. One level of the stack for each of so many crashed the run.
    var take = moving([Double?](repeating: 0, count: 20_000))
    take.frames.quality = [[], [], []] + [FrameQuality](repeating: .poseJump, count: 19_997)
    take.dropsRowWithoutNext = true
    let kept = take.endingBeforeTheNextRow()
    #expect(kept.frames.count == 2 && kept.dropped.map(\.count) == [19_998] && kept.frames.nominalRate == take.frames.cadence.rateHz)
    #expect(kept.following?.timestamp == take.frames.timestamps[2])
    take.frames.quality = [FrameQuality](repeating: .poseJump, count: 20_000)
    #expect(take.endingBeforeTheNextRow().frames.count == 0)
  }

  @Test func aTakeOfJumpsIsRefused() throws {
    var take = moving([Double?](repeating: 0, count: 600))
    take.frames.quality = (0..<600).map { $0 > 0 && $0 <= 250 ? .poseJump : [] }
    #expect(try ranges(["at": "jumps"], take).count == 251)
    take.frames.quality[251] = .poseJump
    let failure = #expect(throws: TakeFailure.self) { try ranges(["at": "jumps"], take) }
    #expect(failure?.code == .limit && failure?.message.contains("251 times in 600 frames") == true)
  }

  @Test func decimationKeepsTheJumpOfARowThatItDrops() throws {
    var take = moving([Double?](repeating: 0, count: 8))
    take.frames.quality = [[], [], [], .poseJump, [], [], .poseJump, [.poseRepeated]]
    let decimated = try Options.decode(Decimate.self, over: ["every": 2], at: "decimate").apply(to: take)
    #expect(decimated.frames.quality == [[], [], .poseJump, .poseJump])
    #expect(try ranges(["at": "jumps"], decimated) == [0..<2, 2..<3, 3..<4])
  }

  // MARK: Seconds

  @Test func aRowExactlyAtTheLimitBeginsTheNextEpisode() throws {
    #expect(try ranges(["at": .number(0.3)], take([1000, 1100, 1299, 1300, 1599, 1600])) == [0..<3, 3..<5, 5..<6])
    #expect(try ranges(["at": .number(0.1)], take([0, 100, 200, 300])) == [0..<1, 1..<2, 2..<3, 3..<4])
  }

  @Test func secondsWithoutRowsAreNoEpisode() throws {
    #expect(try ranges(["at": .number(0.1)], take([0, 50, 450, 470, 1000])) == [0..<2, 2..<4, 4..<5])
    #expect(try ranges(["at": 86_400], take([0, 50, 450])) == [0..<3])
    #expect(try ranges(["at": 1], take([7])) == [0..<1])
  }

  @Test func agreesWithTheDefinition() throws {
    var generator = SplitMix(seed: 9)
    for _ in 0..<100 {
      let times = Set((0..<40).map { _ in Int64.random(in: 0...5000, using: &generator) }).sorted()
      let length = Int64.random(in: 1...900, using: &generator)
      let found = try ranges(["at": .number(Double(length) / 1000)], take(times))
      // Episodes are the rows of equal floor((t - t0) / length).
      let expected = Dictionary(grouping: times.indices) { (times[$0] - times[0]) / length }.sorted { $0.key < $1.key }.map(\.value)
      #expect(found.map { Array($0) } == expected)
    }
  }

  // MARK: Pauses

  @Test func aPauseBelongsToNeitherEpisodeButForItsEdges() throws {
    // Still in rows 2 to 5, for 0.3 s.
    let x: [Double?] = [0, 1, 2, 2, 2, 2, 3, 4]
    #expect(try ranges(["at": "pauses", "pause": .number(0.3)], moving(x)) == [0..<3, 5..<8])
    #expect(try ranges(["at": "pauses", "pause": .number(0.31)], moving(x)) == [0..<8])
    #expect(try ranges(["at": "pauses"], moving(x)) == [0..<8])
  }

  @Test func pausesAtTheEndsOfATakeAreCutOff() throws {
    #expect(try ranges(["at": "pauses", "pause": .number(0.2)], moving([0, 0, 0, 1, 2, 2, 2])) == [2..<5])
    #expect(try ranges(["at": "pauses", "pause": .number(0.1)], moving([0, 0, 1, 1, 2, 2])) == [1..<3, 3..<5])
  }

  @Test func restIsWhatDistanceAndAngleAllow() throws {
    let x: [Double?] = [0, 1, 1.04, 1.05, 1.04, 2]
    #expect(try ranges(["at": "pauses", "pause": .number(0.3)], moving(x)) == [0..<6])
    #expect(try ranges(["at": "pauses", "pause": .number(0.3), "distance": .number(0.06)], moving(x)) == [0..<2, 4..<6])
  }

  @Test func aTakeThatOnlyRestsIsStillOneEpisode() throws {
    for x in [[0, 0, 0], [0]] as [[Double?]] {
      let found = try ranges(["at": "pauses", "pause": .number(0.1)], moving(x))
      #expect(found.count == 1 && found.first?.isEmpty == false)
    }
  }

  @Test func rowsWithoutPosesBelongToTheMotionAroundThem() throws {
    let x: [Double?] = [nil, 0, 1, 1, nil, 1, nil, 2, nil]
    #expect(try ranges(["at": "pauses", "pause": .number(0.3)], moving(x)) == [0..<3, 5..<9])
  }

  @Test func pausesNeedPoses() throws {
    var blind = take([0, 100])
    blind.streams[.pose] = nil
    #expect(throws: TakeFailure.self) { try ranges(["at": "pauses"], blind) }
    #expect(throws: TakeFailure.self) { try ranges(["at": "pauses"], moving([nil, nil])) }
  }

  @Test func episodesNeverOverlap() throws {
    var generator = SplitMix(seed: 21)
    for _ in 0..<100 {
      let x: [Double?] = (0..<30).map { _ in
        Int.random(in: 0...9, using: &generator) == 0 ? nil : Double(Int.random(in: 0...1, using: &generator))
      }
      guard x.contains(where: { $0 != nil }) else { continue }
      let found = try ranges(["at": "pauses", "pause": .number(0.1)], moving(x))
      #expect(!found.isEmpty && found.allSatisfy { !$0.isEmpty && $0.lowerBound >= 0 && $0.upperBound <= 30 })
      #expect(zip(found, found.dropFirst()).allSatisfy { $0.upperBound <= $1.lowerBound })
    }
  }

  // MARK: Options

  @Test func asAStepOfItsOwnItChangesNothing() throws {
    let before = take([0, 100, 500])
    let after = try splitter(["at": "gaps"]).apply(to: before)
    #expect(after.frames == before.frames && after.id == before.id && after.dropped.isEmpty && after.id.part == nil)
  }

  @Test(arguments: ["gaps", "jumps", "pauses", 10, .number(0.25), .number(0.001), 86_400] as [JSONValue]) func placesSurviveARoundTrip(
    at: JSONValue
  )
    throws
  {
    #expect(try Options.values(of: splitter(["at": at]))["at"] == at)
  }

  @Test(
    arguments: [nil, 0, -1, .number(0.0009), .number(1e-300), .number(86_400.5), "pause", "10", true, ["gaps"], .number(.nan)]
      as [JSONValue])
  func otherPlacesAreRefused(at: JSONValue) {
    let error = #expect(throws: PipelineFileError.self) { try splitter(["at": at]) }
    #expect(error?.path == "split-episodes.at")
    #expect(throws: PipelineFileError.self) { try splitter([:]) }
  }
}
