import Evidence
import Foundation
import Model
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

@Suite struct TrimTests {
  /// A step as a pipeline file gives it.
  private func step(_ options: JSONValue) throws -> Trim { try Options.decode(Trim.self, over: options, at: "trim") }

  /// The frames that a step leaves of an episode with frames at these times.
  private func rows(_ nanoseconds: [Int64], _ options: JSONValue) throws -> [Int64] {
    try step(options).apply(to: SyntheticEpisode(times: nanoseconds).episode).frames.sourceIndex
  }

  /// The frames that a step leaves of an episode with a frame every 100 ms and these positions.
  private func rows(x: [Double?], _ options: JSONValue) throws -> [Int64] {
    try step(options).apply(to: .moving(x.map { $0.map { .at($0) } })).frames.sourceIndex
  }

  @Test func keepsAFrameExactlyAtTheLimit() throws {
    let times: [Int64] = [0, 99_999_999, 100_000_000, 100_000_001, 200_000_000]
    #expect(try rows(times, ["start": .number(0.1)]) == [2, 3, 4])
    #expect(try rows(times, ["end": .number(0.1)]) == [0, 1, 2])
    #expect(try rows(times, ["start": .number(0.1), "end": .number(0.1)]) == [2])
  }

  @Test func roundsSecondsToWholeNanoseconds() throws {
    let times: [Int64] = [0, 99_999_999, 100_000_000, 100_000_001, 200_000_000]
    #expect(try rows(times, ["start": .number(0.1000000004)]) == [2, 3, 4])
    #expect(try rows(times, ["start": .number(0.1000000006)]) == [3, 4])
    #expect(try rows(times, ["end": .number(0.1000000006)]) == [0, 1])
  }

  @Test func countsFromTheFirstAndTheLastFrame() throws {
    let times: [Int64] = [5_000_000_000, 5_400_000_000, 6_000_000_000, 6_700_000_000, 7_000_000_000]
    #expect(try rows(times, ["start": 1]) == [2, 3, 4])
    #expect(try rows(times, ["end": .number(0.5)]) == [0, 1, 2])
    #expect(try rows(times, ["start": 0]) == [0, 1, 2, 3, 4])
  }

  @Test(
    arguments: [
      ["start": 3], ["end": 3], ["start": .number(1.5), "end": .number(1.5)], ["start": .number(1e300)], ["end": .number(1e300)],
      ["start-frames": 3], ["end-frames": .integer(.max)], ["start-frames": .integer(.max), "end-frames": .integer(.max)],
      ["start-frames": 2, "end-frames": 2], ["start": 3, "end-frames": 1],
    ] as [JSONValue]) func leavesNothingOfATakeThatIsTooShort(options: JSONValue) throws
  {
    let episode = try step(options).apply(to: SyntheticEpisode(times: [0, 1_000_000_000, 2_000_000_000]).episode)
    #expect(episode.frames.count == 0)
    #expect(episode.streams[.pose]?.rows == [])
    #expect(episode.dropped == [Episode.Dropped(reason: "trimmed", count: 3)])
  }

  @Test func countsFramesOffWhatTheSecondsLeave() throws {
    let times = (0..<10).map { Int64($0) * 100_000_000 }
    #expect(try rows(times, ["start-frames": 2]) == [2, 3, 4, 5, 6, 7, 8, 9])
    #expect(try rows(times, ["end-frames": 3]) == [0, 1, 2, 3, 4, 5, 6])
    #expect(try rows(times, ["start": .number(0.2), "start-frames": 2, "end": .number(0.1), "end-frames": 1]) == [4, 5, 6, 7])
  }

  @Test func keepsTheRateAndTheTakeApartFromItsFrames() throws {
    var episode = SyntheticEpisode().episode
    episode.frames.nominalRate = 60
    let trimmed = try step(["start-frames": 1]).apply(to: episode)
    #expect(trimmed.frames.nominalRate == 60)
    #expect(trimmed.streams[.pose]?.rows == (1..<6).rows)
    #expect(trimmed.streams[.depth]?.timestamps == episode.streams[.depth]?.timestamps)
    #expect(trimmed.dropped == [Episode.Dropped(reason: "trimmed", count: 1)])
    #expect(try step(["start": 0]).apply(to: episode).dropped.isEmpty)
  }

