/// A take prepared for training: a timeline of frames, and streams that provide a sample for each.
///
/// It is a plan, not a buffer: timestamps are in memory, and samples are read when a writer requests them.
package struct Episode: Sendable {
  /// The rows of the episode.
  package struct Frames: Sendable, Equatable {
    /// Times of the rows, ascending, on `clock`.
    package var timestamps: [Timestamp]
    /// The source's own frame number of each row.
    package var sourceIndex: [Int64]
    package var clock: Clock
    /// Resolution of the source's time base in nanoseconds.
    package var tick: Int64 = 1
    /// Frames per second, where the reader knows it more exactly than a regression over the timestamps.
    package var nominalRate: Double?

    /// Problems that the reader found in each frame; empty when it checks none.
    package var quality: [FrameQuality] = []
    /// Whether rows are ticks of a uniform grid instead of the source's frames.
    package var isResampled = false
    /// Number of the gap-free segment of each frame, once segments are numbered.
    package var segment: [Int64]?

    package var cadence: Cadence { Cadence(timestamps, nominalRate: nominalRate) }
    package var gaps: [Cadence.Gap] { cadence.gaps(in: timestamps, tick: tick) }

    package var count: Int { timestamps.count }

    /// Rows of one training window, 2 observed and 16 predicted; shorter episodes have none.
    private static let windowFrames = 18

    /// A finding about frames that are all rows of an episode, and too few to learn from.
    package var shortEpisode: Finding? {
      guard count > 0, count < Self.windowFrames else { return nil }
      return Finding(.shortEpisode, "\(count) rows; a window of 2 observed and 16 predicted rows needs \(Self.windowFrames)")
    }

    /// The finding that the camera dropped frames, for readers to report; `nil` where it dropped none.
    ///
    /// - Parameter places: Where the rows are among the frames that the source has: a step over one that the reader dropped would appear as a gap,
    ///   too. `nil` where it dropped none.
    package func droppedFrames(places: [Int]? = nil) -> Finding? {
      // The steps next to a frame that was dropped for its timestamp are not the camera's own either.
      func follows(_ row: Int) -> Bool {
        guard let places, row > 0, row < count else { return true }
        return places[row] == places[row - 1] + 1
      }
      let dropped = gaps.count { gap in [gap.row, gap.row + 1, gap.row + 2].allSatisfy(follows) }
      guard dropped > 0 else { return nil }
      return Finding(.framesDropped, "steps longer than 1.5 periods, in which the camera dropped frames", count: dropped)
    }

    package init(timestamps: [Timestamp], sourceIndex: [Int64], clock: Clock, tick: Int64 = 1) {
      self.timestamps = timestamps
      self.sourceIndex = sourceIndex
      self.clock = clock
      self.tick = tick
    }
  }

  /// Unix time of the start of the recording, and its resolution, in nanoseconds.
  package struct UnixOrigin: Sendable, Equatable {
    package var nanoseconds: Int64
    package var resolution: Int64
    package init(nanoseconds: Int64, resolution: Int64) { (self.nanoseconds, self.resolution) = (nanoseconds, resolution) }
  }

  /// The result of `align` for one stream.
  package struct Alignment: Sendable, Equatable {
    package var stream: StreamName
    /// The alignment method, in the terms of `docs/time.md`.
    package var method: String
    /// Nanoseconds added to the stream's timestamps to convert them to the frames' clock.
    package var offset: Int64?
    /// Uncertainty of the offset: half-width or spread in nanoseconds, depending on the method.
    package var residual: Int64?
    /// Nanoseconds by which the sensor is known to be late, subtracted from its timestamps.
    package var latency: Int64?
    /// The member of a joined take that the stream is of.
    package var member: String?

    package init(
      stream: StreamName, method: String, offset: Int64? = nil, residual: Int64? = nil, latency: Int64? = nil, member: String? = nil
    ) {
      self.stream = stream
      self.member = member
      self.method = method
      self.offset = offset
      self.residual = residual
      self.latency = latency
    }
  }

  /// A number of dropped frames, with the reason.
  package struct Dropped: Sendable, Equatable {
    package var reason: String
    package var count: Int
    package init(reason: String, count: Int) {
      self.reason = reason
      self.count = count
    }
  }

  /// The row of the take after the last one, of an episode that was cut from a longer take. It is not stored; the last action leads to it.
  package struct Following: Sendable {
    package var timestamp: Timestamp
    package var rows: [StreamName: Row?]
  }

  package var id: EpisodeID
  /// The reader's name for the kind of take, where it has several.
  package var variant: String?
  /// Number of frames in the source, before any were dropped.
  package var sourceFrames: Int
  package var frames: Frames
  package var streams: [StreamName: SampleStream]
  package var following: Following?
  /// Streams computed from other streams, row by row.
  package var derived: [StreamName: any Derived] = [:]
  package var cameras: [CameraName: Camera] = [:]
  package var findings: [Finding] = []
  package var dropped: [Dropped] = []
  /// Rows that repeat the frame of an earlier row, after resampling to a higher rate.
  package var repeated = 0
  /// Ticks of the grid that are no rows because they lie in gaps.
  package var skippedTicks = 0
  /// Whether the observations of the next row are stored with each row.
  package var storesNextObservations = false
  /// Whether a last row that no row of the take follows is left out, because its action would be invented.
  package var dropsRowWithoutNext = false
  /// The streams that actions would be made of, where the take has none of them: `poses`, `joints or arm`.
  package var actionsLack: String?
  package var alignments: [Alignment] = []
  package var unixOrigin: UnixOrigin?
  /// Capture time of the source's first frame, on the frames' clock, whether or not it is a row.
  package var captureStart: Timestamp?
  /// The dates of recording that the take's parts give; the first one counts.
  package var dates: [RecordingDate] = []
  /// Values that only one format or one transform uses.
  package var extensions = Extensions()

  /// - Parameter id: The take's id: a reader makes one episode of a take.
  package init(id: String, sourceFrames: Int, frames: Frames, streams: [StreamName: SampleStream]) {
    self.id = EpisodeID(take: id)
    self.sourceFrames = sourceFrames
    self.frames = frames
    self.streams = streams
  }

  /// The episode with only these frames, given as ascending rows; the others are counted as dropped for `reason`.
  ///
  /// - Parameter continues: Whether the frame after the last one is as good as those that are kept, and only cut off.
  package func keeping(_ rows: [Int], dropping reason: String, continues: Bool = false) -> Episode {
    var kept = self
    if let last = rows.last, last < frames.count - 1 {
      // Where tracking jumped, the step to the next frame is no motion.
      let jumps = frames.quality.indices.contains(last + 1) && frames.quality[last + 1].contains(.poseJump)
      kept.following =
        continues && !jumps
        ? Following(timestamp: frames.timestamps[last + 1], rows: streams.compactMapValues { $0.rows.map { $0[last + 1] } }) : nil
    }
    kept.frames.timestamps = rows.map { frames.timestamps[$0] }
    kept.frames.sourceIndex = rows.map { frames.sourceIndex[$0] }
    if !frames.quality.isEmpty { kept.frames.quality = rows.map { frames.quality[$0] } }
    kept.frames.segment = frames.segment.map { segment in rows.map { segment[$0] } }
    for (name, stream) in streams {
      if let all = stream.rows { kept.streams[name]?.rows = rows.map { all[$0] } }
    }
    if rows.count < frames.count {
      kept.frames.nominalRate = nil
      kept.dropped.append(Dropped(reason: reason, count: frames.count - rows.count))
    }
    return kept
  }

  /// The episode without the rows at its end that have no next row, if they are to be dropped for it.
  package func endingBeforeTheNextRow() -> Episode {
    guard dropsRowWithoutNext, following == nil, frames.count > 0 else { return self }
    var end = frames.count - 1
    // Where tracking jumped to the row that is gone, the one before has no next row either.
    while end > 0, frames.quality.indices.contains(end), frames.quality[end].contains(.poseJump) { end -= 1 }
    var kept = keeping(Array(0..<end), dropping: "no-next-row", continues: true)
    // Fewer rows at the end do not change the rate.
    kept.frames.nominalRate = frames.nominalRate ?? frames.cadence.rateHz
    return kept
  }

  /// The first stream by name of those that are wanted.
  package func firstStream(where isWanted: (SampleStream) -> Bool) -> (name: StreamName, stream: SampleStream)? {
    streams.filter { isWanted($0.value) }.min { $0.key < $1.key }.map { ($0.key, $0.value) }
  }

  /// Quality bits of each frame.
  ///
  /// - Parameter unreadable: For streams whose samples were read, whether each row has no readable sample.
  package func quality(unreadable: [StreamName: [Bool]] = [:]) -> [FrameQuality] {
    var quality = frames.quality.isEmpty ? Array(repeating: [], count: frames.count) : frames.quality
    for (name, stream) in streams {
      guard let bit = stream.spec.kind.missingQuality else { continue }
      // A frame without an image does not exist; whether an image is readable is known only after decoding.
      let missing = unreadable[name] ?? (stream.spec.kind == .image ? nil : stream.rows?.map { $0 == nil })
      for (frame, isMissing) in (missing ?? []).enumerated() where isMissing { quality[frame].insert(bit) }
    }
    return quality
  }

  /// Intrinsics of a row of a stream in pixels of its grid: those at the time of the row's sample, whichever row it was picked for; `nil`
  /// where none are known, and where they vary and the row has no sample.
  package func intrinsics(of stream: SampleStream, at row: Row?) -> Intrinsics? {
    guard let raster = stream.spec.raster else { return nil }
    // Intrinsics are at the sensor's own times.
    let time = row.map { stream.timestamps[$0.nearest].advanced(by: stream.latency) }
    return intrinsicsTrack(of: stream)?.intrinsics(at: time)?.applying(raster.rasterFromFull)
  }

  /// The intrinsics that count for a stream: its own, or its camera's.
  package func intrinsicsTrack(of stream: SampleStream) -> IntrinsicsTrack? {
    stream.intrinsicsTrack ?? camera(of: stream)?.intrinsicsTrack
  }

  /// The camera of a stream's raster.
  package func camera(of stream: SampleStream) -> Camera? { stream.spec.raster.flatMap { cameras[$0.camera] } }
}

/// Values stored by their type, which the model does not interpret.
package struct Extensions: Sendable {
  private var values: [ObjectIdentifier: any Sendable] = [:]

  package init() {}

  package subscript<Value: Sendable>(type: Value.Type) -> Value? {
    get { values[ObjectIdentifier(type)] as? Value }
    set { values[ObjectIdentifier(type)] = newValue }
  }
}

/// The date of recording by one part of a take.
package struct RecordingDate: Sendable, Equatable, Codable {
  /// The part, for messages: `the name`, `metadata.json`, `rgb.mp4`.
  package var source: String
  /// The day as it is written there, YYYY-MM-DD: the phone's own, or UTC's.
  package var day: String
  /// Unix time in seconds; `nil` where only the day is known.
  package var seconds: Int64?

  package init(_ source: String, day: String, seconds: Int64? = nil) { (self.source, self.day, self.seconds) = (source, day, seconds) }
}
