import Model

/// The samples of a stream that belong to each of a list of times. Both lists ascend.
enum SampleMatching {
  /// The nearest sample to each time, no farther than `limit` nanoseconds; ties go to the earlier sample.
  static func nearest(in samples: [Timestamp], to times: [Timestamp], limit: Int64) -> [Int?] {
    var next = 0  // the first sample at or after the time
    return times.map { time in
      while next < samples.count, samples[next] < time { next += 1 }
      let candidates = [next - 1, next].filter(samples.indices.contains)
      let best = candidates.min { abs(distance(samples[$0], time)) < abs(distance(samples[$1], time)) }
      return best.flatMap { abs(distance(samples[$0], time)) <= limit ? $0 : nil }
    }
  }

  private static func distance(_ a: Timestamp, _ b: Timestamp) -> Int64 { max(a.since(b), -.max) }

  /// The two samples around each time, both no farther than `limit` nanoseconds, and their weight; no extrapolation. A sample at exactly
  /// that time is used unchanged.
  static func blended(_ samples: [Timestamp], at times: [Timestamp], limit: Int64) -> [Row?] {
    let near = nearest(in: samples, to: times, limit: limit)
    var next = 0
    return zip(times, near).map { time, nearest in
      while next < samples.count, samples[next] < time { next += 1 }
      let (before, after) = (next - 1, next)
      guard let nearest else { return nil }
      if samples[nearest] == time { return Row(nearest) }
      guard before >= 0, after < samples.count, time.since(samples[before]) <= limit, samples[after].since(time) <= limit else {
        return nil
      }
      return Row(before, towards: after, by: weight(of: time, from: samples[before], to: samples[after]))
    }
  }

  /// Returns the position of a time between two times, 0 to 1.
  static func weight(of time: Timestamp, from before: Timestamp, to after: Timestamp) -> Float {
    Float(Double(time.since(before)) / Double(after.since(before)))
  }
}