  @Test func leavesAnEpisodeWithoutFramesAlone() throws {
    #expect(try rows([], ["start": 1, "end": "motion"]) == [])
  }

  // MARK: Motion

  @Test func keepsTheLastStillFrameAndTheFirstStillFrame() throws {
    let x: [Double?] = [0, 0.004, 0.008, 0.02, 0.5, 1, 1.004, 1, 1.001]
    #expect(try rows(x: x, ["start": "motion"]) == [2, 3, 4, 5, 6, 7, 8])
    // The last pose is 1.001: frame 5 is within 0.01 of it.
    #expect(try rows(x: x, ["end": "motion"]) == [0, 1, 2, 3, 4, 5])
    #expect(try rows(x: x, ["start": "motion", "end": "motion"]) == [2, 3, 4, 5])
  }

  @Test func comparesWithTheFirstPoseAndNotWithThePreviousOne() throws {
    #expect(try rows(x: [0, 0.004, 0.008, 0.012, 0.016], ["start": "motion"]) == [2, 3, 4])
    #expect(try rows(x: [0, 0.004, 0.008, 0.012, 0.016], ["end": "motion"]) == [0, 1, 2])
  }

  @Test func theFirstMotionCountsEvenIfTheCameraReturns() throws {
    #expect(try rows(x: [0, 0, 0.02, 0, 0, 0, 1], ["start": "motion"]) == [1, 2, 3, 4, 5, 6])
    #expect(try rows(x: [0, 1, 1, 1, 0.98, 1, 1], ["end": "motion"]) == [0, 1, 2, 3, 4, 5])
  }

  @Test func aDistanceOrAnAngleOfZeroMakesEveryChangeMotion() throws {
    #expect(try rows(x: [0, 0, 0.001, 1], ["start": "motion", "distance": 0]) == [1, 2, 3])
    let turned = [0, 0, 0.01, 1].map { Pose.turned($0) }
    #expect(try step(["start": "motion", "angle": 0]).apply(to: .moving(turned)).frames.sourceIndex == [1, 2, 3])
  }

  @Test func turningIsMotionToo() throws {
    let turned = [0, 1.9, 2.1, 40, 44, 43.1, 45].map { Pose.turned($0) }
    let trimmed = try step(["start": "motion", "end": "motion"]).apply(to: .moving(turned))
    #expect(trimmed.frames.sourceIndex == [1, 2, 3, 4])
    #expect(try step(["start": "motion", "angle": 42]).apply(to: .moving(turned)).frames.sourceIndex == [3, 4, 5, 6])
    #expect(throws: Rejection.self) { try step(["start": "motion", "angle": 180]).apply(to: .moving(turned)) }
  }

  @Test func framesWithoutAPoseAreNoMotion() throws {
    #expect(try rows(x: [nil, 0, nil, 0, nil, 1, 2, nil, 2, nil], ["start": "motion"]) == [3, 4, 5, 6, 7, 8, 9])
    #expect(try rows(x: [nil, 0, nil, 0, nil, 1, nil, 2, 2, nil], ["end": "motion"]) == [0, 1, 2, 3, 4, 5, 6, 7])
  }

  @Test func combinesWithSecondsAndFrames() throws {
    let x: [Double?] = [0, 0, 0, 1, 2, 3, 4, 4, 4]
    #expect(try rows(x: x, ["start": "motion", "end": .number(0.1), "start-frames": 1, "end-frames": 2]) == [3, 4, 5])
  }

  @Test func aMotionTooSmallToBeCutFromBothEndsLeavesNothing() throws {
    // Frame 3 is the first away from frame 0, and frame 0 the last away from frame 3.
    #expect(try rows(x: [0, 0.009, 0.009, 0.015], ["start": "motion", "end": "motion"]) == [])
  }

