import Model

/// Meaning of `rgbIndex` in poses from SLAM, which numbers images by their position in the sorted listing.
///
/// The position equals the number in the name as long as no image was missing when SLAM ran. Where some are missing now, there are two
/// cases: an index beyond the listing means that they were lost since, so indices are numbers; otherwise they never existed, so
/// indices are positions.
struct SLAMNumbers {
  /// Number of images when SLAM ran.
  let recorded: Int
  /// File numbers by position, where the two differ.
  private let places: [Int64]?

  /// - Parameter numbers: Numbers of the images, ascending.
  init(_ poses: PosesFile, _ numbers: [Int64]) {
    let isContiguous = numbers.enumerated().allSatisfy { Int64($0.offset) == $0.element }
    let last = poses.entries.map(\.number).max() ?? 0
    if isContiguous || last >= numbers.count {
      // A listing of millions would be an outlier number, not a real listing.
      let highest = max(last, numbers.last ?? 0) + 1
      recorded = highest <= 2 * Int64(numbers.count) ? Int(highest) : numbers.count
      places = nil
    } else {
      recorded = numbers.count
      places = numbers
    }
  }

  /// Whether indices are positions that differ from numbers.
  var arePlaces: Bool { places != nil }

  /// Position of an image in the listing, which is SLAM's number for it.
  func ordinal(ofNumber number: Int64) -> Int {
    guard let places else { return Int(clamping: number) }
    var (low, high) = (0, places.count)
    while low < high {
      let middle = (low + high) / 2
      if places[middle] < number { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// Gives poses the numbers and capture times of their images. Poses beyond both have no image.
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
