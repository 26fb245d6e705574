package import Model

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

  package enum Method: String, OptionChoice { case nearest, linear }

  @Option("a sample farther from the frame than this is not used (seconds, inclusive)", 0...3600) var tolerance = 0.05
  @Option("linear: numbers are interpolated between the two samples around the frame, both within the tolerance") var method = Method
    .nearest
  @Option("without an IMU, find the clock of the joints by comparing when they moved and when the phone rotated") var correlateJoints =
    false
  @Option("joints as the recorder's own loader makes them: from zero-based clocks, zeros where there is no reading")
  var referenceCompatible = false

  package init() {}

  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    var aligned = episode
    let limit = Int64((tolerance * 1e9).rounded())
    let motion = try MotionCorrelation(episode)
    for (name, stream) in episode.streams.sorted(by: { $0.key < $1.key }) where stream.rows == nil {
      let isAngles = stream.spec.kind == .angles
      if referenceCompatible, isAngles {
        aligned.streams[name] = try ReferenceJoints.align(stream, to: episode.frames)
        aligned.alignments.append(Episode.Alignment(stream: name, method: "reference-compatible"))
        continue
      }
      let offset = ClockOffset(from: stream, to: episode, motion: motion, correlatesJoints: correlateJoints && isAngles)
      aligned.findings += offset.findings.map { finding in
        var named = finding
        named.field = name.rawValue
        return named
      }
      var moved = stream
      moved.spec.clock = episode.frames.clock
      moved.timestamps = offset.timestamps
      aligned.alignments.append(
        Episode.Alignment(
          stream: name, method: "\(offset.method)+\(method.rawValue)", offset: offset.offset, residual: offset.residual))
      if stream.spec.kind.place == .meta {
        if offset.offset == nil { moved.spec.clock = stream.spec.clock }
      } else if offset.offset == nil {
        moved.rows = Array(repeating: nil, count: episode.frames.count)
      } else if method == .linear, stream.spec.kind.interpolation == .linear {
        moved.rows = blended(moved.timestamps, at: episode.frames.timestamps, limit: limit)
      } else {
        moved.rows = nearest(in: moved.timestamps, to: episode.frames.timestamps, limit: limit).map { $0.map { Row($0) } }
      }
      aligned.streams[name] = moved
    }
    return aligned
  }

  /// The nearest sample to each frame, no farther than `limit`; ties go to the earlier sample. Both lists ascend.
  func nearest(in samples: [Timestamp], to frames: [Timestamp], limit: Int64) -> [Int?] {
    var next = 0  // the first sample at or after the frame
    return frames.map { frame in
      while next < samples.count, samples[next] < frame { next += 1 }
      let candidates = [next - 1, next].filter(samples.indices.contains)
      let best = candidates.min { abs(distance(samples[$0], frame)) < abs(distance(samples[$1], frame)) }
      return best.flatMap { abs(distance(samples[$0], frame)) <= limit ? $0 : nil }
    }
  }

  private func distance(_ a: Timestamp, _ b: Timestamp) -> Int64 { max(a.since(b), -.max) }

  /// The two samples around each frame, both no farther than `limit`, and their weight; no extrapolation. A sample at exactly the
  /// frame's time is used unchanged.
  private func blended(_ samples: [Timestamp], at frames: [Timestamp], limit: Int64) -> [Row?] {
    let near = nearest(in: samples, to: frames, limit: limit)
    var next = 0
    return zip(frames, near).map { frame, nearest in
      while next < samples.count, samples[next] < frame { next += 1 }
      let (before, after) = (next - 1, next)
      guard let nearest else { return nil }
      if samples[nearest] == frame { return Row(nearest) }
      guard before >= 0, after < samples.count, frame.since(samples[before]) <= limit, samples[after].since(frame) <= limit else {
        return nil
      }
      let interval = Double(samples[after].since(samples[before]))
      return Row(before, towards: after, by: Float(Double(frame.since(samples[before])) / interval))
    }
  }
}
