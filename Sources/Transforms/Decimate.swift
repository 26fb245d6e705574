package import Model
package import Steps

/// Keeps some of the frames, with their true times.
///
///     - decimate: {every: 2}
///     - decimate: {rate: 30}
///     - decimate: {rate: 30, rule: counter}
///
/// `every: n` keeps frames 0, n, 2n, …; `rate` keeps the frame nearest to each tick of a grid at that rate (Hz) that starts at the first
/// frame, each frame once. `rule: counter` instead does what the slow-motion app does when it streams: it counts frames, and keeps the
/// last of every floor(frame rate / rate).
package struct Decimate: Transform {
  package static let name = "decimate"
  package static let summary = "Keeps every n-th frame, or those nearest to a given rate; true times are kept"

  @StepOption("keep one frame of this many", 1...) var every: Int? = nil
  @StepOption("keep this many frames per second, each at its own true time (Hz)", above: 0, through: 1e6) var rate: Double? = nil
  @StepOption("nearest: the frame nearest to each tick of the rate; counter: the last of every floor(frame rate / rate) frames")
  var rule = Rule.nearest

  /// The choice of frames at a rate.
  package enum Rule: String, OptionChoice { case nearest, counter }

  package init() {}

  /// Throws `OptionError` unless exactly one of `every` and `rate` is given.
  package func validate() throws {
    if every == nil, rate == nil { throw OptionError("every", "give either \"every\" or \"rate\"; without them nothing is dropped") }
    if every != nil, rate != nil { throw OptionError("rate", "give either \"every\" or \"rate\", not both") }
    if rule == .counter, rate == nil { throw OptionError("rule", "counter is used with \"rate\"") }
  }

  /// Keeps the chosen rows. Each takes over the mark of a tracking jump from the rows that are dropped before it.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    let rows: [Int]
    if let every {
      rows = Array(stride(from: 0, to: episode.frames.count, by: every))
    } else if let rate, rule == .counter {
      // A measured 119.98 Hz is the app's 120.
      let ratio = ((episode.frames.cadence.rateHz ?? 0).rounded() / rate).rounded(.down)
      let step = ratio.isFinite ? max(1, Int(min(ratio, 1e9))) : 1
      rows = Array(stride(from: step - 1, to: episode.frames.count, by: step))
    } else if let rate {
      rows = Self.rows(of: episode.frames.timestamps, at: rate)
    } else {
      return episode
    }
    var decimated = episode.keeping(rows, dropping: "decimated")
    // The step to a row that is kept has the jumps of those before it that are not.
    for (place, (before, row)) in zip(rows, rows.dropFirst()).enumerated() where !episode.frames.quality.isEmpty {
      if episode.frames.quality[(before + 1)...row].contains(where: { $0.contains(.poseJump) }) {
        decimated.frames.quality[place + 1].insert(.poseJump)
      }
    }
    // The frame after the last one is not the one that would be the next row.
    if rows.count < episode.frames.count { decimated.following = nil }
    return decimated
  }

  /// The rows nearest to the ticks 0, 1/rate, 2/rate, … after the first; ties go to the earlier row. The grid ends half a frame period
  /// after the last frame, so that rounding cannot lose it.
  static func rows(of timestamps: [Timestamp], at rate: Double) -> [Int] {
    guard let first = timestamps.first, let last = timestamps.last else { return [] }
    let times = timestamps.map { Double($0.since(first)) * rate / 1e9 }  // in ticks
    let end = (Double(last.since(first)) + (Cadence(timestamps).nominalPeriod ?? 0) / 2) * rate / 1e9
    // A frame is nearest to the ticks between the midpoints to its neighbors; it is kept when there is one.
    return times.indices.filter { row in
      let from = row == 0 ? -1 : (times[row - 1] + times[row]) / 2
      let to = row + 1 < times.count ? (times[row] + times[row + 1]) / 2 : end
      return to.rounded(.down) > from
    }
  }
}
