import Model

/// The offset from a stream's clock to the frames' clock, by the best available evidence, in this order:
///
/// - `same-clock`: both are the same clock, or start within 5 s of each other; times are used unchanged.
/// - `motion-correlation`: the IMU on the stream's clock rotated as the poses did; see `MotionCorrelation`.
/// - `activity-correlation`, on request: joints moved when the phone rotated; see `MotionCorrelation`.
/// - `first-imu`: both recordings were armed at once, so the first reading of the IMU on the stream's clock is assumed to be at the first
///   frame. Accurate to about 30 ms.
/// - `first-sample`: both recordings were started at once, and the stream's first sample arrived within 1.1 s of the start time, so its
///   first sample is assumed to be at the first frame. Accurate to about 50 ms. Of joints; other streams on their clock have their offset,
///   because nobody says when they begin.
/// - `unaligned`: anything else; the stream is masked, not guessed.
///
/// Before that, arrival times of samples with the sender's own milliseconds are replaced by `SenderClock`'s.
struct ClockOffset {
  let method: String
  /// Added to the stream's times to get the frames' clock; `nil` when unaligned.
  let offset: Int64?
  /// Half-width of the remaining uncertainty, in nanoseconds.
  let residual: Int64?
  /// The stream's samples on the frames' clock, ascending.
  let timestamps: [Timestamp]
  private(set) var findings: [Finding] = []

  /// - Parameter motion: The clock offset of the take's IMU, found by its motion.
  /// - Parameter correlatesJoints: Whether `activity-correlation` is requested.
  init(from stream: SampleStream, to episode: Episode, motion: MotionCorrelation? = nil, correlatesJoints: Bool = false) {
    let frames = episode.frames
    if let known = stream.relation?.alignment {
      (method, offset, residual, timestamps) = (known.method, known.offset, known.residual, stream.timestamps)
      return
    }
    if stream.spec.clock == frames.clock {
      (method, offset, residual, timestamps) = ("same-clock", 0, 0, stream.timestamps)
      return
    }
    var times = stream.timestamps
    var delay: Int64 = 0
    var prefix = ""
    if let sent = stream.senderMilliseconds {
      let clock = SenderClock(arrivals: stream.timestamps, milliseconds: sent)
      findings += clock.findings
      if let measured = clock.timestamps {
        times = measured
        delay = clock.medianDelay
        prefix = "sender-clock+"
      }
    }
    guard let firstFrame = episode.captureStart ?? frames.timestamps.first, let firstSample = times.first else {
      (method, offset, residual, timestamps) = ("unaligned", nil, nil, times)
      return
    }
    if ![.laptop, .unknown].contains(stream.spec.clock), abs(Double(firstSample.since(firstFrame))) < 5e9 {
      (method, offset, residual, timestamps) = (prefix + "same-clock", 0, delay, times)
      return
    }
    let imu = episode.streams.first { $0.value.spec.kind == .inertial && $0.value.spec.clock == stream.spec.clock }?.value
    if imu != nil, let motion {
      (method, offset, residual) = (prefix + "motion-correlation", motion.offset, motion.residual)
      timestamps = times.map { $0.advanced(by: motion.offset) }
      return
    }
    if stream.spec.kind == .vector,
      let joints = episode.streams.values.first(where: { $0.spec.kind == .angles && $0.spec.clock == stream.spec.clock })
    {
      let same = ClockOffset(from: joints, to: episode, correlatesJoints: correlatesJoints)
      if let shift = same.offset {
        (method, offset, residual) = (same.method.replacing("sender-clock+", with: ""), shift, same.residual)
        timestamps = times.map { $0.advanced(by: shift) }
        return
      }
    }
    if correlatesJoints, stream.spec.kind == .angles, let found = try? MotionCorrelation(joints: stream, at: times, in: episode) {
      (method, offset, residual) = (prefix + "activity-correlation", found.offset, found.residual)
      timestamps = times.map { $0.advanced(by: found.offset) }
      return
    }
    if let firstReading = imu?.timestamps.first, stream.spec.clock != .unknown {
      let start = episode.unixOrigin?.nanoseconds
      if start.map({ (0...1_100_000_000).contains(firstReading.nanoseconds - $0) }) ?? true {
        let shift = firstFrame.since(firstReading)
        (method, offset, residual) = (prefix + "first-imu", shift, 30_000_000)
        timestamps = times.map { $0.advanced(by: shift) }
        return
      }
    }
    let arrival = stream.timestamps[0].nanoseconds
    if stream.spec.kind == .angles, stream.spec.clock == .phoneUnix, let start = episode.unixOrigin, arrival >= start.nanoseconds,
      arrival - start.nanoseconds <= 1_100_000_000
    {
      let shift = firstFrame.since(firstSample)
      (method, offset, residual) = (prefix + "first-sample", shift, 50_000_000)
      timestamps = times.map { $0.advanced(by: shift) }
      return
    }
    (method, offset, residual, timestamps) = ("unaligned", nil, nil, times)
    let why =
      [.laptop, .unknown].contains(stream.spec.clock)
      ? "their offset is unknown"
      : stream.spec.kind == .vector
        ? "neither an IMU nor joints on it tell the offset"
        : episode.unixOrigin == nil
          ? "the session has no start time" : "its first sample did not arrive within 1.1 s of the start"
    findings.append(
      Finding(
        .clockUnaligned,
        "the stream is on the clock \(stream.spec.clock.rawValue), the frames on \(frames.clock.rawValue), and \(why); its rows are masked")
    )
  }
}

