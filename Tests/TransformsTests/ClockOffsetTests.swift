import Model
import Testing
import TestSupport

@testable import Transforms

@Suite struct ClockOffsetTests {
  private func joints(arrivals: [Int64], sent: [UInt32]? = nil, clock: Clock = .phoneUnix, kind: StreamKind = .angles) -> SampleStream {
    var stream = SampleStream(
      spec: StreamSpec(kind: kind, type: .float32, shape: [1], unit: "degree", clock: clock),
      source: VectorSource(width: 1, values: arrivals.map { _ in 0 }),
      timestamps: arrivals.map { Timestamp(nanoseconds: $0) }, sourceIndex: arrivals.indices.map { Int64($0) })
    stream.senderMilliseconds = sent
    return stream
  }

  private func episode(start: Int64?) -> Episode {
    var episode = SyntheticEpisode().episode
    // With an IMU on the stream's clock there would be better evidence.
    episode.streams[.imu] = nil
    episode.unixOrigin = start.map { Episode.UnixOrigin(nanoseconds: $0, resolution: 1_000_000_000) }
    return episode
  }

  private let epoch: Int64 = 1_771_000_000_000_000_000

  @Test func takesTheFirstSampleToBeAtTheFirstFrameWhenItCameAtTheStart() {
    let stream = joints(arrivals: [epoch + 700_000_000, epoch + 720_000_000])
    let offset = ClockOffset(from: stream, to: episode(start: epoch))
    #expect(offset.method == "first-sample")
    #expect(offset.offset == -(epoch + 700_000_000))
    #expect(offset.timestamps.map(\.nanoseconds) == [0, 20_000_000])
    #expect(offset.residual == 50_000_000)
  }

  /// Whoever writes a table begins when he likes: it has the offset of the joints on its clock, not one of its own.
  @Test(arguments: [-2_000_000_000, 0, 310_000_000, 5_000_000_000] as [Int64]) func placesATableAsTheJoints(_ later: Int64) throws {
    var episode = episode(start: epoch)
    episode.streams[.joints] = joints(arrivals: [epoch + 700_000_000, epoch + 720_000_000])
    let table = joints(arrivals: [epoch + 700_000_000 + later, epoch + 800_000_000 + later], kind: .vector)
    let offset = ClockOffset(from: table, to: episode)
    #expect(offset.method == "first-sample" && offset.offset == -(epoch + 700_000_000) && offset.residual == 50_000_000)
    #expect(offset.timestamps.map(\.nanoseconds) == [later, later + 100_000_000])
    // Nothing is guessed for one without joints, nor with joints that nothing places.
    episode.streams[.joints] = joints(arrivals: [epoch + 3_000_000_000])
    #expect(ClockOffset(from: table, to: episode).method == "unaligned")
    episode.streams[.joints] = nil
    let alone = ClockOffset(from: table, to: episode)
    #expect(alone.method == "unaligned" && alone.findings.first?.message.contains("neither an IMU nor joints") == true)
  }

  @Test func doesNotGuessWhenTheSenderConnectedLate() {
    let offset = ClockOffset(from: joints(arrivals: [epoch + 3_000_000_000]), to: episode(start: epoch))
    #expect(offset.method == "unaligned")
    #expect(offset.offset == nil)
    #expect(offset.findings.map(\.code) == [.clockUnaligned])
  }

  @Test func doesNotGuessWithoutAStartTime() {
    #expect(ClockOffset(from: joints(arrivals: [epoch]), to: episode(start: nil)).offset == nil)
  }

  @Test func masksEveryRowOfAStreamItCannotPlace() throws {
    var episode = episode(start: nil)
    episode.streams[.joints] = joints(arrivals: [epoch, epoch + 20_000_000])
    let aligned = try Align().apply(to: episode)
    #expect(aligned.streams[.joints]?.rows?.allSatisfy { $0 == nil } == true)
    #expect(aligned.findings.map(\.code) == [.clockUnaligned])
    #expect(aligned.alignments.contains { $0.stream == "joints" && $0.offset == nil })
  }

  @Test func recoversSendingTimesFromLateArrivals() throws {
    var state: UInt64 = 3
    let count = 500
    var arrivals: [Int64] = []
    for index in 0..<count {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      arrivals.append(epoch + Int64(index) * 20_000_000 + 2_000_000 + Int64((state >> 33) % 13_000_000))
    }
    let clock = SenderClock(
      arrivals: arrivals.map { Timestamp(nanoseconds: $0) }, milliseconds: (0..<count).map { UInt32(5000 + $0 * 20) })
    let fitted = try #require(clock.timestamps)
    for (index, time) in fitted.enumerated() {
      // The fit cannot know the least delay, 2 ms here; beyond that it is good to a millisecond.
      let error = time.nanoseconds - (epoch + Int64(index) * 20_000_000 + 2_000_000)
      #expect(abs(error) < 1_000_000)
    }
    #expect(zip(fitted, arrivals).allSatisfy { $0.nanoseconds <= $1 + 1 })
    #expect((4_000_000...9_000_000).contains(clock.medianDelay))
  }

  @Test func followsTheCounterPast32BitsAndSplitsAtARestart() {
    let segments = SenderClock.segments([.max - 10, .max, 9, 29, 5, 25])
    #expect(segments.map(\.range) == [0..<4, 4..<6])
    #expect(segments[0].milliseconds.map { $0 - segments[0].milliseconds[0] } == [0, 10, 20, 40])
    #expect(segments[1].milliseconds == [5, 25])
  }

  @Test func reportsARestart() {
    let arrivals = (0..<6).map { Timestamp(nanoseconds: epoch + Int64($0) * 20_000_000) }
    let clock = SenderClock(arrivals: arrivals, milliseconds: [100, 120, 140, 0, 20, 40])
    #expect(clock.findings.map(\.code) == [.senderRestarted])
    #expect(clock.timestamps?.count == 6)
  }
}
