package import Model
package import Steps

/// Replaces the frames by rows on a uniform grid: the first frame's time plus `phase` plus k / `rate`, up to the last frame.
///
///     - resample: {rate: 10}
///     - resample: {rate: 30, tolerance: 0.05, max-gap: 0.2, method: {joints: nearest}}
///
/// Positions are interpolated linearly and rotations along the shortest arc, between the two frames around the tick; numbers linearly,
/// between the two samples around it; images, depth and confidence are the nearest sample. Ticks in gaps, and between two frames between which
/// tracking jumped, are no rows.
package struct Resample: Transform {
  package static let name = "resample"
  package static let summary = "Puts rows on a uniform time grid: interpolates poses and numbers, takes the nearest image and depth map"

  /// The value at a tick: the nearest sample, or an interpolation, of numbers along a line and of rotations along the shortest arc.
  package enum Method: String, OptionChoice { case nearest, linear, slerp }

  @StepOption("rows per second (Hz)", 1e-6...10_000) var rate: Double? = nil
  @StepOption("a sample farther from the tick than this is not used (seconds, inclusive)", 0...3600) var tolerance = 0.05
  @StepOption(
    "between frames further apart than this, ticks are no rows (seconds); null: 1.5 nominal periods, but at least the tolerance", 0...86_400
  )
  var maxGap: Double? = nil
  @StepOption(
    "time of the first tick after the first frame; ticks before it are rows too, if they are not before the first frame (seconds)", 0...3600
  )
  var phase = 0.0
  @StepOption("by stream: linear or nearest for numbers, slerp or nearest for poses") var method: [String: Method] = [:]

  package static var needsAligned: Bool { true }
  package static var makesGrid: Bool { true }

  package init() {}

  /// Throws `OptionError` without a rate, and for a method that does not suit the stream.
  package func validate() throws {
    if rate == nil { throw OptionError("rate", "give the rows per second; without it there is no grid") }
    for name in [StreamName.image, .depth, .confidence] {
      if let other = method[name.rawValue], other != .nearest {
        throw OptionError("method", "\(name) can only be nearest, found \(other.rawValue)")
      }
    }
    if method[StreamName.pose.rawValue] == .linear { throw OptionError("method", "pose can be slerp or nearest, found linear") }
    for name in [StreamName.joints, .depthPoint] where method[name.rawValue] == .slerp {
      throw OptionError("method", "\(name) can be linear or nearest, found slerp")
    }
  }

  package static var occursOnce: Bool { true }

  private static let mostTicks = 10_000_000.0

  /// Replaces the rows by the grid's. Throws `TakeFailure` for streams that are not aligned, and beyond ten million rows.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    guard let rate, let first = episode.frames.timestamps.first, let last = episode.frames.timestamps.last else { return episode }
    for (name, stream) in episode.streams where stream.rows == nil && stream.spec.kind.place != .meta {
      throw TakeFailure(.notAligned, "the stream \(name) is not on the frames' timeline; put the step align before resample")
    }
    guard Double(last.since(first)) / 1e9 * rate < Self.mostTicks else {
      throw TakeFailure(.limit, "\(rate) rows per second are more than \(Int(Self.mostTicks)) rows")
    }
    let grid = Grid(episode.frames, ticks: ticks(from: first, to: last, rate: rate), longestStep: longestStep(episode.frames))
    var resampled = episode
    resampled.frames.timestamps = grid.ticks
    resampled.following = nil
    resampled.frames.sourceIndex = grid.nearest.map { episode.frames.sourceIndex[$0] }
    resampled.frames.quality = grid.quality(of: episode.frames)
    resampled.frames.segment = episode.frames.segment.map { segment in grid.nearest.map { segment[$0] } }
    resampled.frames.nominalRate = rate
    resampled.frames.tick = 1
    resampled.frames.isResampled = true
    for (name, stream) in episode.streams {
      guard let rows = stream.rows else { continue }
      resampled.streams[name] = self.resampled(stream, name, rows, episode.frames, grid)
    }
    resampled.noteUnused(method.keys, in: "method", of: Self.self, before: episode)
    let used = Set(grid.nearest)
    if used.count < episode.frames.count {
      resampled.dropped.append(Episode.Dropped(reason: "resampled", count: episode.frames.count - used.count))
    }
    resampled.repeated += grid.ticks.count - used.count
    resampled.skippedTicks += grid.skipped
    return resampled
  }

  /// Every tick from the first to the last frame's time, rounded to whole nanoseconds from the exact k / rate.
  private func ticks(from first: Timestamp, to last: Timestamp, rate: Double) -> [Timestamp] {
    func tick(_ k: Int) -> Timestamp {
      first.advanced(by: Int64((phase * 1e9 + Double(k) * 1e9 / rate).rounded(.toNearestOrEven)))
    }
    var k = -Int((phase * rate).rounded(.up)) - 1
    while tick(k) < first { k += 1 }
    var ticks: [Timestamp] = []
    while case let time = tick(k), time <= last {
      ticks.append(time)
      k += 1
    }
    return ticks
  }

  /// The longest step between frames, in nanoseconds, that has rows in it.
  private func longestStep(_ frames: Episode.Frames) -> Double {
    maxGap.map { $0 * 1e9 } ?? max(1.5 * (frames.cadence.nominalPeriod ?? 0), tolerance * 1e9)
  }

  /// The rows, and the frames around each.
  private struct Grid {
    var ticks: [Timestamp] = []
    /// The frame before each tick, or at it, and the one after; the same for a tick at a frame.
    var around: [(before: Int, after: Int)] = []
    /// The frame nearest to each tick, the earlier of two equally near.
    var nearest: [Int] = []
    /// Ticks in gaps and in jumps.
    var skipped = 0

    init(_ frames: Episode.Frames, ticks all: [Timestamp], longestStep: Double) {
      let times = frames.timestamps
      var next = 0  // the first frame at or after the tick
      for tick in all {
        while next < times.count, times[next] < tick { next += 1 }
        guard next < times.count else { break }
        let before = times[next] == tick ? next : next - 1
        let isInJump = before != next && frames.quality.indices.contains(next) && frames.quality[next].contains(.poseJump)
        if isInJump || Double(times[next].since(times[before])) > longestStep {
          skipped += 1
          continue
        }
        ticks.append(tick)
        around.append((before, next))
        nearest.append(tick.since(times[before]) <= times[next].since(tick) ? before : next)
      }
    }

    /// The quality of the nearest frames; a jump is that of the first row after it, whichever frame is nearest.
    func quality(of frames: Episode.Frames) -> [FrameQuality] {
      guard !frames.quality.isEmpty else { return [] }
      var seen = 0  // frames at or before the row
      return zip(nearest, around).map { nearest, around in
        let reached = around.before + 1
        var quality = frames.quality[nearest].subtracting(.poseJump)
        if frames.quality[min(seen, reached)..<reached].contains(where: { $0.contains(.poseJump) }) { quality.insert(.poseJump) }
        seen = max(seen, reached)
        return quality
      }
    }
  }

  private func resampled(
    _ stream: SampleStream, _ name: StreamName, _ rows: [Row?], _ frames: Episode.Frames, _ grid: Grid
  ) -> SampleStream {
    var resampled = stream
    let isNearest = stream.spec.kind.interpolation == .nearest || method[name.rawValue] == .nearest
    let isOfFrames = zip(rows, frames.timestamps).allSatisfy { row, time in
      row.map { !$0.isBlend && stream.timestamps[$0.sample] == time } ?? true
    }
    if isOfFrames, stream.spec.kind.interpolation == .slerp, !isNearest {
      resampled.rows = zip(grid.ticks, grid.around).map { tick, around in
        guard let before = rows[around.before]?.sample, let after = rows[around.after]?.sample else { return nil }
        if before == after { return Row(before) }
        return Row(
          before, towards: after, by: SampleMatching.weight(of: tick, from: stream.timestamps[before], to: stream.timestamps[after]))
      }
      return resampled
    }
    // Poses at times of their own are interpolated like those of frames: between two that are no further apart than frames may be.
    let isPose = stream.spec.kind.interpolation == .slerp && !isNearest
    let limit = isPose ? Int64(longestStep(frames)) : Int64((tolerance * 1e9).rounded())
    // Samples of frames that an earlier step dropped are not used.
    let samples = isOfFrames ? rows.compactMap { $0?.sample } : stream.relation?.samples ?? Array(stream.timestamps.indices)
    let times = samples.map { stream.timestamps[$0] }
    if isNearest {
      resampled.rows = SampleMatching.nearest(in: times, to: grid.ticks, limit: limit).map { $0.map { Row(samples[$0]) } }
    } else {
      resampled.rows = SampleMatching.blended(times, at: grid.ticks, limit: limit).map { row in
        if isPose, let row, times[row.next].since(times[row.sample]) > limit { return nil }
        return row.map { $0.isBlend ? Row(samples[$0.sample], towards: samples[$0.next], by: $0.weight) : Row(samples[$0.sample]) }
      }
    }
    return resampled
  }
}
