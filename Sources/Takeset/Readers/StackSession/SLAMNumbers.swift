import Model

/// What `rgbIndex` means in poses from SLAM, which counts pictures by their place in the sorted listing.
///
/// That is the number in their names as long as none was missing when SLAM ran. Where some are missing now, and an index lies beyond the
/// listing, they were lost since, and indices are numbers; else they were never there, and indices are places.
struct SLAMNumbers {
  /// Pictures that there were when SLAM ran.
  let recorded: Int
  /// File numbers by place, where these differ.
  private let places: [Int64]?

  /// - Parameter numbers: Of the pictures, ascending.
  init(_ poses: PosesFile, _ numbers: [Int64]) {
    let isWhole = numbers.enumerated().allSatisfy { Int64($0.offset) == $0.element }
    let last = poses.entries.map(\.number).max() ?? 0
    if isWhole || last >= numbers.count {
      // What would be a listing of millions is a wild number.
      let highest = max(last, numbers.last ?? 0) + 1
      recorded = highest <= 2 * Int64(numbers.count) ? Int(highest) : numbers.count
      places = nil
    } else {
      recorded = numbers.count
      places = numbers
    }
  }

  /// True where the two differ.
  var arePlaces: Bool { places != nil }

  /// The place of a picture, which is SLAM's number of it.
  func ordinal(ofNumber number: Int64) -> Int {
    guard let places else { return Int(clamping: number) }
    var (low, high) = (0, places.count)
    while low < high {
      let middle = (low + high) / 2
      if places[middle] < number { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// Gives poses the numbers of their pictures and the times at which these were taken. What is beyond both has no picture.
  func retime(_ poses: inout PoseList, _ capture: CaptureTimes) {
    var entries = poses.entries
    for index in entries.indices {
      guard let place = Int(exactly: entries[index].number), capture.times.indices.contains(place) else { continue }
      entries[index].timestamp = capture.times[place]
      if let places { entries[index].number = places[place] }
    }
    poses.entries = entries
  }
}
