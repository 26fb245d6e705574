import Media
import Model

/// Pairing of the frames of `rgb.mp4` with the rows of the odometry.
///
/// The app writes a video frame for each row: row 0 belongs to the first coded frame, which the file's edit list hides since February 2022.
/// So video frames are counted with the hidden ones. A re-encoding loses them: then there is one video frame less than rows, and video
/// frame 0 belongs to row 1.
///
/// Presentation times are counted at a constant rate. They drift from the rows' times at each dropped frame and say nothing, so frames are
/// paired by number. A program that re-encodes a recording may give frames their true times; these vary, and are paired by time.
struct MoviePairing {
  enum Method: String { case time, number }

  let method: Method
  /// The number of the row that video frame 0 belongs to; `nil` where it has none.
  var firstRow: Int64? { samples.first { $0.value == 0 && $0.key >= 0 }?.key }
  /// Whether the video is taken to lack the frame that the app's edit list hides.
  private(set) var lacksFirst = false
  /// Whether the video lacks several frames, at its beginning or at its end: no other program than the app counts those that are hidden.
  private(set) var isAmbiguous = false
  /// The video frame of each frame number. Video frames without a row are under numbers below 0.
  private(set) var samples: [Int64: Int] = [:]
  /// Capture time of each video frame, on the odometry's clock, ascending.
  private(set) var timestamps: [Timestamp] = []

  /// - Parameter rows: Number and time of each row, both ascending, at least one.
  /// - Parameter presentationTimes: Presentation times in nanoseconds, ascending.
  /// - Parameter tick: Length of a tick of the video's time base, in nanoseconds.
  /// - Parameter hasHidden: Whether some of the video frames are hidden by an edit list, so that none was lost.
  /// - Parameter others: Numbers of rows whose time cannot be right; they get the video frame after their neighbor's.
  init(rows: [(number: Int64, time: Timestamp)], presentationTimes: [Int64], tick: Int64, hasHidden: Bool = false, others: [Int64] = []) {
    let period = Cadence(rows.map(\.time)).nominalPeriod ?? 1e9 / 60
    if !Self.isConstant(presentationTimes, tick), let offset = Self.offset(rows, presentationTimes, tolerance: period / 4) {
      method = .time
      timestamps = presentationTimes.map { Timestamp(nanoseconds: $0).advanced(by: offset) }
      var next = 0
      for row in rows {
        while next + 1 < timestamps.count, Self.distance(timestamps[next + 1], row.time) < Self.distance(timestamps[next], row.time) {
          next += 1
        }
        if next < timestamps.count, Self.distance(timestamps[next], row.time) <= period / 2 {
          samples[row.number] = next
          next += 1
        }
      }
    } else {
      method = .number
      let last = max(rows[rows.count - 1].number, others.max() ?? 0)
      lacksFirst = !hasHidden && last > 0 && last == Int64(presentationTimes.count)
      isAmbiguous = !hasHidden && last > Int64(presentationTimes.count)
      var known: [Int: Timestamp] = [:]
      for row in rows {
        guard let sample = Int(exactly: row.number - (lacksFirst ? 1 : 0)), presentationTimes.indices.contains(sample) else { continue }
        samples[row.number] = sample
        known[sample] = row.time
      }
      timestamps = Self.filled(known, count: presentationTimes.count, period: period, start: rows[0].time)
    }
    var used = Set(samples.values)
    for number in others {
      guard let before = samples[number - 1], before + 1 < presentationTimes.count, used.insert(before + 1).inserted else { continue }
      samples[number] = before + 1
    }
    for sample in presentationTimes.indices where !used.contains(sample) { samples[-1 - Int64(sample)] = sample }
  }

  private static func distance(_ a: Timestamp, _ b: Timestamp) -> Double { abs(Double(a.since(b))) }

  /// Whether steps differ by no more than the rounding to the time base.
  private static func isConstant(_ presented: [Int64], _ tick: Int64) -> Bool {
    let steps = zip(presented, presented.dropFirst()).map { $1 - $0 }
    guard let least = steps.min(), let greatest = steps.max() else { return true }
    return greatest - least <= tick + tick / 100 + 1
  }

  /// Offset to add to presentation times so that most of them match rows; frames or rows may be missing at the start. `nil` when fewer than
  /// nine tenths match.
  private static func offset(_ rows: [(number: Int64, time: Timestamp)], _ presented: [Int64], tolerance: Double) -> Int64? {
    let reach = 12
    // First candidate: video frame n is frame n. Evenly spaced times fit several offsets, and this is then the right one.
    let own = rows.firstIndex { $0.number < presented.count }.map { ($0, Int(rows[$0].number)) }
    let candidates = [own].compactMap(\.self) + [(0, 0)] + (1...reach).flatMap { [($0, 0), (0, $0)] }
    var best: (matches: Int, offset: Int64)?
    for (row, sample) in candidates where row < rows.count && sample < presented.count {
      let offset = rows[row].time.since(Timestamp(nanoseconds: presented[sample]))
      var (next, matches) = (0, 0)
      for row in rows {
        func gap(_ sample: Int) -> Double { distance(Timestamp(nanoseconds: presented[sample]).advanced(by: offset), row.time) }
        while next + 1 < presented.count, gap(next + 1) < gap(next) { next += 1 }
        if next < presented.count, gap(next) <= tolerance { matches += 1 }
      }
      if matches > best?.matches ?? 0 { best = (matches, offset) }
    }
    guard let best, best.matches * 10 >= min(rows.count, presented.count) * 9 else { return nil }
    return best.offset
  }

  /// Times of the video frames that have a row, with ascending times in between for the others.
  private static func filled(_ known: [Int: Timestamp], count: Int, period: Double, start: Timestamp) -> [Timestamp] {
    var next: Timestamp?
    let following = (0..<count).reversed().map { sample -> Timestamp? in
      defer { next = known[sample] ?? next }
      return next
    }.reversed().map(\.self)
    var times: [Timestamp] = []
    for sample in 0..<count {
      if let time = known[sample] {
        times.append(time)
      } else if let last = times.last {
        let room = following[sample].map { Double($0.since(last)) / 2 } ?? .infinity
        times.append(last.advanced(byNanoseconds: max(1, min(period, room))))
      } else {
        let first = following[sample] ?? start
        let ahead = known.keys.min().map { $0 - sample } ?? 0
        times.append(first.advanced(byNanoseconds: -Double(ahead) * period))
      }
    }
    return times
  }
}
