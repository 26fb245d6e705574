/// The regularity of a stream's sampling: its nominal period, and the steps in which samples are missing.
package struct Cadence: Equatable, Sendable {
  /// Slope of time over sample count with missing samples counted, in nanoseconds; `nil` with fewer than two timestamps.
  package let nominalPeriod: Double?

  package var rateHz: Double? { nominalPeriod.map { 1e9 / $0 } }

  /// A gap in a timeline.
  package struct Gap: Equatable, Sendable {
    /// The row before the gap.
    package var row: Int
    /// The time from that row to the next, in nanoseconds.
    package var step: Int64

    package init(row: Int, step: Int64) { (self.row, self.step) = (row, step) }
  }

  /// Fits the period by a regression of time over sample number, in which a step counts as the nearest whole number of periods. A
  /// median of steps would be wrong wherever the time base cannot represent the period (240 fps on a 1/600 s grid).
  ///
  /// `nominalRate`: The rate in Hz, where it is known.
  package init(_ timestamps: [Timestamp], nominalRate: Double? = nil) {
    if let nominalRate {
      nominalPeriod = 1e9 / nominalRate
      return
    }
    let steps = zip(timestamps, timestamps.dropFirst()).map { Double($1.since($0)) }.filter { $0 > 0 }
    guard !steps.isEmpty else {
      nominalPeriod = nil
      return
    }
    // Start from the mean of the steps in which nothing is missing.
    let median = steps.sorted()[steps.count / 2]
    let whole = steps.filter { $0 < 1.75 * median }
    var period = whole.reduce(0, +) / Double(whole.count)
    for _ in 0..<3 {
      guard let slope = Self.slope(steps, period), slope > 0, slope.isFinite else { break }
      period = slope
    }
    nominalPeriod = period
  }

  /// Slope of time over sample number, with steps counted in whole `period`s.
  ///
  /// Each sample is counted from the time at which the previous one was due, not from its timestamp: a late arrival followed by an
  /// early one is jitter, not a missing sample. Where a late sample was counted as a missing one, the next step counts none. A tenth of
  /// each deviation moves the due time, which follows drift.
  private static func slope(_ steps: [Double], _ period: Double) -> Double? {
    var (count, time, due) = (0.0, 0.0, 0.0)
    var (sumN, sumT, sumNN, sumNT, samples) = (0.0, 0.0, 0.0, 0.0, 1.0)
    for step in steps {
      time += step
      let periods = max(0, ((time - due) / period).rounded())
      count += periods
      due += periods * period
      due += (time - due) / 10
      sumN += count
      sumT += time
      sumNN += count * count
      sumNT += count * time
      samples += 1
    }
    let variance = samples * sumNN - sumN * sumN
    return variance > 0 ? (samples * sumNT - sumN * sumT) / variance : nil
  }

  /// Every step longer than 1.5 nominal periods plus one tick of the source's time base.
  package func gaps(in timestamps: [Timestamp], tick: Int64) -> [Gap] {
    guard let nominalPeriod else { return [] }
    let limit = 1.5 * nominalPeriod + Double(tick)
    return zip(timestamps, timestamps.dropFirst()).enumerated().compactMap { row, pair in
      let step = pair.1.since(pair.0)
      return Double(step) > limit ? Gap(row: row, step: step) : nil
    }
  }
}
