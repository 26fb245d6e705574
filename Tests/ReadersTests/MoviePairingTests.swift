import Model
import Testing

@testable import Readers

@Suite struct MoviePairingTests {
  private let period: Int64 = 16_666_667

  private func frames(_ count: Int64, without holes: Set<Int64> = []) -> [Int64] { (0..<count).filter { !holes.contains($0) } }

  private func times(_ frames: some Sequence<Int64>) -> [Int64] { frames.map { $0 * period } }

  /// Rows at these frames of a 60 Hz camera, numbered without holes, from 258528.1 s on.
  private func rows(_ frames: [Int64]) -> [(number: Int64, time: Timestamp)] {
    frames.enumerated().map { number, frame in
      let time: Int64 = 258_528_100_000_000 + frame * period + Int64(number % 3) * 40_000
      return (Int64(number), Timestamp(nanoseconds: time))
    }
  }

  @Test func followsTimesWhereTheMovieHasThem() {
    let frames = frames(40, without: [10, 11, 25])
    let pairing = MoviePairing(rows: rows(frames), presentationTimes: times(frames), tick: 1_666_667)
    #expect(pairing.method == .time)
    #expect((0..<37).allSatisfy { pairing.samples[Int64($0)] == $0 })
    #expect(zip(pairing.timestamps, rows(frames)).allSatisfy { abs($0.since($1.time)) < 1_000_000 })
  }

  /// A recording whose video ends early has the times of the frames that are there.
  @Test func followsTheTimesOfAVideoThatIsMuchShorterThanTheRows() {
    let images = frames(25, without: [10, 11])
    let pairing = MoviePairing(rows: rows(frames(60, without: [10, 11])), presentationTimes: times(images), tick: 1_666_667)
    #expect(pairing.method == .time && (0..<23).allSatisfy { pairing.samples[Int64($0)] == $0 } && pairing.samples.count == 23)
  }

  @Test func findsAImageThatIsMissingByItsTime() {
    let images = times(frames(40, without: [17]))
    let pairing = MoviePairing(rows: rows(frames(40)), presentationTimes: images, tick: 1_666_667)
    #expect(pairing.method == .time)
    #expect(pairing.samples[16] == 16 && pairing.samples[17] == nil && pairing.samples[18] == 17 && pairing.samples.count == 39)
  }

  @Test func findsThatTheImagesBeginLater() {
    let frames = frames(40, without: [20, 21])
    let pairing = MoviePairing(rows: rows(frames), presentationTimes: times(frames.dropFirst(3).map { $0 - 3 }), tick: 1_666_667)
    #expect(pairing.method == .time && pairing.samples[0] == nil && pairing.samples[3] == 0 && pairing.samples[30] == 27)
  }

  /// Presentation times that are counted say nothing of dropped frames: going by them would shift every image after a gap.
  @Test func goesByNumberWhereTimesAreCounted() {
    let frames = frames(60, without: [20, 21, 22, 23])
    let pairing = MoviePairing(rows: rows(frames), presentationTimes: times(0..<58), tick: 1_666_667)
    #expect(pairing.method == .number)
    #expect((0..<56).allSatisfy { pairing.samples[Int64($0)] == $0 })
    // Two images more than rows.
    #expect(pairing.samples.keys.filter { $0 < 0 }.count == 2)
    #expect(zip(pairing.timestamps, pairing.timestamps.dropFirst()).allSatisfy { $0 < $1 })
  }

  /// The app hides its first frame; a program that encodes what players show loses it.
  @Test func findsThatTheHiddenImageWasLost() {
    let frames = frames(40, without: [20, 21])
    let lost = MoviePairing(rows: rows(frames), presentationTimes: times(0..<37), tick: 1_666_667)
    #expect(lost.method == .number && lost.lacksFirst && lost.firstRow == 1 && lost.samples[0] == nil)
    #expect((1..<38).allSatisfy { lost.samples[Int64($0)] == $0 - 1 } && lost.samples.count == 37)
    #expect(zip(lost.timestamps, rows(frames).dropFirst()).allSatisfy { $0 == $1.time })
    // All frames, the hidden one included.
    let whole = MoviePairing(rows: rows(frames), presentationTimes: times(0..<38), tick: 1_666_667, hasHidden: true)
    #expect(!whole.lacksFirst && whole.firstRow == 0 && (0..<38).allSatisfy { whole.samples[Int64($0)] == $0 })
    // With the hidden one it is the last that is missing; two less than rows tell nothing.
    let cut = MoviePairing(rows: rows(frames), presentationTimes: times(0..<37), tick: 1_666_667, hasHidden: true)
    #expect(!cut.lacksFirst && cut.samples[0] == 0 && cut.samples[37] == nil)
    let two = MoviePairing(rows: rows(frames), presentationTimes: times(0..<36), tick: 1_666_667)
    #expect(!two.lacksFirst && two.samples[0] == 0)
  }

  @Test func oneRowAndOneImage() {
    #expect(MoviePairing(rows: rows([0]), presentationTimes: [0], tick: 1).samples == [0: 0])
    #expect(MoviePairing(rows: rows([0]), presentationTimes: [0, period], tick: 1).samples[0] == 0)
  }
}
