import Foundation
import Model
import Testing
import TestSupport

@testable import Transforms

@Suite struct StillnessTests {
  private func pose(_ x: Double, degrees: Double = 0) -> Pose {
    let half = degrees / 360 * Double.pi
    return Pose(position: [x, 0, 0], quaternion: [0, sin(half), 0, cos(half)])
  }

  private func pauses(_ x: [Double?], longerThan seconds: Double, distance: Double = 0.01, every milliseconds: Int64 = 100) -> [Range<Int>]
  {
    let times = x.indices.map { Timestamp(nanoseconds: Int64($0) * milliseconds * 1_000_000) }
    return Stillness([x.map { $0.map { pose($0) } }], distance: distance, angle: 2).pauses(at: times, longerThan: seconds)
  }

  @Test(arguments: [
    (0.0, 0.0, true), (0.25, 0, true), (0.2500001, 0, false), (0, 9.999, true), (0, 10.001, false), (0, -10.001, false), (0, 180, false),
    (0.25, 9.999, true), (1, 20, false),
  ]) func isStillWithinBothLimits(x: Double, degrees: Double, isStill: Bool) {
    let stillness = Stillness([[pose(0), pose(x, degrees: degrees)]], distance: 0.25, angle: 10)
    #expect(stillness.isStill(from: 0, to: 1) == isStill)
    #expect(stillness.isStill(from: 1, to: 0) == isStill)
  }

  @Test func aQuaternionAndItsNegativeAreTheSameRotation() {
    var negative = pose(0, degrees: 1)
    negative.quaternion = -negative.quaternion
    #expect(Stillness([[pose(0), negative]], distance: 0, angle: 1.001).isStill(from: 0, to: 1))
    #expect(!Stillness([[pose(0), negative]], distance: 0, angle: 0.999).isStill(from: 0, to: 1))
  }

  @Test func anAngleOfZeroAllowsTheSameRotationOnly() {
    let stillness = Stillness([[pose(0, degrees: 33), pose(0, degrees: 33), pose(0, degrees: 33.001)]], distance: 0, angle: 0)
    #expect(stillness.isStill(from: 0, to: 1))
    #expect(!stillness.isStill(from: 0, to: 2))
    let any = Stillness([[pose(0), pose(0, degrees: 180)]], distance: 0, angle: 180)
    #expect(any.isStill(from: 0, to: 1))
  }

  @Test func findsPauses() {
    // 0.1 s a row: still in rows 2 to 5 (0.3 s) and 8 to 9 (0.1 s).
    let x: [Double?] = [0, 1, 2, 2, 2, 2, 3, 4, 5, 5, 6]
    #expect(pauses(x, longerThan: 0.3) == [2..<6])
    #expect(pauses(x, longerThan: 0.1) == [2..<6, 8..<10])
    #expect(pauses(x, longerThan: 0.300000001) == [])
    #expect(pauses([], longerThan: 1) == [])
    #expect(pauses([0], longerThan: 0) == [])
    #expect(pauses([0, 0, 0], longerThan: 0.2) == [0..<3])
    // Without a duration, a pause is two rows or more.
    #expect(pauses([0, 1, 1, 2], longerThan: 0) == [1..<3])
  }

  @Test func pausesBeginWhereThePosesStayNearTheFirst() {
    // Row 1 is within 0.5 of rows 2 and 3 but not of row 4.
    #expect(pauses([0, 1.6, 2, 2, 2.2, 2.2, 2.2, 4], longerThan: 0.4, distance: 0.5) == [2..<7])
    // A slow drift is divided into pauses, each as long as the distance allows.
    #expect(pauses((0..<10).map { Double($0) / 8 }, longerThan: 0.3, distance: 0.5) == [0..<5, 5..<10])
  }

  @Test func rowsWithoutPosesNeitherEndAPauseNorBeginOne() {
    #expect(pauses([nil, 0, nil, 0, nil, 1], longerThan: 0.2) == [1..<4])
    #expect(pauses([nil, 0, nil, 0, nil, 1], longerThan: 0.3) == [])
    #expect(pauses([nil, nil, nil], longerThan: 0.1) == [])
  }

  @Test func readsTheFirstStreamOfPosesOfAnEpisode() throws {
    var episode = SyntheticEpisode(times: [0, 500_000_000, 1_000_000_000, 2_500_000_000, 3_000_000_000]).episode
    episode.streams[.pose]?.source = VectorSource([pose(0), pose(2), pose(2), pose(2), pose(4)])
    #expect(try Stillness.pauses(in: episode, longerThan: 2, distance: 0.01, angle: 2) == [1..<4])
    // A stream whose name is first, which never moves.
    var other = try #require(episode.streams[.pose])
    other.source = VectorSource(Array(repeating: pose(1), count: 5))
    episode.streams["a_pose"] = other
    #expect(try Stillness.pauses(in: episode, longerThan: 2, distance: 0.01, angle: 2) == [0..<5])
    episode.streams = episode.streams.filter { $0.value.spec.kind.poseFrame == nil }
    #expect(throws: TakeFailure.self) { try Stillness.pauses(in: episode, longerThan: 2, distance: 0.01, angle: 2) }
  }

  /// Both cameras of two grippers have to stand still: the one moves at first, the other at last, and one of them begins later.
  @Test func severalCamerasStandStillTogether() {
    let left = [nil, pose(0), pose(1), pose(2), pose(2), pose(2), pose(2)]
    let right = [pose(0), pose(0), pose(0), pose(0), pose(0), pose(3), pose(3)]
    let both = Stillness([left, right], distance: 0.25, angle: 10)
    #expect(both.lastBeforeMotion == 1 && both.firstAfterMotion == 5)
    let times = (0..<7).map { Timestamp(nanoseconds: Int64($0) * 1_000_000_000) }
    #expect(both.pauses(at: times, longerThan: 1) == [0..<2, 3..<5, 5..<7])
    #expect(Stillness([left], distance: 0.25, angle: 10).pauses(at: times, longerThan: 1) == [3..<7])
  }
}
