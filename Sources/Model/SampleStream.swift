/// The samples that make up one row's value: `sample` blended toward `next` by `weight`.
package struct Row: Equatable, Sendable {
  package var sample: Int
  /// `sample` itself, or a later one.
  package var next: Int
  /// Weight of `next`, from 0 for `sample` to 1 for `next`.
  package var weight: Float

  /// Makes a row of one unblended sample.
  package init(_ sample: Int) { (self.sample, next, weight) = (sample, sample, 0) }

  package init(_ sample: Int, towards next: Int, by weight: Float) { (self.sample, self.next, self.weight) = (sample, next, weight) }

  package var isBlend: Bool { next != sample }

  /// The sample with the greater weight, the earlier of two equal ones.
  package var nearest: Int { weight <= 0.5 ? sample : next }
}

/// One sensor's samples with their own timestamps, and, once aligned, the samples of each frame.
///
///     SampleStream(spec: spec, source: VectorSource(width: 1, values: [10, 20]), timestamps: times, sourceIndex: [0, 1])
package struct SampleStream: Sendable {
  package var spec: StreamSpec
  package var source: any SampleSource
  /// Time of each sample, on the spec's clock, ascending.
  package var timestamps: [Timestamp]
  /// The source's own number of each sample.
  package var sourceIndex: [Int64]
  /// The value of each frame of the episode, or `nil` without one; absent until `align` has run.
  package var rows: [Row?]?
  /// The sender's own millisecond counter at each sample, where timestamps are arrival times. It restarts when the sender does and
  /// wraps at 2^32.
  package var senderMilliseconds: [UInt32]?
  /// Nanoseconds that were subtracted from the timestamps because the sensor is known to be late.
  package var latency: Int64 = 0
  /// The name before steps gave it another one, as steps that come earlier know it.
  package var firstName: String?
  /// Intrinsics of the full-size image at the times of the samples, where a dataset has them for this stream: they are rounded to this
  /// stream's grid, and the camera's to another one's. `nil` where the camera's count.
  package var intrinsicsTrack: IntrinsicsTrack?
  /// A change of frame that applies to every row's pose, after interpolation.
  package var poseChange: PoseChange?
  /// Whether each sample repeats the one before it, where the source says so: its rows keep the values, and are not valid as new ones.
  package var isRepeat: [Bool]?
  /// The sensor's own samples, where they are stored in another form.
  package var raw: (any SampleSource)?
  /// Whether the app makes no more samples than this, so that the stream may end before the frames do.
  package var endsEarlier = false
  /// How the clock of a joined take's member was related to the frames'. Its times are on the frames' clock already.
  package var relation: Relation?
  /// Samples per second, where the reader knows it more exactly than a regression over the timestamps.
  package var nominalRate: Double?

  /// The relation of a clock to the frames'.
  package struct Relation: Sendable {
    /// What was added to the times, how and how surely.
    package var alignment: Episode.Alignment
    /// The samples that rows may have: a reader may know some to be of no frame.
    package var samples: [Int]

    package init(_ alignment: Episode.Alignment, samples: [Int]) { (self.alignment, self.samples) = (alignment, samples) }
  }

  package init(
    spec: StreamSpec, source: any SampleSource, timestamps: [Timestamp], sourceIndex: [Int64], rows: [Row?]? = nil
  ) {
    self.spec = spec
    self.source = source
    self.timestamps = timestamps
    self.sourceIndex = sourceIndex
    self.rows = rows
  }

  package var cadence: Cadence { Cadence(timestamps, nominalRate: nominalRate) }

  /// Time of a row's value minus the row's time in nanoseconds: 0 for an interpolated value.
  package func delay(of row: Row, at frame: Timestamp) -> Int64 { row.isBlend ? 0 : timestamps[row.sample].since(frame) }
}

/// A change of the frames of poses: another world on the left, other axes or another body on the right.
package struct PoseChange: Equatable, Sendable {
  package var left = Pose.identity
  package var right = Pose.identity

  package init(left: Pose = .identity, right: Pose = .identity) { (self.left, self.right) = (left, right) }

  /// The changed pose: left times pose times right.
  package func callAsFunction(_ pose: Pose) -> Pose { left.composed(with: pose).composed(with: right) }

  /// This change after an earlier one.
  package func after(_ first: PoseChange?) -> PoseChange {
    guard let first else { return self }
    return PoseChange(left: left.composed(with: first.left), right: first.right.composed(with: right))
  }
}

extension Sequence<Int> {
  /// One row per sample.
  package var rows: [Row?] { map { Row($0) } }
}