/// Times of measurement, from arrival times and the sender's own clock.
///
/// Arrivals are late, never early, so the sender's clock runs along the lower edge of arrival against sent time. In each segment without a
/// restart, the fit is the line below all points with the least total delay; it passes through the edge of the lower convex hull above
/// the mean. Its slope is held within 100 ppm of 1, which crystals keep, and within proportionally less in segments under a minute, which
/// are too short to measure it.
struct SenderClock {
  /// Ascending; `nil` when the sender's clock does not run like one.
  let timestamps: [Timestamp]?
  /// Median delay of the arrivals after the fitted times, in nanoseconds.
  let medianDelay: Int64
  private(set) var findings: [Finding] = []

  init(arrivals: [Timestamp], milliseconds: [UInt32]) {
    var fitted: [Timestamp] = []
    var delays: [Int64] = []
    let segments = Self.segments(milliseconds)
    for segment in segments {
      // Differences from the segment's first sample keep the doubles small and exact.
      let origin = arrivals[segment.range.lowerBound]
      let sent = zip(segment.range, segment.milliseconds).map { Double($1 - segment.milliseconds[0]) * 1e6 }
      let late = segment.range.map { Double(arrivals[$0].since(origin)) }
      guard let line = Self.lowerLine(sent, late) else {
        timestamps = nil
        medianDelay = 0
        findings.append(
          Finding(.senderClockUnusable, "the sender's milliseconds do not advance with time; arrival times are used"))
        return
      }
      for (index, x) in zip(segment.range, sent) {
        let time = origin.advanced(byNanoseconds: line.intercept + line.slope * x)
        fitted.append(max(time, fitted.last ?? time))
        delays.append(arrivals[index].since(time))
      }
    }
    if segments.count > 1 {
      findings.append(
        Finding(.senderRestarted, "the sender's clock restarted during the take", count: segments.count - 1))
    }
    delays.sort()
    // A clock that is off by percents shows in delays that grow with the take.
    guard delays[delays.count * 9 / 10] - delays[delays.count / 10] <= Self.greatestSpread else {
      timestamps = nil
      medianDelay = 0
      findings.append(
        Finding(
          .senderClockUnusable, "the sender's milliseconds and the arrival times drift apart; arrival times are used"))
      return
    }
    timestamps = fitted
    medianDelay = delays[delays.count / 2]
  }

  /// Greatest spread of nine tenths of the delays; radio links vary by 20 ms or so.
  private static let greatestSpread: Int64 = 60_000_000

  struct Segment {
    var range: Range<Int>
    /// Milliseconds, unwrapped past 2^32.
    var milliseconds: [Int64]
  }

  /// Segments in which the sender did not restart. A decrease by more than 2^31 is the counter's wrap.
  static func segments(_ milliseconds: [UInt32]) -> [Segment] {
    var segments: [Segment] = []
    var current: [Int64] = []
    var start = 0
    for (index, value) in milliseconds.enumerated() {
      var time = Int64(value)
      if let last = current.last {
        time += last & ~0xFFFF_FFFF
        if time < last, last - time > 1 << 31 { time += 1 << 32 }
        if time < last {
          segments.append(Segment(range: start..<index, milliseconds: current))
          (current, start, time) = ([], index, Int64(value))
        }
      }
      current.append(time)
    }
    if !current.isEmpty { segments.append(Segment(range: start..<milliseconds.count, milliseconds: current)) }
    return segments
  }

  /// The line below all points with the least sum of vertical distances, its slope held near 1. `x` ascends, in nanoseconds.
  static func lowerLine(_ x: [Double], _ y: [Double]) -> (slope: Double, intercept: Double)? {
    guard let last = x.last else { return nil }
    var hull: [(x: Double, y: Double)] = []
    for point in zip(x, y).map({ (x: $0, y: $1) }) {
      while hull.count > 1 {
        let (a, b) = (hull[hull.count - 2], hull[hull.count - 1])
        if (b.x - a.x) * (point.y - a.y) - (b.y - a.y) * (point.x - a.x) > 0 { break }
        hull.removeLast()
      }
      hull.append(point)
    }
    let mean = x.reduce(0, +) / Double(x.count)
    var slope = 1.0
    if let right = hull.firstIndex(where: { $0.x >= mean }), right > 0, hull[right].x > hull[right - 1].x {
      slope = (hull[right].y - hull[right - 1].y) / (hull[right].x - hull[right - 1].x)
    }
    // A rate that is off by a tenth over a second or more is not a valid clock.
    if last > 1e9, abs(slope - 1) > 0.1 { return nil }
    let tolerance = 100e-6 * min(last / 60e9, 1)
    slope = min(max(slope, 1 - tolerance), 1 + tolerance)
    let intercept = zip(x, y).map { $1 - slope * $0 }.min() ?? 0
    return (slope, intercept)
  }
}
