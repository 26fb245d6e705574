import Media
import Model

/// Which picture of `rgb.mp4` belongs to which row of the odometry.
///
/// The app writes a picture for each row. Their presentation times follow the rows' times, or are counted at a constant rate, in which case
/// they drift from the rows' at each dropped frame and say nothing; then the frame number is the picture's number.
struct MoviePairing {
  enum Method: String { case time, number }

  let method: Method
  /// The picture of each frame number. Pictures of no row are under numbers below 0.
  private(set) var samples: [Int64: Int] = [:]
  /// When each picture was taken, on the odometry's clock, ascending.
  private(set) var timestamps: [Timestamp] = []

  /// - Parameter rows: Number and time of each row, both ascending, one at least.
  /// - Parameter pictures: Presentation times in nanoseconds, ascending.
  /// - Parameter tick: Of the movie's time base, in nanoseconds.
  /// - Parameter others: Numbers of rows whose time cannot be right; they have the picture after their neighbour's.
  init(rows: [(number: Int64, time: Timestamp)], pictures: [Int64], tick: Int64, others: [Int64] = []) {
    let period = Cadence(rows.map(\.time)).nominalPeriod ?? 1e9 / 60
    let offset = Self.offset(rows, pictures, tolerance: period / 4)
    if let offset, Self.followsTimes(rows, pictures, period) || !Self.isConstant(pictures, tick) {
      method = .time
      timestamps = pictures.map { Timestamp(nanoseconds: $0).advanced(by: offset) }
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
      var known: [Int: Timestamp] = [:]
      for row in rows {
        guard let sample = Int(exactly: row.number), pictures.indices.contains(sample) else { continue }
        samples[row.number] = sample
        known[sample] = row.time
      }
      timestamps = Self.filled(known, count: pictures.count, period: period, start: rows[0].time)
    }
    var used = Set(samples.values)
    for number in others {
      guard let before = samples[number - 1], before + 1 < pictures.count, used.insert(before + 1).inserted else { continue }
      samples[number] = before + 1
    }
    for sample in pictures.indices where !used.contains(sample) { samples[-1 - Int64(sample)] = sample }
  }

  private static func distance(_ a: Timestamp, _ b: Timestamp) -> Double { abs(Double(a.since(b))) }

  /// From frame to frame, the times run together.
  private static func followsTimes(_ rows: [(number: Int64, time: Timestamp)], _ pictures: [Int64], _ period: Double) -> Bool {
    let numbered = rows.compactMap { row in
      Int(exactly: row.number).flatMap { pictures.indices.contains($0) ? (time: row.time, picture: pictures[$0]) : nil }
    }
    guard let first = numbered.first else { return false }
    return numbered.allSatisfy { abs(Double($0.time.since(first.time)) - Double($0.picture - first.picture)) < period / 2 }
  }

  /// Steps differ by no more than the time base makes them.
  private static func isConstant(_ pictures: [Int64], _ tick: Int64) -> Bool {
    let steps = zip(pictures, pictures.dropFirst()).map { $1 - $0 }
    guard let least = steps.min(), let greatest = steps.max() else { return true }
    return greatest - least <= tick + tick / 100 + 1
  }

  /// What added to presentation times brings most of them onto rows: pictures or rows may be missing at the start. `nil` when that is not nine
  /// tenths of them.
  private static func offset(_ rows: [(number: Int64, time: Timestamp)], _ pictures: [Int64], tolerance: Double) -> Int64? {
    let reach = 12
    // First that a picture has the number of its frame: where times fit several offsets, as evenly spaced ones do, that is the one.
    let own = rows.firstIndex { $0.number < pictures.count }.map { ($0, Int(rows[$0].number)) }
    let candidates = [own].compactMap(\.self) + [(0, 0)] + (1...reach).flatMap { [($0, 0), (0, $0)] }
    var best: (matches: Int, offset: Int64)?
    for (row, picture) in candidates where row < rows.count && picture < pictures.count {
      let offset = rows[row].time.since(Timestamp(nanoseconds: pictures[picture]))
      var (next, matches) = (0, 0)
      for row in rows {
        func gap(_ picture: Int) -> Double { distance(Timestamp(nanoseconds: pictures[picture]).advanced(by: offset), row.time) }
        while next + 1 < pictures.count, gap(next + 1) < gap(next) { next += 1 }
        if next < pictures.count, gap(next) <= tolerance { matches += 1 }
      }
      if matches > best?.matches ?? 0 { best = (matches, offset) }
    }
    guard let best, best.matches * 10 >= min(rows.count, pictures.count) * 9 else { return nil }
    return best.offset
  }

  /// The times of pictures that have a row, and in between such as ascend.
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
