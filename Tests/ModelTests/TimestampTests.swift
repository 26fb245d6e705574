import Model
import Testing

@Suite struct TimestampTests {
  @Test(arguments: [
    ("81234.567890125", 81_234_567_890_125), ("105230.574092166", 105_230_574_092_166), ("0", 0), ("-1.5", -1_500_000_000),
    ("1738851234.123456789", 1_738_851_234_123_456_789), ("1e3", 1_000_000_000_000), ("2.5E-9", 2), ("3.5e-9", 4),
    ("2.50000000000000000001e-9", 3), ("0.0000000004", 0), ("0.0166666666666666664", 16_666_667), ("12.000", 12_000_000_000),
    ("123456789.1234567894999999999", 123_456_789_123_456_789), ("1e-400", 0),
  ]) func roundsDecimalSecondsToTheNearestNanosecond(text: String, nanoseconds: Int64) {
    #expect(Timestamp(decimalSeconds: text.utf8)?.nanoseconds == nanoseconds)
  }

  @Test(arguments: ["NaN", "Infinity", "", "1e30", "99999999999", "-", "9.2e9", "-2e9"]) func refusesWhatIsNoTime(text: String) {
    #expect(Timestamp(decimalSeconds: text.utf8) == nil)
  }

  @Test func clampsDifferencesInsteadOfOverflowing() {
    let (low, high) = (Timestamp(nanoseconds: .min), Timestamp(nanoseconds: .max))
    #expect(high.since(low) == .max)
    #expect(low.since(high) == .min)
    #expect(high.advanced(by: 1) == high)
  }
}

@Suite struct CadenceTests {
  private func stamps(_ nanoseconds: [Int64]) -> [Timestamp] { nanoseconds.map { Timestamp(nanoseconds: $0) } }

  @Test func countsMissingSamples() throws {
    // 60 Hz with every tenth frame missing: a mean of steps would say 54 Hz.
    let times = (0..<600).filter { $0 % 10 != 5 }.map { Int64(Double($0) * 1e9 / 60) }
    let rate = try #require(Cadence(stamps(times)).rateHz)
    #expect(abs(rate - 60) < 1e-3)
  }

  @Test func seesThroughATimeBaseThatCannotExpressThePeriod() throws {
    // 240 fps on a grid of 1/600 s: steps of 2 and 3 ticks, whose median says 200 or 300.
    let times = (0..<480).map { Int64((Double($0) * 2.5).rounded(.down) * 1e9 / 600) }
    let rate = try #require(Cadence(stamps(times)).rateHz)
    #expect(abs(rate - 240) < 0.5)
  }

  @Test func takesJitterForJitter() throws {
    var state: UInt64 = 9
    let times = (0..<500).map { index in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int64(index) * 20_000_000 + Int64(state >> 40) % 13_000_000
    }
    let rate = try #require(Cadence(stamps(times.sorted())).rateHz)
    #expect(abs(rate - 50) < 0.2)
  }

  @Test func averagesStepsOfTwoLengths() throws {
    // Depth maps of an iPhone come after two or three frames of 1/60 s.
    let frames = (0..<200).scan(0) { sum, index in sum + [2, 3, 2, 2, 3][index % 5] }
    let rate = try #require(Cadence(stamps(frames.map { Int64($0) * 16_666_667 })).rateHz)
    #expect(abs(rate - 25) < 0.05)
  }

  @Test func findsGapsAboveOneAndAHalfPeriods() {
    let times: [Int64] = [0, 10, 20, 30, 50, 60, 75, 85].map { $0 * 1_000_000 }
    let cadence = Cadence(stamps(times))
    #expect(cadence.gaps(in: stamps(times), tick: 1) == [Cadence.Gap(row: 3, step: 20_000_000)])
  }

  @Test func saysNothingOfASingleMoment() {
    #expect(Cadence(stamps([5])).rateHz == nil)
    #expect(Cadence(stamps([5])).gaps(in: stamps([5]), tick: 1).isEmpty)
    #expect(Cadence([]).rateHz == nil)
  }
}

extension Sequence {
  fileprivate func scan(_ initial: Int, _ next: (Int, Element) -> Int) -> [Int] {
    reduce(into: [initial]) { $0.append(next($0[$0.count - 1], $1)) }
  }
}
