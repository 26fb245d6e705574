import Model

/// The frames of a session's episode, with their poses and images.
struct SessionRows {
  private(set) var frames: Episode.Frames
  private(set) var poses: [Pose] = []
  /// The entry of each pose in `poses.json`.
  private(set) var places: [Int] = []
  /// Entries of the inputs.
  private(set) var images: [Int]
  private(set) var sourceFrames: Int
  private(set) var dropped: [Episode.Dropped] = []
  private var framePlaces: [Int]?
  /// Fraction of poses that have an image, where the end of an upload is missing.
  private(set) var coverage: Double?

  /// Pairs images with poses by number; a session without poses contributes its images alone. Throws `TakeFailure` when no frame remains.
  init(_ session: SessionContents, _ notes: FindingCollector) throws {
    if session.variant.poses != .none, let poses = session.poses {
      let join = try FrameJoin(poses: poses.list, images: session.folder.images, in: "rgb", notes: notes)
      self.init(join, poses.list, session)
    } else {
      guard let capture = session.capture, !session.images.isEmpty else { throw Self.noImages }
      self.init(
        frames: Episode.Frames(
          timestamps: capture.times, sourceIndex: session.images.map(\.key), clock: capture.clock, tick: capture.tick),
        images: session.images.map(\.value), sourceFrames: session.images.count)
    }
    if !poses.isEmpty, let list = session.poses?.list {
      let quality = list.quality(
        of: poses, at: frames.timestamps, isMetric: session.variant.poses == .arkit,
        ordinals: session.slam.map { slam in frames.sourceIndex.map(slam.ordinal) }, notes)
      frames.quality = quality ?? []
      if quality == nil { (poses, places) = ([], []) }
    }
    notes.add(frames.droppedFrames(places: framePlaces))
  }

  private init(frames: Episode.Frames, images: [Int], sourceFrames: Int) {
    (self.frames, self.images, self.sourceFrames) = (frames, images, sourceFrames)
  }

  private init(_ join: FrameJoin, _ list: PoseList, _ session: SessionContents) {
    frames = Episode.Frames(
      timestamps: join.rows.map { list.entries[$0].timestamp }, sourceIndex: join.rows.map { list.entries[$0].number },
      clock: session.clock, tick: session.capture?.tick ?? 1)
    // A growing array takes up to twice its size.
    poses.reserveCapacity(join.rows.count)
    images = []
    images.reserveCapacity(join.rows.count)
    for entry in join.rows.lazy.map({ list.entries[$0] }) {
      if let pose = entry.pose {
        poses.append(pose)
        places.append(entry.place)
      }
      if let image = session.folder.images[entry.number] { images.append(image) }
    }
    (sourceFrames, framePlaces, dropped, coverage) = (join.sourceFrames, join.places, join.dropped, join.coverage)
  }

  static var noImages: TakeFailure { TakeFailure(.noFrames, "there are no images in rgb/") }
}
