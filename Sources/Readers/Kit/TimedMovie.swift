import Evidence
import Media
import Model
import Steps

/// A video with a list of its frames' times beside it, and, as far as the format has any, poses with times: from these to an episode. A row is a
/// listed time with a frame of the video, and a pose.
struct TimedMovie {
  /// The greatest distance in time between a frame and its pose.
  private let tolerance: Int64
  private let inputs: TakeInputs
  private let movie: MovieTake
  private let listed: [Timestamp?]
  /// `nil` in a format without poses.
  private let poses: [(time: Timestamp, pose: Pose?)]?
  /// The file of the poses, or else of the times.
  private let table: String
  private let clock: Clock
  /// The number of the listed time of each frame of the video.
  private let frames: FrameClock
  /// Exact times of the listed frames that the video has; empty where it is unknown which these are.
  let exact: [Int: Timestamp]
  /// Whether no row gets an image, because it is unknown which frames the video has.
  private let isMasked: Bool

  var size: ImageSize { movie.movie.size }
  /// The place in the list of the time of each frame of the video; -1 for one that is at none.
  var positions: [Int64] { frames.positions.map { $0.map { Int64($0) } ?? -1 } }

  /// - Parameter listed: Times by position; `nil` where a frame has no image.
  /// - Parameter list: Name of the list, for messages: `rgbTimes`.
  /// - Parameter poses: In the order of the file; those whose times do not fit between their neighbors' are left out. `nil` in a format without poses, where the listed times are the exact ones.
  /// - Throws: `TakeFailure` where the times of the list and those of the video cannot be of one recording.
  init(
    _ movie: MovieTake, in inputs: TakeInputs, listed: [Timestamp?], named list: String, poses: [(time: Timestamp, pose: Pose?)]? = nil,
    file: String, clock: Clock, tolerance: Int64 = FrameClock.tolerance, options: MoviePairingOptions, notes: FindingCollector
  ) throws {
    (self.movie, self.inputs, self.listed, self.table, self.clock, self.tolerance) = (movie, inputs, listed, file, clock, tolerance)
    self.poses = poses.map { Self.ascending($0, file, notes) }
    let presented = movie.movie.nanoseconds
    try ListedTimes.refuseStep(
      listed, presented: poses == nil ? [] : presented, named: list, file: file, tolerance: tolerance)
    frames =
      poses == nil
      ? FrameClock.exact(listed: listed, presented: presented) : FrameClock(listed: listed, presented: presented, tolerance: tolerance)
    isMasked = frames.isAmbiguous && options.ambiguousMovie == .mask
    var exact: [Int: Timestamp] = [:]
    if !isMasked { for (position, time) in zip(frames.positions, frames.times) { if let position { exact[position] = time } } }
    self.exact = exact
    let count = listed.count { $0 != nil }
    let unpaired = frames.positions.count { $0 == nil }
    guard unpaired * 5 <= frames.positions.count else {
      throw TakeFailure(
        .movieTimesDiffer,
        "\(unpaired) of \(frames.positions.count) frames of the video are at none of the \(count) times in \(list); at most a fifth may be: the video "
          + "is of another recording, or plays at another speed", file: movie.file)
    }
    if frames.isAmbiguous {
      notes.add(options.finding(frames: frames.times.count, of: count, listed: "\(list) has \(count) times", file: movie.file))
    } else if frames.times.count != count {
      notes.add(
        .movieCountMismatch, "the video has \(frames.times.count) frames, \(list) has \(count) times; they are paired by time",
        file: movie.file)
    }
    if unpaired > 0 {
      notes.add(
        .poseMissing, "frames of the video that are at none of the times in \(list) are dropped", file: movie.file, count: unpaired)
    }
  }

  private static func ascending(_ poses: [(time: Timestamp, pose: Pose?)], _ file: String, _ notes: FindingCollector) -> [(
    time: Timestamp, pose: Pose?
  )] {
    let kept = AscendingTimes.longest(poses.map(\.time))
    if kept.count < poses.count {
      notes.add(
        .timeNotAscending, "times of poses that do not fit between their neighbors; these poses are left out", file: file,
        count: poses.count - kept.count)
    }
    return kept.map { poses[$0] }
  }

