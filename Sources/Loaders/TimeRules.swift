import Model
import Steps

/// The times: length of the episodes, and regularity of their rows.
extension Examined {
  func withDifferentLengths() -> [Problem] {
    let lengths = readable.map(\.rows)
    guard let least = lengths.min(), let greatest = lengths.max(), least < greatest else { return [] }
    return [Problem(sentence: "episodes have \(least) to \(greatest) rows", episodes: [])]
  }

  /// Episodes of fewer rows than `least`; with another severity and remedy if all are that short.
  func shorter(
    than least: Int, ifAll severity: Diagnosis.Severity? = nil,
    _ remedy: Remedy = Remedy("record longer takes, or train on shorter windows (--window)")
  ) -> [Problem] {
    let bad = readable.filter { $0.rows < least }
    guard let shortest = bad.map(\.rows).min() else { return [] }
    return [
      Problem(
        sentence: "\(have(bad.map(\.id))) fewer than \(several(least, "row")), the shortest \(shortest)", episodes: bad.map(\.id),
        remedy: bad.count == readable.count
          ? remedy
          : Remedy("leave them out", steps: "min-frames: {count: \(least)}"), severity: bad.count == readable.count ? severity : nil)
    ]
  }

  func withGaps() -> [Problem] {
    let bad = readable.filter { $0.times.gaps > 0 }
    guard !bad.isEmpty else { return [] }
    let (count, longest) = (bad.reduce(0) { $0 + $1.times.gaps }, bad.map(\.times.longestStep).max() ?? 0)
    return [
      Problem(
        sentence: "\(several(count, "gap")) in \(words(bad.map(\.id))), the longest \(short(longest)) s", episodes: bad.map(\.id))
    ]
  }

  /// Episodes more than a twentieth of whose steps are off the period.
  func withUnevenTimes() -> [Problem] {
    let bad = readable.filter { 20 * $0.times.unevenSteps > $0.times.steps }
    guard let worst = bad.max(by: { share($0) < share($1) }) else { return [] }
    return [
      Problem(
        sentence:
          "up to \(percent(share(worst))) of the steps are more than a tenth off the period of \(short(1000 / (worst.times.rate ?? 1))) ms, in \(words(bad.map(\.id)))",
        episodes: bad.map(\.id), remedy: .resampling(usualRate ?? worst.times.rate ?? 30))
    ]
  }

  /// Episodes with a row that is more than a tenth of a row off the grid of the nearest whole rate.
  func offTheGrid() -> [Problem] {
    let bad = readable.filter { $0.times.offGrid > 0.1 }
    guard let worst = bad.max(by: { $0.times.offGrid < $1.times.offGrid }), let usual = usualRate else { return [] }
    return [
      Problem(
        sentence: "rows are up to \(short(worst.times.offGrid)) of a row off row / \(Int(usual.rounded())), in \(words(bad.map(\.id)))",
        episodes: bad.map(\.id),
        remedy: Remedy(
          "put the rows on a uniform grid, and make each stretch without gaps an episode",
          steps: "resample: {rate: \(Int(usual.rounded()))}",
          "split-episodes: {at: gaps}"))
    ]
  }

  private func share(_ episode: EpisodeMeasurements) -> Double { Double(episode.times.unevenSteps) / Double(max(1, episode.times.steps)) }

  // MARK: Rates

  /// The rate of most rows, in Hz.
  var usualRate: Double? {
    var rows: [Int: (rows: Int, rate: Double)] = [:]
    for episode in readable {
      guard let rate = episode.times.rate, rate.isFinite, rate < 1e9 else { continue }
      rows[Int(rate.rounded()), default: (0, rate)].rows += episode.rows
    }
    return rows.max { ($0.value.rows, $1.key) < ($1.value.rows, $0.key) }?.value.rate
  }

  /// Episodes whose rate is more than a hundredth off that of the most rows.
  func withOtherRates() -> [Problem] {
    guard let usual = usualRate else { return [] }
    let bad = readable.filter { $0.times.rate.map { abs($0 / usual - 1) > 0.01 } ?? false }
    guard let other = bad.first?.times.rate else { return [] }
    return [
      Problem(
        sentence: "\(words(bad.map(\.id))) \(bad.count == 1 ? "is" : "are") at \(short(other)) Hz, and most rows at \(short(usual)) Hz",
        episodes: bad.map(\.id),
        remedy: .resampling(usual))
    ]
  }

  /// Whether the usual rate is not this one, within a hundredth.
  func withRate(otherThan expected: Double, _ remedy: Remedy? = nil) -> [Problem] {
    guard let usual = usualRate, abs(usual / expected - 1) > 0.01 else { return [] }
    return [Problem(sentence: "rows are at \(short(usual)) Hz", episodes: [], remedy: remedy)]
  }

  /// A rate that is no whole number, within a hundredth.
  func withFractionalRate() -> [Problem] {
    guard let usual = usualRate, abs(usual - max(1, usual.rounded())) > usual / 100 else { return [] }
    return [Problem(sentence: "rows are at \(short(usual)) Hz, which is no whole number", episodes: [], remedy: .resampling(usual))]
  }
}

extension Remedy {
  /// Puts all rows on one grid, at the nearest whole rate.
  static func resampling(_ rate: Double) -> Remedy {
    Remedy("put the rows on a uniform grid", steps: "resample: {rate: \(Int(max(1, min(rate, 10_000)).rounded()))}")
  }
}
