import Model

/// Poses of a camera in order of frame number, each number once.
struct PoseList {
  struct Entry {
    /// The frame's number, which its image shares.
    var number: Int64
    var timestamp: Timestamp
    /// False where the file has a value that is not a time, such as NaN.
    var hasTime = true
    /// `nil` where the numbers are not a pose.
    var pose: Pose?
    /// The number of its depth map.
    var depthIndex: Int64?
    /// Place in the file, to look up other values of the entry.
    var place = 0
    /// False where the time does not fit between those of the neighbors; such an entry produces no row.
    var isInOrder = true
  }

  var entries: [Entry]
  /// Source file, and its name for the frame number; for messages.
  let file: String
  let number: String
  /// The name of the entries, for messages.
  var what = "poses"

  /// Sorts entries by number and marks those whose time is out of order. Throws `TakeFailure` when too many are.
  init(_ entries: [Entry], file: String, number: String, notes: FindingCollector) throws {
    (self.entries, self.file, self.number) = (entries, file, number)
    PositionCheck.examine(&self.entries, file: file, notes)
    sortByNumber(notes)
    try markDisorder(notes)
  }

  /// The quality of frames by the poses that they have of the list, and its findings; `nil` where all poses are placeholders, which are to be
  /// left out: the identity is written where no pose was measured.
  func quality(
    of poses: [Pose], at times: [Timestamp], isMetric: Bool, ordinals: [Int]? = nil, _ notes: FindingCollector
  ) -> [FrameQuality]? {
    if entries.count > 2, entries.allSatisfy({ $0.pose == .identity }) {
      notes.add(
        .poseUnusable, "every pose is the identity, which is written where nothing was measured; the take is written without poses",
        file: file)
      return nil
    }
    let quality = FrameQuality.of(poses, at: times, isMetric: isMetric, ordinals: ordinals)
    notes.add(FrameQuality.findings(quality, file: file))
    return quality
  }

  private mutating func sortByNumber(_ notes: FindingCollector) {
    let inversions = zip(entries, entries.dropFirst()).count { $0.number > $1.number }
    if inversions > 0 {
      entries = entries.enumerated().sorted { ($0.element.number, $0.offset) < ($1.element.number, $1.offset) }.map(\.element)
      notes.add(.posesUnsorted, "entries were not in the order of \(number)", file: file, count: inversions)
    }
    guard zip(entries, entries.dropFirst()).contains(where: { $0.number == $1.number }) else { return }
    var kept: [Entry] = []
    var conflicts = 0
    for entry in entries {
      if let last = kept.last, last.number == entry.number {
        // Identical duplicates count once.
        if entry.timestamp != last.timestamp || entry.pose != last.pose || entry.depthIndex != last.depthIndex { conflicts += 1 }
      } else {
        kept.append(entry)
      }
    }
    entries = kept
    if conflicts > 0 {
      notes.add(.posesDuplicate, "several entries have the same \(number); the first is used", file: file, count: conflicts)
    }
  }

  /// Keeps the longest sequence of entries whose times ascend, so that one outlier timestamp costs one frame.
  private mutating func markDisorder(_ notes: FindingCollector) throws {
    let kept = AscendingTimes.longest(entries.map { $0.hasTime ? $0.timestamp : nil })
    for index in entries.indices { entries[index].isInOrder = false }
    for index in kept { entries[index].isInOrder = true }
    let count = entries.count - kept.count
    if count * 5 > entries.count {
      throw TakeFailure(
        .tooFewTimes, "\(count) of \(entries.count) timestamps do not ascend with \(number); at most a fifth may not",
        file: file)
    }
    if count > 0 {
      notes.add(
        .timeNotAscending, "timestamps that do not fit between their neighbors; these frames are dropped",
        file: file, count: count)
    }
  }
}

/// The entries that become rows: those with an image of their number and a usable pose, in ascending time.
struct FrameJoin {
  /// Indices into the entries.
  private(set) var rows: [Int] = []
  /// The place of each row among the source's frames: its number, where numbers count frames, or else its place among all numbers that have
  /// a pose or an image. `nil` where all are rows.
  private(set) var places: [Int]?
  private(set) var dropped: [Episode.Dropped] = []
  /// Count of frame numbers that have a pose or an image.
  let sourceFrames: Int
  /// Fraction of poses that have an image, where only the end of the images is missing: an upload that was cut off.
  private(set) var coverage: Double?

  /// - Parameter images: The source's image of each number; `nil` where a take has only poses, without images.
  /// - Parameter unpaired: Number of images where nobody knows which is which; `images` is then `nil`.
  /// - Parameter place: Location of the images, for messages.
  /// - Parameter causes: The reason why images are missing, in parentheses, where the format knows it.
  init(
    poses: PoseList, images: [Int64: Int]?, unpaired: Int? = nil, in place: String, causes: String = "", notes: FindingCollector
  ) throws {
    var (unusable, disorder, withoutImage) = (0, 0, 0)
    var withImage = 0
    for (index, entry) in poses.entries.enumerated() {
      let hasImage = images.map { $0[entry.number] != nil } ?? true
      if hasImage { withImage += 1 }
      if entry.pose == nil {
        unusable += 1
      } else if !entry.isInOrder {
        disorder += 1
      } else if !hasImage {
        withoutImage += 1
      } else {
        rows.append(index)
      }
    }
    let count = poses.entries.count
    let named = Set(poses.entries.map(\.number))
    let unposed = images?.keys.count { !named.contains($0) } ?? 0
    sourceFrames = count + unposed
    if rows.count < sourceFrames {
      var next = 0
      let all = named.union(images?.keys.map(\.self) ?? []).sorted()
      let countsFrames = all.last.flatMap { last in all.first.map { Double(last) - Double($0) < 1.5 * Double(all.count) } } ?? true
      places = rows.map { row in
        let number = poses.entries[row].number
        if countsFrames { return Int(number) }
        while all[next] < number { next += 1 }
        return next
      }
    }
    let firstMissing = poses.entries.firstIndex { images?[$0.number] == nil }
    if images != nil, let firstMissing, firstMissing == withImage, unposed == 0 {
      coverage = Double(withImage) / Double(count)
      notes.add(
        .partialUpload, "images end after the first \(withImage) of \(count) \(poses.what)", file: place,
        count: count - withImage)
    }
    note(.poseUnusable, unusable, "transforms that are not a rotation and a position", notes)
    note(.timeNotAscending, disorder, nil, notes)
    note(.imageMissing, withoutImage, "\(poses.what) whose image is not in \(place)\(causes)", notes)
    note(.poseMissing, unposed, "images whose number is not among the \(poses.what)", notes)
    let present = unpaired ?? withImage
    if present * 2 < count {
      throw TakeFailure(
        .tooFewImages, "\(present) of the \(count) images that \(poses.file) names are present\(causes); at least half are needed",
        file: place)
    }
    if unusable * 5 > count {
      throw TakeFailure(
        .tooFewPoses, "\(unusable) of \(count) poses are unusable; at most a fifth may be", file: poses.file)
    }
    if rows.isEmpty { throw TakeFailure(.noFrames, "no image in \(place) has a number among the \(poses.what)") }
  }

  private mutating func note(_ code: FindingCode, _ count: Int, _ message: String?, _ notes: FindingCollector) {
    guard count > 0 else { return }
    dropped.append(Episode.Dropped(reason: code.rawValue, count: count))
    if let message { notes.add(code, message + "; these frames are dropped", count: count) }
  }
}
