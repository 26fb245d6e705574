/// Brings every stream onto the frames' timeline: for each frame the nearest sample within a tolerance, or a value
/// between the two neighbours, and a mask where there is none.
///
///     - align: {tolerance: 0.05, method: nearest}
///
/// `reference-compatible` does to joints what the recorder's own loader does, for comparisons: clocks start at their first samples,
/// readings farther than 50 ms are zeros, and angles are unwrapped after that.
///
/// Streams on another clock are first brought onto the frames' clock by `ClockOffset`; what was done is recorded.
package struct Align: Transform {
  package static let name = "align"
  package static let summary = "Gives each frame the sample of every stream that goes with it, by time"
  package static let help = [
    "tolerance": "seconds; a sample farther from the frame than this (inclusive) is not used",
    "correlate-joints": "without an IMU, find the joints' clock by when they moved and when the phone turned",
    "reference-compatible": "joints as the recorder's own loader makes them: from zero-based clocks, zeros where there are none",
    "method": "nearest, or linear: numbers between the two samples around the frame, both within the tolerance",
  ]

  package enum Method: String, Codable, Sendable { case nearest, linear }

  var tolerance = 0.05
  var method = Method.nearest
  var correlateJoints = false
  var referenceCompatible = false

  package init() {}

  package func validate() throws {
    guard tolerance >= 0, tolerance <= 3600 else { throw OptionError("tolerance", "expected 0 to 3600 seconds") }
  }

  package func apply(to episode: Episode) throws -> Episode {
    var aligned = episode
    let limit = Int64((tolerance * 1e9).rounded())
    let motion = try MotionCorrelation(episode)
    for (name, stream) in episode.streams.sorted(by: { $0.key < $1.key }) where stream.rows == nil {
      if referenceCompatible, name == "joints" {
        aligned.streams[name] = try ReferenceJoints.align(stream, to: episode.frames)
        aligned.alignments.append(Episode.Alignment(stream: name, method: "reference-compatible"))
        continue
      }
      let offset = ClockOffset(from: stream, to: episode, motion: motion, correlatesJoints: correlateJoints && name == "joints")
      aligned.findings += offset.findings.map { finding in
        var named = finding
        named.field = name
        return named
      }
      var moved = stream
      moved.spec.clock = episode.frames.clock
      moved.timestamps = offset.timestamps
      aligned.alignments.append(
        Episode.Alignment(
          stream: name, method: "\(offset.method)+\(method.rawValue)", offset: offset.offset, residual: offset.residual))
      if stream.spec.kind == .inertial {
        if offset.offset == nil { moved.spec.clock = stream.spec.clock }
      } else if offset.offset == nil {
        moved.rows = Array(repeating: nil, count: episode.frames.count)
      } else if method == .linear, stream.spec.kind == .numbers {
        moved = interpolated(moved, at: episode.frames.timestamps, limit: limit)
      } else {
        moved.rows = nearest(in: moved.timestamps, to: episode.frames.timestamps, limit: limit)
      }
      aligned.streams[name] = moved
    }
    return aligned
  }

  /// For each frame the nearest sample no farther than `limit`, the earlier of two equally near. Both lists ascend.
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

  /// The stream with one sample a frame, on the line between the two samples around it; no extrapolation. Times and
  /// numbers of the samples stay those of the nearer one.
  private func interpolated(_ stream: Stream, at frames: [Timestamp], limit: Int64) -> Stream {
    var blends: [InterpolatedSource.Blend] = []
    let near = nearest(in: stream.timestamps, to: frames, limit: limit)
    var rows: [Int?] = []
    var next = 0
    for (frame, nearest) in zip(frames, near) {
      while next < stream.timestamps.count, stream.timestamps[next] < frame { next += 1 }
      let (before, after) = (next - 1, next)
      if let nearest, stream.timestamps[nearest] == frame {
        blends.append(.init(before: nearest, after: nearest, weight: 0))
      } else if nearest != nil, before >= 0, after < stream.timestamps.count,
        frame.since(stream.timestamps[before]) <= limit, stream.timestamps[after].since(frame) <= limit
      {
        let whole = Double(stream.timestamps[after].since(stream.timestamps[before]))
        let part = Double(frame.since(stream.timestamps[before]))
        blends.append(.init(before: before, after: after, weight: Float(part / whole)))
      } else {
        rows.append(nil)
        continue
      }
      rows.append(blends.count - 1)
    }
    let used = zip(rows, near).compactMap { row, nearest in row == nil ? nil : nearest }
    var result = stream
    result.source = InterpolatedSource(base: stream.source, blends: blends)
    result.raw = stream.raw.map { raw in InterpolatedSource(base: raw, blends: used.map { .init(before: $0, after: $0, weight: 0) }) }
    result.timestamps = used.map { stream.timestamps[$0] }
    result.sourceIndex = used.map { stream.sourceIndex[$0] }
    result.rows = rows
    return result
  }
}

/// Numbers on the line between two samples of another source; NaN on either side stays NaN.
struct InterpolatedSource: SampleSource {
  struct Blend: Sendable {
    var before, after: Int
    /// 0 gives `before`, 1 gives `after`.
    var weight: Float
  }

  let base: any SampleSource
  let blends: [Blend]

  func makeCursor() throws -> any SampleCursor { Cursor(base: try base.makeCursor(), blends: blends) }

  private struct Cursor: SampleCursor {
    var base: any SampleCursor
    let blends: [Blend]
    var other: [UInt8] = []

    mutating func read(_ index: Int, into bytes: inout [UInt8]) throws {
      let blend = blends[index]
      try base.read(blend.before, into: &bytes)
      if blend.before == blend.after { return }
      try base.read(blend.after, into: &other)
      other.withUnsafeBytes { other in
        bytes.withUnsafeMutableBytes { bytes in
          let (a, b) = (bytes.bindMemory(to: Float.self), other.bindMemory(to: Float.self))
          for element in a.indices { a[element] += (b[element] - a[element]) * blend.weight }
        }
      }
    }
  }
}
