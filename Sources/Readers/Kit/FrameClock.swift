import Model

/// Which frame of a session each sample of a video is, and when. The writer of the video skips a frame when it is not ready, although the
/// session lists its time, so there may be fewer samples than times.
struct FrameClock {
  /// How far a listed time, which is rounded to a millisecond, may be from that of its sample.
  static let tolerance: Int64 = 5_000_000
  /// Frames at the start that one of the two lists may lack.
  private static let reach = 60
  /// Frames from which an offset is guessed, and how often.
  private static let looked = 15, windows = 4
  /// Frames that may match less where the mean distance is less by the tolerance.
  private static let weight = 20.0

  /// The position of each sample in the list of times; `nil` for one that is at none of them.
  private(set) var positions: [Int?] = []
  /// The time of each sample: its presentation time, on the clock of the listed times.
  private(set) var times: [Timestamp] = []

  /// - Parameter listed: Times by position; `nil` where a frame has no image.
  /// - Parameter presented: Presentation times of the samples in nanoseconds, ascending.
  /// - Parameter tolerance: How far a listed time may be from that of its sample.
  init(listed: [Timestamp?], presented: [Int64], tolerance: Int64 = FrameClock.tolerance) {
    let known = listed.enumerated().compactMap { position, time in time.map { (position: position, time: $0) } }
    guard let first = presented.first, !known.isEmpty else { return }
    // Evenly spaced times fit after several shifts: then the video begins with the first frame. Either list may lack frames that the other has, so an
    // offset is guessed from several windows.
    var best: (matches: [Int?], score: Double)?
    search: for shift in Array(0..<Self.reach) + (1..<Self.reach).map({ -$0 }) {
      let pairs = Array(zip(known.dropFirst(max(shift, 0)), presented.dropFirst(max(-shift, 0))).prefix(Self.windows * Self.looked))
      var tried: Int64?
      for window in stride(from: 0, to: pairs.count, by: Self.looked) {
        // A time of writing may be late: the median of some is not.
        let offsets = pairs[window..<min(window + Self.looked, pairs.count)].map { $0.time.nanoseconds &- $1 }.sorted()
        let offset = offsets[offsets.count / 2]
        if let tried, abs(max(tried &- offset, -.max)) < tolerance / 4 { continue }
        tried = offset
        let matches = Self.matches(known, presented, offset: offset, tolerance)
        let count = matches.count { $0 != nil }
        // Where both lists lack frames, several shifts match as many: then the right one is much nearer.
        let apart = zip(matches, presented).reduce(0.0) { sum, pair in
          sum + (pair.0.map { abs(Double(known[$0].time.nanoseconds &- pair.1 &- offset)) } ?? 0)
        }
        let score = count == 0 ? 0 : Double(count) - Self.weight * apart / Double(count) / Double(tolerance)
        if score > best?.score ?? 0 { best = (matches, score) }
        if count == presented.count { break search }
      }
    }
    let matches = best?.matches ?? presented.map { _ in nil }
    // Listed times are rounded; the median of the differences is exact to a fraction of that.
    let offsets = zip(matches, presented).compactMap { match, time in match.map { known[$0].time.nanoseconds &- time } }.sorted()
    let offset = offsets.isEmpty ? known[0].time.nanoseconds &- first : offsets[offsets.count / 2]
    positions = matches.map { $0.map { known[$0].position } }
    times = presented.map { Timestamp(nanoseconds: $0).advanced(by: offset) }
  }

  /// Listed times that are exact, as those of a sensor beside a video whose times its encoder made: each sample has the time that is listed for it.
  /// Where there are as many positions as samples, sample n is at position n, unless the times of the video are the sensor's and say otherwise. Times at
  /// one distance are an encoder's where the sensor's are not: they would match those of the next frame after each gap.
  static func exact(listed: [Timestamp?], presented: [Int64]) -> FrameClock {
    var clock = FrameClock(listed: listed, presented: presented)
    let offsets = zip(listed, presented).compactMap { listed, time in listed.map { $0.nanoseconds &- time } }.sorted()
    if listed.count == presented.count, !offsets.isEmpty {
      let byTime = clock.positions.count { $0 != nil }
      let usual = offsets[offsets.count / 2]
      let byNumber = offsets.count { abs(max($0 &- usual, -.max)) <= tolerance }
      let times = listed.enumerated().compactMap { position, time in time.map { (position, $0.nanoseconds) } }
      let isEncoders = isEven(presented.enumerated().map { ($0, $1) }) && !isEven(times)
      if isEncoders || byNumber >= byTime || byTime * 2 < listed.count {
        clock.positions = listed.indices.map { listed[$0] == nil ? nil : $0 }
      }
    }
    clock.times = zip(clock.positions, clock.times).map { position, time in position.flatMap { listed[$0] } ?? time }
    return clock
  }

  /// Whether times are at one distance, within what a time base rounds.
  private static func isEven(_ times: [(position: Int, time: Int64)]) -> Bool {
    guard let first = times.first, let last = times.last, last.position > first.position else { return true }
    let step = Double(last.time &- first.time) / Double(last.position - first.position)
    return times.allSatisfy { abs(Double($0.time &- first.time) - Double($0.position - first.position) * step) <= Self.rounding }
  }
  private static let rounding = 2e6

  /// The known time of each sample, each at most once, in order.
  private static func matches(
    _ known: [(position: Int, time: Timestamp)], _ presented: [Int64], offset: Int64, _ tolerance: Int64
  ) -> [Int?] {
    var next = 0
    return presented.map { time in
      let time = Timestamp(nanoseconds: time).advanced(by: offset)
      func distance(_ index: Int) -> Int64 { abs(max(known[index].time.since(time), -.max)) }
      while next + 1 < known.count, distance(next + 1) < distance(next) { next += 1 }
      guard next < known.count, distance(next) <= tolerance else { return nil }
      defer { next += 1 }
      return next
    }
  }
}
