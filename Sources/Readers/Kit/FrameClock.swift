import Model

/// The frame of a session for each sample of a video, and its time. The writer of the video skips a frame when it is not ready, although
/// the session lists its time, so there may be fewer samples than times.
struct FrameClock {
  /// Greatest difference between a listed time, which is rounded to a millisecond, and that of its sample, in nanoseconds.
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
  /// Whether the samples fit as well one or more frames later or earlier in the list: times at one distance, where the first or the last frames of the
  /// video may be the ones that are missing.
  private(set) var isAmbiguous = false

  /// - Parameter listed: Times by position; `nil` where a frame has no image.
  /// - Parameter presented: Presentation times of the samples in nanoseconds, ascending.
  /// - Parameter tolerance: Greatest difference between a listed time and that of its sample.
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
    var found = Fit(known, presented, best?.matches ?? presented.map { _ in nil }, offset: known[0].time.nanoseconds &- first)
    if found.count < max(known.count, presented.count) {
      // The recorder's clock starts with the first frame, even where it is not in the video.
      let own = Fit(known, presented, near: known[0].time.nanoseconds, tolerance)
      if first > tolerance, own.fits(asWellAs: found) {
        found = own
      } else {
        isAmbiguous = found.hasRival(known, presented, tolerance)
      }
    }
    positions = found.matches.map { $0.map { known[$0].position } }
    times = presented.map { Timestamp(nanoseconds: $0).advanced(by: found.offset) }
  }

  /// Known times by position in the list.
  private typealias Known = [(position: Int, time: Timestamp)]

  /// The known time of each sample, at one offset between the two clocks.
  private struct Fit {
    var matches: [Int?]
    /// Listed times are rounded; the median of the differences is exact to a fraction of that.
    var offset: Int64
    var count = 0
    /// Mean distance of the matches in nanoseconds.
    var apart = 0.0

    /// - Parameter offset: Where nothing matches.
    init(_ known: Known, _ presented: [Int64], _ matches: [Int?], offset: Int64) {
      let offsets = zip(matches, presented).compactMap { match, time in match.map { known[$0].time.nanoseconds &- time } }.sorted()
      (self.matches, count) = (matches, offsets.count)
      let median = offsets.isEmpty ? offset : offsets[offsets.count / 2]
      self.offset = median
      if count > 0 { apart = offsets.reduce(0.0) { $0 + abs(Double($1 &- median)) } / Double(count) }
    }

    init(_ known: Known, _ presented: [Int64], near offset: Int64, _ tolerance: Int64) {
      let near = Fit(known, presented, FrameClock.matches(known, presented, offset: offset, tolerance), offset: offset)
      self.init(known, presented, FrameClock.matches(known, presented, offset: near.offset, tolerance), offset: offset)
    }

    func fits(asWellAs other: Fit) -> Bool { count >= other.count && apart <= 1.5 * other.apart + FrameClock.leastApart }

    /// Whether the samples fit as well some frames later or earlier.
    func hasRival(_ known: Known, _ presented: [Int64], _ tolerance: Int64) -> Bool {
      guard let start = matches.firstIndex(where: { $0 != nil }), let match = matches[start] else { return false }
      return (1..<FrameClock.reach).contains { distance in
        [(match + distance, start), (match, start + distance)].contains { place, sample in
          guard known.indices.contains(place), presented.indices.contains(sample) else { return false }
          let rival = Fit(known, presented, near: known[place].time.nanoseconds &- presented[sample], tolerance)
          return abs(rival.offset &- offset) > tolerance / 2 && rival.fits(asWellAs: self)
        }
      }
    }
  }
  /// Mean distances are not told apart below this (nanoseconds): time bases of videos are that coarse.
  private static let leastApart = 20_000.0

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
    // A list that ends before the video has the first frames: its places are their numbers.
    if listed.count <= presented.count { clock.isAmbiguous = false }
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
    _ known: Known, _ presented: [Int64], offset: Int64, _ tolerance: Int64
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
