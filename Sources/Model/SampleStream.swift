/// How the value of one row is made of a stream's samples: `sample` blended towards `next` by `weight`.
package struct Row: Equatable, Sendable {
  package var sample: Int
  /// `sample` itself, or a later one.
  package var next: Int
  /// 0 gives `sample`, 1 gives `next`.
  package var weight: Float

  /// One sample as it is.
  package init(_ sample: Int) { (self.sample, next, weight) = (sample, sample, 0) }

  package init(_ sample: Int, towards next: Int, by weight: Float) { (self.sample, self.next, self.weight) = (sample, next, weight) }

  package var isBlend: Bool { next != sample }

  /// The sample that counts for more, the earlier of two equal ones.
  package var nearest: Int { weight <= 0.5 ? sample : next }
}

/// One sensor's samples with their own timestamps, and, once aligned, how they make up each frame's value.
package struct SampleStream: Sendable {
  package var spec: StreamSpec
  package var source: any SampleSource
  /// When each sample was taken, on the spec's clock, ascending.
  package var timestamps: [Timestamp]
  /// The source's own number of each sample.
  package var sourceIndex: [Int64]
  /// For each frame of the episode its value, or `nil`; absent until `align` has run.
  package var rows: [Row?]?
  /// The sender's own count of milliseconds at each sample, where samples were stamped late, on arrival. Starts again at
  /// a restart and after 2^32.
  package var senderMilliseconds: [UInt32]?
  /// The same samples as the sensor gave them, where they are stored otherwise.
  package var raw: (any SampleSource)?
  /// Samples a second, where the reader knows better than a regression over the timestamps.
  package var nominalRate: Double?

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

  /// Time of a row's value minus the row's time in nanoseconds: 0 for one that was interpolated to it.
  package func delay(of row: Row, at frame: Timestamp) -> Int64 { row.isBlend ? 0 : timestamps[row.sample].since(frame) }
}

extension Sequence<Int> {
  /// A row of one sample each.
  package var rows: [Row?] { map { Row($0) } }
}