  /// The time of a sensor's sample that is listed for a frame: the frame's, which is the more exact one, if it is near.
  func time(of position: Int, listed time: Timestamp) -> Timestamp {
    exact[position].flatMap { abs(max($0.since(time), -.max)) <= tolerance ? $0 : nil } ?? time
  }

  /// Makes the episode of images and poses, without a camera and a variant.
  ///
  /// - Parameter poseFrame: `nil` in a format without poses.
  func episode(id: String, poseFrame: PoseFrame? = nil, notes: FindingCollector) throws -> Episode {
    var images: [Int64: Int] = [:]
    for (sample, position) in frames.positions.enumerated() { if let position { images[Int64(position)] = sample } }
    var list = try PoseList(entries, file: table, number: "the place in the list", notes: notes)
    if poses == nil { list.what = "times" }
    let join = try FrameJoin(
      poses: list, images: isMasked ? nil : images, unpaired: isMasked ? frames.times.count : nil, in: movie.file, notes: notes)
    let rows = join.rows.map { list.entries[$0] }
    var timeline = Episode.Frames(timestamps: rows.map(\.timestamp), sourceIndex: rows.map(\.number), clock: clock)
    let quality = poseFrame.flatMap { _ in list.quality(of: rows.compactMap(\.pose), at: timeline.timestamps, isMetric: true, notes) }
    timeline.quality = quality ?? []
    notes.add(timeline.droppedFrames(places: join.places))

    let shown = movie.episode(id: id, snapsRate: false)
    notes.add(shown.findings)
    var episode = Episode(id: id, sourceFrames: join.sourceFrames, frames: timeline, streams: [:])
    if let poseFrame, quality != nil {
      episode.streams[.pose] = SampleStream(
        spec: StreamSpec(kind: .pose(poseFrame), type: .float32, shape: [7], unit: "m", clock: clock),
        source: VectorSource(rows.compactMap(\.pose)), timestamps: timeline.timestamps, sourceIndex: timeline.sourceIndex,
        rows: rows.indices.rows)
    }
    episode.streams[.image] = shown.streams[.image]
    episode.streams[.image]?.spec.clock = clock
    episode.streams[.image]?.timestamps = frames.times
    episode.streams[.image]?.rows = rows.map { isMasked ? nil : images[$0.number].map { Row($0) } }
    if isMasked { episode.alignments.append(Episode.Alignment(stream: .image, method: "ambiguous")) }
    episode.dropped = join.dropped
    episode.captureStart = rows.first?.timestamp
    episode.unixOrigin = Episode.UnixOrigin(start: episode.captureStart, listed: listed, on: clock)
    let date =
      clock != .phoneUnix
      ? movie.date
      : rows.first.map { row in
        let seconds = row.timestamp.nanoseconds / 1_000_000_000
        return RecordingDate(table, day: String(UnixTime.rfc3339(seconds: seconds).prefix(10)), seconds: seconds)
      }
    episode.dates = Day.dates(name: id, date)
    episode.details = inputs.details.merging(shown.details) { own, _ in own }
    episode.details["time_base_meaning"] = nil
    return episode
  }

  /// An entry for each listed image: at the time of its frame where the video has it, with the pose nearest in time.
  private var entries: [PoseList.Entry] {
    guard let poses else {
      // Nothing is known of where the camera is, and nothing of it is stored.
      return listed.enumerated().compactMap { position, listed in
        listed.map { PoseList.Entry(number: Int64(position), timestamp: $0, pose: .identity) }
      }
    }
    var next = 0
    return listed.enumerated().compactMap { position, listed in
      guard let listed else { return nil }
      func distance(_ index: Int) -> Int64 { abs(max(poses[index].time.since(listed), -.max)) }
      while next + 1 < poses.count, distance(next + 1) <= distance(next) { next += 1 }
      let pose = next < poses.count && distance(next) <= tolerance ? poses[next].pose : nil
      return PoseList.Entry(number: Int64(position), timestamp: exact[position] ?? listed, pose: pose, depthIndex: Int64(position))
    }
  }
}
