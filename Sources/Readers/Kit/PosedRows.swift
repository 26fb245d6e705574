import Evidence
import Model

/// Rows of images that get the poses at their times, which were measured at other times.
struct PosedRows {
  let frame: PoseFrame
  let clock: Clock
  /// The file of the poses, for messages.
  let file: String
  /// Times of the poses.
  let times: [Timestamp]
  /// The farthest pose before or after a row, in nanoseconds: the option `max-pose-gap`.
  let gap: Int64
  /// What a person should know about images without a pose; empty where nothing is special.
  var hint = ""

  /// Adds the pose of each row, and drops rows without one.
  ///
  /// - Parameter pose: The pose at a time; `nil` where none is near.
  /// - Throws: `TakeFailure` where no row has one.
  func add(to episode: inout Episode, _ notes: FindingCollector, pose: (Timestamp) -> Pose?) throws {
    let frames = episode.frames.timestamps
    let found = frames.map(pose)
    let posed = found.indices.filter { found[$0] != nil }
    guard !posed.isEmpty else {
      throw TakeFailure(
        .posesMissing,
        "no image is between two poses at most \(Double(gap) / 1e9) s away: images are \(Timestamp.span(frames)), poses \(Timestamp.span(times)); their units or clocks differ, or max-pose-gap is too small\(hint)",
        file: file)
    }
    if posed.count < frames.count {
      notes.add(
        .poseMissing, "images that are not between two poses at most \(Double(gap) / 1e9) s away (max-pose-gap) have no row\(hint)",
        file: file,
        count: frames.count - posed.count)
      episode = episode.keeping(posed, dropping: FindingCode.poseMissing.rawValue)
    }
    let poses = found.compactMap(\.self)
    var list = try PoseList(
      zip(poses, episode.frames.timestamps).enumerated().map { PoseList.Entry(number: Int64($0), timestamp: $1.1, pose: $1.0) },
      file: file, number: "the images", notes: notes)
    list.what = "images"
    guard let quality = list.quality(of: poses, at: episode.frames.timestamps, isMetric: frame.unit.isMetric, notes) else { return }
    episode.frames.quality = quality
    episode.streams[.pose] = SampleStream(
      spec: StreamSpec(kind: .pose(frame), type: .float32, shape: [7], unit: frame.unit.rawValue, clock: clock),
      source: VectorSource(poses), timestamps: episode.frames.timestamps, sourceIndex: episode.frames.sourceIndex,
      rows: poses.indices.rows)
    episode.cameras[.phone]?.pose = .pose
    episode.details["trajectory"] = ["poses": JSONValue(times.count), "method": "linear positions, slerp"]
  }
}
