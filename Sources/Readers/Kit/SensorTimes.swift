import Model

/// The times of a sensor's samples in the order of its file, examined: which samples are kept, so that times ascend and each is there once.
///
/// A file in another order than its times is sorted. Where a clock was set back, the same moments are there twice, and sorted values of two
/// moments would alternate: then the longest sequence is kept whose times ascend as the file goes on.
struct SensorTimes {
  /// Places in the file, in ascending time.
  private(set) var order: [Int]

  /// Lines that were moved change places with their neighbors: three changes of run for each step back, and not one for each sample.
  private static let changesOfAMove = 3

  /// - Parameter what: The samples, for messages: `readings`.
  init(_ times: [Timestamp], of what: String = "readings", file: String, notes: FindingCollector) {
    order = Array(times.indices)
    guard zip(times, times.dropFirst()).contains(where: { $0 >= $1 }) else { return }
    order.sort { (times[$0], $0) < (times[$1], $1) }
    var once: [Int] = []
    for place in order where once.last.map({ times[$0] < times[place] }) ?? true { once.append(place) }
    if once.count < order.count {
      notes.add(
        .timeNotAscending, "\(what) have the time of another one; the first of each time is kept", file: file,
        count: order.count - once.count)
    }
    order = once
    // The number of steps back before each place.
    var runs: [Int] = []
    for place in times.indices {
      runs.append(place == 0 ? 0 : runs[place - 1] + (times[place] < times[place - 1] ? 1 : 0))
    }
    guard let back = runs.last, back > 0 else { return }
    let changes = zip(order, order.dropFirst()).count { runs[$0] != runs[$1] }
    if changes <= Self.changesOfAMove * back {
      notes.add(
        .timeNotAscending, "\(what) are earlier than the one before them in the file; they are sorted by time", file: file, count: back)
    } else {
      let places = order.sorted()
      order = AscendingTimes.longest(places.map { times[$0] }).map { places[$0] }
      notes.add(
        .timeNotAscending,
        "\(what) do not fit where the clock was set back (times step back \(back) \(back == 1 ? "time" : "times")); they are left out",
        file: file, count: places.count - order.count)
    }
  }
}

/// Times of which some do not fit between their neighbors.
enum AscendingTimes {
  /// Places of the longest sequence of times that ascend, so that one outlier costs one time; `nil` is in none.
  static func longest(_ times: [Timestamp?]) -> [Int] {
    // Patience sorting (Schensted 1961): `tails[n]` is the place of the least time that ends an ascending run of n + 1.
    var tails: [Int] = []
    var before: [Int?] = Array(repeating: nil, count: times.count)
    for (place, time) in times.enumerated() {
      guard let time else { continue }
      var (low, high) = (0, tails.count)
      while low < high {
        let middle = (low + high) / 2
        if let tail = times[tails[middle]], tail < time { low = middle + 1 } else { high = middle }
      }
      before[place] = low > 0 ? tails[low - 1] : nil
      if low < tails.count { tails[low] = place } else { tails.append(place) }
    }
    var places: [Int] = []
    var next = tails.last
    while let place = next {
      places.append(place)
      next = before[place]
    }
    return places.reversed()
  }
}
