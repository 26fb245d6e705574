package import Model
package import Steps

/// Maps every stream to the frames' timeline: for each frame the nearest sample within a tolerance, or a value interpolated between its
/// two neighbors, and a mask where there is none.
///
///     - align: {tolerance: 0.05, method: nearest}
///
/// `reference-compatible` does to joints what the recorder's own loader does, for comparisons: clocks start at their first samples,
/// readings farther than 50 ms become zeros, and angles are unwrapped after that.
///
/// Streams on another clock are first mapped to the frames' clock by `ClockOffset`, and the method is recorded.
package struct Align: Transform {
  package static let name = "align"
  package static let summary = "Pairs each frame with a sample of every stream, by time"

  /// The value of a frame: the nearest sample, or an interpolation between its two neighbors.
  package enum Method: String, OptionChoice { case nearest, linear }

  @StepOption("a sample farther from the frame than this is not used (seconds, inclusive)", 0...3600) var tolerance = 0.05
  @StepOption("linear: numbers are interpolated between the two samples around the frame, both within the tolerance") var method = Method
    .nearest
  @StepOption("without an IMU, find the clock of the joints by comparing when they moved and when the phone rotated") var correlateJoints =
    false
  @StepOption("joints as the recorder's own loader makes them: from zero-based clocks, zeros where there is no reading")
  var referenceCompatible = false

  @StepOption(
    "known delays between the moment that a sensor measured and its timestamps, by stream (seconds); subtracted from the timestamps")
  var latency: [String: Double] = [:]

  package static var occursOnce: Bool { true }
  package var optionOfOnePhone: String? { referenceCompatible ? "reference-compatible" : correlateJoints ? "correlate-joints" : nil }
  package static var aligns: Bool { true }

  package init() {}

  /// Throws `OptionError` for a latency beyond 10 s, and for any with `reference-compatible`.
  package func validate() throws {
    if referenceCompatible, !latency.isEmpty {
      throw OptionError("latency", "the recorder's own loader knows none; remove it, or reference-compatible")
    }
    if let late = latency.first(where: { !(-Self.greatestLatency...Self.greatestLatency).contains($0.value) }) {
      throw OptionError("latency", "expected from -10 to 10 seconds, found \(late.value) for \(late.key)")
    }
  }

  private static let greatestLatency = 10.0

  /// Pairs the rows with samples of every stream, and records offset, residual (ns) and method of each.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    var aligned = episode
    let limit = Int64((tolerance * 1e9).rounded())
    // The clocks of a joined take are related already.
    let isJoined = episode.streams.values.contains { $0.relation != nil }
    let motion = isJoined ? nil : try MotionCorrelation(episode)
    let late = latencies(in: episode)
    aligned.noteUnused(latency.keys, in: "latency", of: Self.self, before: episode)
    for (name, stream) in episode.streams.sorted(by: { $0.key < $1.key }) where stream.rows != nil {
      guard let latency = late[name] else { continue }
      if latency != 0 { aligned.streams[name] = delayed(stream, by: latency, at: episode.frames, limit: limit) }
      aligned.alignments.append(
        Episode.Alignment(
          stream: name, method: "same-clock+nearest", offset: 0, residual: 0, latency: latency, member: stream.spec.member))
    }
    for (name, stream) in episode.streams.sorted(by: { $0.key < $1.key }) where stream.rows == nil {
      let isAngles = stream.spec.kind == .angles
      if referenceCompatible, isAngles {
        aligned.streams[name] = try ReferenceJoints.align(stream, to: episode.frames)
        aligned.alignments.append(Episode.Alignment(stream: name, method: "reference-compatible"))
        continue
      }
      let offset = ClockOffset(from: stream, to: episode, motion: motion, correlatesJoints: correlateJoints)
      aligned.findings += offset.findings.map { finding in
        var named = finding
        named.field = name.rawValue
        return named
      }
      var moved = stream
      moved.spec.clock = episode.frames.clock
      let latency = late[name]
      moved.latency = latency ?? 0
      moved.timestamps = latency.map { late in offset.timestamps.map { $0.advanced(by: -late) } } ?? offset.timestamps
      aligned.alignments.append(
        Episode.Alignment(
          stream: name, method: "\(offset.method)+\(method.rawValue)", offset: offset.offset, residual: offset.residual, latency: latency,
          member: stream.spec.member))
      if stream.spec.kind.place == .meta {
        if offset.offset == nil { moved.spec.clock = stream.spec.clock }
        if stream.spec.clock != episode.frames.clock, offset.offset != nil, let finding = incomplete(moved, of: episode, name) {
          aligned.findings.append(finding)
        }
      } else if offset.offset == nil {
        moved.rows = Array(repeating: nil, count: episode.frames.count)
      } else if method == .linear, stream.spec.kind.interpolation == .linear {
        moved.rows = SampleMatching.blended(moved.timestamps, at: episode.frames.timestamps, limit: limit)
      } else {
        // Of a joined take's members, not every sample may be a row's.
        let samples = stream.relation?.samples ?? Array(moved.timestamps.indices)
        moved.rows = SampleMatching.nearest(in: samples.map { moved.timestamps[$0] }, to: episode.frames.timestamps, limit: limit)
          .map { $0.map { Row(samples[$0]) } }
      }
      aligned.streams[name] = moved
      let isSaid = episode.findings.contains { $0.code == .samplesOutside && $0.field == name.rawValue }
      if [.vector, .angles].contains(stream.spec.kind), offset.offset != nil, !isSaid, moved.rows?.contains(where: { $0 != nil }) == false {
        aligned.findings.append(outside(moved.timestamps, of: episode, name))
      }
    }
    aligned.unixOrigin = unixOrigin(of: episode, by: aligned.alignments)
    // Its samples have other times now.
    aligned.following = nil
    // A frame that has lost its pose to a latency is no row.
    for (name, stream) in aligned.streams where stream.spec.kind.poseFrame != nil && stream.latency != 0 && stream.relation == nil {
      guard let rows = aligned.streams[name]?.rows, rows.contains(where: { $0 == nil }) else { continue }
      aligned = aligned.keeping(rows.indices.filter { rows[$0] != nil }, dropping: "pose-missing")
    }
    return aligned
  }

  /// The Unix time of the frames: that of a stream on Unix time that was aligned to them, where it is known better so.
  private func unixOrigin(of episode: Episode, by alignments: [Episode.Alignment]) -> Episode.UnixOrigin? {
    guard episode.frames.clock != .phoneUnix, let start = episode.captureStart ?? episode.frames.timestamps.first else {
      return episode.unixOrigin
    }
    let known = alignments.compactMap { alignment -> Episode.UnixOrigin? in
      guard episode.streams[alignment.stream]?.spec.clock == .phoneUnix, let offset = alignment.offset, offset != .min,
        let residual = alignment.residual
      else { return nil }
      return Episode.UnixOrigin(nanoseconds: start.advanced(by: -offset).nanoseconds, resolution: max(residual, 1))
    }
    let best = known.min { ($0.resolution, $0.nanoseconds) < ($1.resolution, $1.nanoseconds) }
    guard let best, best.resolution < episode.unixOrigin?.resolution ?? .max else { return episode.unixOrigin }
    return best
  }

  private func outside(_ samples: [Timestamp], of episode: Episode, _ name: StreamName) -> Finding {
    var finding = Finding(
      .samplesOutside,
      "no sample is near a frame: samples are \(Timestamp.span(samples)), frames \(Timestamp.span(episode.frames.timestamps)); its rows are masked"
    )
    finding.field = name.rawValue
    return finding
  }

  /// The finding that a stream whose clock is related to the frames' only now begins after them or ends before them.
  private func incomplete(_ stream: SampleStream, of episode: Episode, _ name: StreamName) -> Finding? {
    guard let first = stream.timestamps.first, let last = stream.timestamps.last, let begin = episode.frames.timestamps.first,
      let end = episode.frames.timestamps.last, let period = stream.cadence.nominalPeriod, period > 0,
      !episode.findings.contains(where: { $0.code == .streamIncomplete && $0.field == name.rawValue })
    else { return nil }
    let missing = [(first.since(begin), "begin", "after the first"), (end.since(last), "end", "before the last")]
      .filter { $0.0 > Self.apart }
    guard !missing.isEmpty else { return nil }
    let words = missing.map { "\($0.1) \((Double($0.0) / 1e7).rounded() / 100) s \($0.2) frame" }.joined(separator: ", and ")
    let count = missing.reduce(0.0) { $0 + Double($1.0) / period }
    var finding = Finding(
      .streamIncomplete, "its samples \(words); about this many are missing", count: Int(min(count.rounded(), 1e9)))
    finding.field = name.rawValue
    return finding
  }
  /// Sensors and cameras start and stop one after the other, by so many nanoseconds.
  private static let apart: Int64 = 250_000_000

  /// The latencies in nanoseconds. Confidence has that of the depth of its camera, unless it is named.
  private func latencies(in episode: Episode) -> [StreamName: Int64] {
    var latencies = Dictionary(uniqueKeysWithValues: latency.map { (StreamName($0), Int64(($1 * 1e9).rounded())) })
    for (name, stream) in episode.streams where stream.spec.kind == .confidence && latencies[name] == nil {
      let depth = episode.streams.first { $0.value.spec.kind == .depth && $0.value.spec.raster?.camera == stream.spec.raster?.camera }
      latencies[name] = depth.flatMap { latencies[$0.key] }
    }
    return latencies
  }

  /// A stream that came with the frames, at its times minus the sensor's latency.
  private func delayed(_ stream: SampleStream, by latency: Int64, at frames: Episode.Frames, limit: Int64) -> SampleStream {
    var moved = stream
    moved.latency = latency
    moved.timestamps = stream.timestamps.map { $0.advanced(by: -latency) }
    moved.rows = SampleMatching.nearest(in: moved.timestamps, to: frames.timestamps, limit: limit).map { $0.map { Row($0) } }
    return moved
  }
}
