package import Model
package import Steps

/// A check of the streams beside the frames, whichever reader made them: IMU, second camera, depth, tables. What has holes, begins late, ends early
/// or is of another time than the frames is reported.
package enum SecondaryStreams {
  /// A step of so many periods is a hole, if it is as long as this, too. An IMU is integrated, so that it misses less.
  private static let periods = 2.5, leastHole = 250_000_000.0, leastHoleOfAnIMU = 100_000_000.0
  /// Sensors and cameras start and stop one after the other, by so many nanoseconds.
  private static let apart = 250_000_000.0
  /// The same where clocks differ and only durations can be compared: the app's clock is started with the recording.
  private static let apartOnOtherClocks = 1_500_000_000.0

  /// Adds a finding for each stream with a hole, for each that begins late or ends early, and for tables that are not read.
  package static func examine(_ episode: inout Episode, _ inputs: TakeInputs) {
    for (name, stream) in episode.streams.sorted(by: { $0.key < $1.key }) where isSecondary(name, stream) {
      guard let span = Span(episode.frames.timestamps), let samples = Span(stream.timestamps) else { continue }
      let isSameClock = stream.spec.clock == episode.frames.clock
      if isSameClock, samples.first.since(span.last) > Int64(apart) || span.first.since(samples.last) > Int64(apart) {
        var finding = Finding(
          .samplesOutside, "no sample is near a frame: samples are \(samples.words), frames \(span.words)")
        finding.field = name.rawValue
        episode.findings.append(finding)
        // Samples of rows are masked by their times; those that are stored at their own must not seem to be on the frames'.
        if stream.spec.kind == .inertial { episode.streams[name]?.spec.clock = .unknown }
      } else if let finding = incomplete(name, stream, episode, span, samples, isSameClock: isSameClock) {
        episode.findings.append(finding)
      }
    }
    let tables = inputs.ignored.filter { $0 == "streams/" || $0.hasPrefix("streams/") && $0.hasSuffix(".csv") }
    if !tables.isEmpty {
      episode.findings.append(
        Finding(
          .inputIgnored, "tables of streams are read in StackCapture sessions only; nothing of these is in the dataset", severity: .warning,
          file: tables.count == 1 ? tables[0] : "streams/", count: tables.count))
    }
  }

  /// The time from the first sample to the last.
  private struct Span {
    var first: Timestamp
    var last: Timestamp

    init?(_ times: [Timestamp]) {
      guard let first = times.first, let last = times.last else { return nil }
      (self.first, self.last) = (first, last)
    }

    var length: Double { Double(last.since(first)) }

    var words: String { Timestamp.span([first, last]) }
  }

  private static func isSecondary(_ name: StreamName, _ stream: SampleStream) -> Bool {
    guard stream.rows == nil, name != .depthPoint else { return false }
    return switch stream.spec.kind {
    case .inertial, .image, .depth: true
    // Some tables have a line for each event.
    case .vector: isRegular(stream)
    default: false
    }
  }

  /// Whether nine in ten steps are those of a sensor that measures at a rate.
  private static func isRegular(_ stream: SampleStream) -> Bool {
    guard stream.timestamps.count > 10, let period = stream.cadence.nominalPeriod else { return false }
    let usual = zip(stream.timestamps, stream.timestamps.dropFirst()).count { Double($1.since($0)) < 1.5 * period }
    return usual * 10 >= 9 * (stream.timestamps.count - 1)
  }

  private static func incomplete(
    _ name: StreamName, _ stream: SampleStream, _ episode: Episode, _ span: Span, _ samples: Span, isSameClock: Bool
  ) -> Finding? {
    // A reader that knows which maps are missing has said so.
    if stream.spec.kind == .depth, episode.findings.contains(where: { $0.code == .depthMissing || $0.code == .partialUpload }) {
      return nil
    }
    guard let period = stream.cadence.nominalPeriod ?? episode.frames.cadence.nominalPeriod, period > 0 else { return nil }
    let limit = max(periods * period, stream.spec.kind == .inertial ? leastHoleOfAnIMU : leastHole)
    var parts: [String] = []
    var missing = 0.0
    func seconds(_ nanoseconds: Double) -> String { "\((nanoseconds / 1e7).rounded() / 100) s" }
    func note(_ nanoseconds: Double, _ words: String) {
      missing += (nanoseconds / period).rounded()
      parts.append(words)
    }
    if isSameClock {
      let late = Double(samples.first.since(span.first))
      if late > max(limit, apart) { note(late, "begin \(seconds(late)) after the first frame") }
    }
    let holes = Self.holes(in: stream, longerThan: limit, episode.frames.timestamps, span, isSameClock: isSameClock)
    if let longest = holes.max() {
      note(
        holes.reduce(0) { $0 + max($1 - period, 0) },
        "have \(holes.count) \(holes.count == 1 ? "hole" : "holes"), \(holes.count == 1 ? "" : "the longest ")of \(seconds(longest))")
    }
    if isSameClock {
      let early = Double(span.last.since(samples.last))
      if early > max(limit, apart), !stream.endsEarlier { note(early, "end \(seconds(early)) before the last frame") }
    } else {
      let short = span.length - samples.length
      if short > max(limit, apartOnOtherClocks) { note(short, "last \(seconds(samples.length)), and the frames \(seconds(span.length))") }
    }
    guard !parts.isEmpty else { return nil }
    var finding = Finding(
      .streamIncomplete, "its samples \(parts.joined(separator: ", and ")); about this many are missing", count: Int(min(missing, 1e9)))
    finding.field = name.rawValue
    return finding
  }

  /// Lengths of the steps that are holes, in nanoseconds. Each counts in an IMU, because it is integrated; in other streams, those that
  /// contain a frame.
  private static func holes(
    in stream: SampleStream, longerThan limit: Double, _ frames: [Timestamp], _ span: Span, isSameClock: Bool
  ) -> [Double] {
    var holes: [Double] = []
    var next = 0  // the first frame after the sample before the step
    for (before, after) in zip(stream.timestamps, stream.timestamps.dropFirst()) {
      let step = Double(after.since(before))
      guard step > limit else { continue }
      if isSameClock {
        guard after > span.first, before < span.last else { continue }
        while next < frames.count, frames[next] <= before { next += 1 }
        guard stream.spec.kind == .inertial || next < frames.count && frames[next] < after else { continue }
      }
      holes.append(step)
    }
    return holes
  }
}

extension Episode.UnixOrigin {
  /// The start of a recording whose times are Unix times. They are as exact as they are written: to the greatest power of ten that divides them all.
  ///
  /// - Parameter listed: Times as the file has them.
  init?(start: Timestamp?, listed: [Timestamp?], on clock: Clock) {
    guard clock == .phoneUnix, let start else { return nil }
    var resolution: Int64 = 1_000_000_000
    for time in listed.compactMap(\.self) { while time.nanoseconds % resolution != 0 { resolution /= 10 } }
    self.init(nanoseconds: start.nanoseconds, resolution: resolution)
  }
}