  @Test(arguments: ["start", "end"]) func rejectsATakeThatNeverMoves(end: String) throws {
    let still = [0, 0.001, 0, 0.003].map { Pose.at($0) }
    let rejection = #expect(throws: Rejection.self) { try step(.object([end: "motion"])).apply(to: .moving(still)) }
    let reference = end == "start" ? "first" : "last"
    #expect(rejection?.message == "the camera never moves: every pose is within 0.01 m and 2 degrees of the \(reference) one")
    #expect(throws: Rejection.self) { try step(.object([end: "motion"])).apply(to: .moving([.at(0)])) }
  }

  @Test func namesNoMetersForPosesInAnArbitraryUnit() throws {
    var episode = Episode.moving([.at(0), .at(1)])
    episode.streams[.pose]?.spec.kind = .pose(.slam(unit: .arbitrary))
    let rejection = #expect(throws: Rejection.self) { try step(["start": "motion", "distance": 5]).apply(to: episode) }
    #expect(rejection?.message.contains("within 5 units and") == true)
    #expect(try step(["start": "motion"]).apply(to: episode).frames.count == 2)
  }

  @Test func motionNeedsPoses() throws {
    var episode = SyntheticEpisode().episode
    episode.streams[.pose]?.rows = Array(repeating: nil, count: 6)
    let none = #expect(throws: TakeFailure.self) { try step(["end": "motion"]).apply(to: episode) }
    #expect(none?.code == .streamMissing)
    episode.streams[.pose]?.rows = nil
    #expect(throws: TakeFailure.self) { try step(["end": "motion"]).apply(to: episode) }
    episode.streams[.pose] = nil
    let missing = #expect(throws: TakeFailure.self) { try step(["start": "motion"]).apply(to: episode) }
    #expect(missing?.code == .streamMissing)
    #expect(missing?.message == "poses are needed to find where the camera stands still, and the take has none")
    #expect(try step(["start-frames": 1]).apply(to: episode).frames.count == 5)
  }

  // MARK: Options

  @Test(
    arguments: [
      (["start": -1], "trim.start", "expected a number of 0 or more, or motion, found the number -1"),
      (["start": "moton"], "trim.start", "did you mean motion?"), (["end": true], "trim.end", "found true"),
      (["end": .number(.nan)], "trim.end", "expected"), (["start-frames": -1], "trim.start-frames", "of 0 or more"),
      (["end-frames": .number(1.5)], "trim.end-frames", "expected a whole number"),
      (["start": 1, "distance": -1], "trim.distance", "from 0"), (["start": 1, "angle": 181], "trim.angle", "from 0 to 180"),
      ([:], "trim.start", "without them nothing is cut off"), (["start": nil, "distance": 1], "trim.start", "nothing is cut off"),
    ] as [(JSONValue, String, String)]) func refuses(options: JSONValue, path: String, message: String)
  {
    let error = #expect(throws: PipelineFileError.self) { try step(options) }
    #expect(error?.path == path)
    #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
  }

  @Test func recordsEveryOption() throws {
    let given: JSONValue = ["start": "motion", "end": .number(0.25), "end-frames": 2]
    #expect(
      Options.values(of: try step(given)) == [
        "start": "motion", "end": .number(0.25), "start-frames": 0, "end-frames": 2, "distance": .number(0.01), "angle": 2,
      ])
    #expect(Options.values(of: Trim())["start"] == .some(.null))
  }
}

extension Pose {
  /// At a distance along the x axis.
  fileprivate static func at(_ x: Double) -> Pose { Pose(position: [x, 0, 0], quaternion: [0, 0, 0, 1]) }
  /// Turned about the y axis, in degrees.
  fileprivate static func turned(_ degrees: Double) -> Pose {
    let half = degrees / 360 * Double.pi
    return Pose(position: .zero, quaternion: [0, sin(half), 0, cos(half)])
  }
}

extension Episode {
  /// An episode with a frame every 100 ms and these poses.
  fileprivate static func moving(_ poses: [Pose?]) -> Episode {
    var episode = SyntheticEpisode(times: poses.indices.map { Int64($0) * 100_000_000 }).episode
    episode.streams[.pose]?.source = VectorSource(poses.map { $0 ?? .at(1000) })
    episode.streams[.pose]?.rows = poses.enumerated().map { row, pose in pose.map { _ in Row(row) } }
    return episode
  }
}
