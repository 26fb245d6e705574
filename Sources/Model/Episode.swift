/// A take made ready to learn from: a timeline of frames, and streams that will give a sample for each.
///
/// A plan, not a buffer: timestamps are in memory, samples are read when a writer asks for them.
package struct Episode: Sendable {
  /// The rows of the episode.
  package struct Frames: Sendable, Equatable {
    /// Ascending, on `clock`.
    package var timestamps: [Timestamp]
    /// The source's own frame number of each row.
    package var sourceIndex: [Int64]
    package var clock: Clock
    /// Resolution of the source's time base in nanoseconds.
    package var tick: Int64 = 1
    /// Frames a second, where the reader knows better than a regression over the timestamps tells.
    package var nominalRate: Double?

    /// What the reader found wrong with each frame; empty when it looks at none.
    package var quality: [FrameQuality] = []
    /// The segment without a gap that each frame is in, once they are numbered.
    package var segment: [Int64]?

    package var cadence: Cadence { Cadence(timestamps, nominalRate: nominalRate) }
    package var gaps: [Cadence.Gap] { cadence.gaps(in: timestamps, tick: tick) }

    package var count: Int { timestamps.count }

    /// A policy looks at 2 frames and acts over 16: shorter episodes have not one window.
    private static let windowFrames = 18

    /// What a reader reports of the timeline.
    ///
    /// - Parameter isWhole: Whether it dropped no frames, which would show as gaps too.
    package func findings(isWhole: Bool) -> [Finding] {
      var findings: [Finding] = []
      // Where a frame was left out for its time, the step beside it is not what the camera made of it either.
      func follows(_ row: Int) -> Bool { row < 1 || row >= count || sourceIndex[row] == sourceIndex[row - 1] + 1 }
      let dropped = gaps.count { gap in isWhole || [gap.row, gap.row + 1, gap.row + 2].allSatisfy(follows) }
      if dropped > 0 {
        findings.append(
          Finding(.framesDropped, "steps longer than 1.5 periods, in which the camera dropped frames", count: dropped))
      }
      if count > 0, count < Self.windowFrames {
        findings.append(
          Finding(.shortEpisode, "\(count) frames; a policy that looks at 2 and acts over 16 needs \(Self.windowFrames)"))
      }
      return findings
    }

    package init(timestamps: [Timestamp], sourceIndex: [Int64], clock: Clock, tick: Int64 = 1) {
      self.timestamps = timestamps
      self.sourceIndex = sourceIndex
      self.clock = clock
      self.tick = tick
    }
  }

  /// When the recording began in Unix time, and how finely that is known.
  package struct UnixOrigin: Sendable, Equatable {
    package var nanoseconds: Int64
    package var resolution: Int64
    package init(nanoseconds: Int64, resolution: Int64) { (self.nanoseconds, self.resolution) = (nanoseconds, resolution) }
  }

  /// What `align` did for one stream.
  package struct Alignment: Sendable, Equatable {
    package var stream: StreamName
    /// How the two clocks were aligned, in words of `docs/time.md`.
    package var method: String
    /// Added to the stream's timestamps to bring them onto the frames' clock.
    package var offset: Int64?
    /// How well that is known: half-width or spread in nanoseconds, by method.
    package var residual: Int64?

    package init(stream: StreamName, method: String, offset: Int64? = nil, residual: Int64? = nil) {
      self.stream = stream
      self.method = method
      self.offset = offset
      self.residual = residual
    }
  }

  /// Frames that were left out, and why.
  package struct Dropped: Sendable, Equatable {
    package var reason: String
    package var count: Int
    package init(reason: String, count: Int) {
      self.reason = reason
      self.count = count
    }
  }

  package var id: String
  /// The reader's name for the kind of take, where it has several.
  package var variant: String?
  /// Frames the source has, before anything was left out.
  package var sourceFrames: Int
  package var frames: Frames
  package var streams: [StreamName: SampleStream]
  /// Streams that are computed from others, row by row.
  package var derived: [StreamName: any Derived] = [:]
  package var cameras: [CameraName: Camera] = [:]
  package var findings: [Finding] = []
  package var dropped: [Dropped] = []
  package var alignments: [Alignment] = []
  package var unixOrigin: UnixOrigin?
  /// When the source's first frame was taken, on the frames' clock, be it a row or not.
  package var captureStart: Timestamp?
  /// The day of the recording as YYYY-MM-DD, where known.
  package var day: String?
  /// Takes of one group are never in different splits; set by `split`.
  package var splitGroup: String?
  /// What one format or one transform alone knows of the take.
  package var extensions = Extensions()

  package init(id: String, sourceFrames: Int, frames: Frames, streams: [StreamName: SampleStream]) {
    self.id = id
    self.sourceFrames = sourceFrames
    self.frames = frames
    self.streams = streams
  }

  /// The episode with only these frames, given as ascending rows; the others are counted as dropped for `reason`.
  package func keeping(_ rows: [Int], dropping reason: String) -> Episode {
    var kept = self
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

  /// What is wrong with each frame.
  ///
  /// - Parameter unreadable: For streams of which samples were read, whether each row has none.
  package func quality(unreadable: [StreamName: [Bool]] = [:]) -> [FrameQuality] {
    var quality = frames.quality.isEmpty ? Array(repeating: [], count: frames.count) : frames.quality
    for (name, stream) in streams {
      guard let bit = stream.spec.kind.missingQuality else { continue }
      // An image that is not there at all is no frame; one that is there is known only once it is decoded.
      let missing = unreadable[name] ?? (stream.spec.kind == .image ? nil : stream.rows?.map { $0 == nil })
      for (frame, isMissing) in (missing ?? []).enumerated() where isMissing { quality[frame].insert(bit) }
    }
    return quality
  }

  /// Intrinsics of a row of a stream on a camera's grid; `nil` where none are known.
  package func intrinsics(of stream: SampleStream, at row: Row?) -> Intrinsics? {
    guard let raster = stream.spec.raster, let camera = cameras[raster.camera] else { return nil }
    return camera.intrinsics(raster, at: row.map { stream.timestamps[$0.nearest] })
  }

  /// The camera that a stream is of.
  package func camera(of stream: SampleStream) -> Camera? { stream.spec.raster.flatMap { cameras[$0.camera] } }
}

/// Values by their type, of which the model knows nothing.
package struct Extensions: Sendable {
  private var values: [ObjectIdentifier: any Sendable] = [:]

  package init() {}

  package subscript<Value: Sendable>(type: Value.Type) -> Value? {
    get { values[ObjectIdentifier(type)] as? Value }
    set { values[ObjectIdentifier(type)] = newValue }
  }
}
