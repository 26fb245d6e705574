import Datasets
import Model

/// The contents of a written episode that a page shows besides its images: numbers and drawings, from one pass over its small arrays.
struct EpisodeContents: Sendable {
  /// A step between rows in which frames are missing.
  struct Gap: Sendable, Equatable {
    /// Seconds from the first row to the row before the gap.
    var start: Double
    var seconds: Double
    /// Frames that would fit.
    var missing: Int
  }

  /// A stream on the rows.
  struct Stream: Sendable {
    var name: StreamName
    var kind: String
    var unit: String
    var shape: [Int]
    /// Rows with a sample that can be read.
    var valid: Int
    /// `nil` without samples.
    var error: AlignmentError?
    var histogram: Drawing?
  }

  /// Sample time minus row time, of the rows with a sample, in nanoseconds.
  struct AlignmentError: Sendable, Equatable {
    var median: Int64
    /// The 95th percentile of the absolute values.
    var percentile95: Int64
    var largest: Int64

    init?(_ delays: [Int64]) {
      guard !delays.isEmpty else { return nil }
      let sorted = delays.sorted()
      let absolute = delays.map { Int64(clamping: $0.magnitude) }.sorted()
      median = sorted[(sorted.count - 1) / 2]
      percentile95 = absolute[Int((Double(absolute.count - 1) * 0.95).rounded(.up))]
      largest = absolute[absolute.count - 1]
    }
  }

  var rows: Int
  /// Seconds from the first row to the last.
  var seconds: Double
  var rateHz: Double?
  var clock: Clock
  var isResampled: Bool
  /// Findings from the file that its record does not have.
  var findings: [Finding]
  var gaps: [Gap] = []
  /// Rows with a problem, by its name.
  var quality: [(name: String, rows: Int)] = []
  var streams: [Stream] = []
  /// `nil` without actions.
  var actions: ActionHistograms?
  var timeline: Drawing?
  var trajectory: TrajectoryDrawing?
  /// The stream that it is of, in a joined take.
  var trajectoryName: StreamName?
  /// The same path from the side.
  var sideView: TrajectoryDrawing?
  /// The lag of images, height, joints and other vectors, with their captions.
  var curves: [(caption: String, drawing: Drawing)] = []

  var missing: Int { gaps.reduce(0) { $0 + $1.missing } }

  /// The largest alignment error of any stream, in nanoseconds.
  var largestError: Int64? { streams.compactMap { $0.error?.largest }.max() }

  /// Reads an episode.
  ///
  /// `draws`: Whether to make drawings too. `drawsLag`: Whether to read some seconds of images for one of their lag.
  init(_ episode: Episode, draws: Bool, drawsLag: Bool = false) throws {
    let frames = episode.frames
    let times = frames.timestamps
    let origin = times.first ?? Timestamp(nanoseconds: 0)
    let seconds = times.map { Double($0.since(origin)) / 1e9 }
    let cadence = frames.cadence
    let period = (cadence.nominalPeriod ?? 0) / 1e9
    (rows, self.seconds, rateHz, clock, isResampled) = (times.count, seconds.last ?? 0, cadence.rateHz, frames.clock, frames.isResampled)
    findings = episode.findings
    let found = cadence.gaps(in: times, tick: frames.tick)
    gaps = found.map { gap in
      let step = Double(gap.step) / 1e9
      // A damaged file may hold any time.
      let missing = period > 0 ? min(max(0, (step / period).rounded() - 1), 1e9) : 0
      return Gap(start: seconds[gap.row], seconds: step, missing: missing.isFinite ? Int(missing) : 0)
    }
    let bits = episode.quality()
    quality = FrameQuality.names.compactMap { name in
      let count = FrameQuality(named: name).map { bit in bits.count { $0.contains(bit) } } ?? 0
      return count > 0 ? (name, count) : nil
    }
    let aligned = episode.streams.filter { $0.value.rows != nil }.sorted { $0.key < $1.key }
    streams = aligned.map { Self.stream($0.key, $0.value, times, bits, draws) }
    var reader = RowReader(episode)
    actions = try ActionHistograms(episode, &reader)
    guard draws else { return }
    let breaks = Set(found.map(\.row))
    // Images that cannot be opened take their own strip, and nothing else.
    if drawsLag, let lag = try? MeasuredMotion(episode)?.readLag() { curves.append(LagDrawing.drawing(lag)) }
    timeline = TimelineDrawing.drawing(
      seconds: seconds, period: period, gaps: zip(found, gaps).map { ($0.row, $1.missing) }, lanes: Self.lanes(aligned, bits))
    for (name, stream) in aligned {
      if let frame = stream.spec.kind.poseFrame, trajectory == nil {
        trajectoryName = stream.spec.member == nil ? nil : name
        try addTrajectory(frame, of: (0..<rows).map { try reader.pose(name, at: $0)?.position }, seconds, breaks)
      } else if let frame = stream.spec.kind.poseFrame, stream.spec.member != nil {
        let positions = try (0..<rows).map { try reader.pose(name, at: $0)?.position }.map(Self.sound)
        let plane = GroundPlane(worldAxes: frame.worldAxes, positions: positions.compactMap(\.self))
        let path = TrajectoryDrawing(positions, breaks: breaks, plane: plane, unit: frame.unit.rawValue)
        if let path { curves.append(("Trajectory of \(name)", path.drawing)) }
      } else if stream.spec.kind == .angles || stream.spec.kind == .vector {
        let values = try (0..<rows).map { try reader.values(of: name, at: $0) }
        let names = Self.elements(of: stream.spec, name)
        let curves = names.enumerated().map { index, name in CurvesDrawing.Curve(name: name, values: values.map { Double($0[index]) }) }
        let drawing = CurvesDrawing.drawing(name.rawValue, curves, seconds: seconds, breaks: breaks, unit: stream.spec.unit)
        if let drawing { self.curves.append(("\(name) (\(stream.spec.unit))", drawing)) }
      }
    }
  }

  /// Names of the elements of a vector; only the first of a long one are drawn.
  private static func elements(of spec: StreamSpec, _ name: StreamName) -> [String] {
    let count = min(spec.elementCount, 12)
    if spec.elements.count >= count { return Array(spec.elements.prefix(count)) }
    return count == 1 ? [name.rawValue] : (0..<count).map { "\(name)[\($0)]" }
  }

  private static func stream(
    _ name: StreamName, _ stream: SampleStream, _ times: [Timestamp], _ bits: [FrameQuality], _ draws: Bool
  ) -> Stream {
    let rows = stream.rows ?? []
    let delays = rows.indices.compactMap { row in rows[row].map { stream.delay(of: $0, at: times[row]) } }
    var histogram: Drawing?
    if draws {
      histogram = HistogramDrawing.drawing("Alignment error of \(name)", delays.map { Double($0) / 1e6 }, unit: "ms")
    }
    return Stream(
      name: name, kind: stream.spec.kind.word, unit: stream.spec.unit, shape: stream.spec.shape,
      valid: valid(stream, bits).count { $0 }, error: AlignmentError(delays), histogram: histogram)
  }

  /// Whether each row has a sample that can be read.
  private static func valid(_ stream: SampleStream, _ bits: [FrameQuality]) -> [Bool] {
    let missing = stream.spec.kind.missingQuality ?? []
    return zip(stream.rows ?? [], bits).map { row, bits in row != nil && (missing.isEmpty || !bits.contains(missing)) }
  }

  private static func lanes(_ streams: [(key: StreamName, value: SampleStream)], _ bits: [FrameQuality]) -> [TimelineDrawing.Lane] {
    // Confidence belongs to the same samples as depth.
    let shown = streams.filter { $0.value.spec.kind != .confidence }
    let lanes = shown.map { TimelineDrawing.Lane(name: $0.key.rawValue, rows: valid($0.value, bits)) }
    // Other bits say that a stream has no sample, which its lane shows.
    let problems: [(FrameQuality, String)] = [
      (.poseRepeated, "pose-repeated"), (.poseJump, "pose-jump"), (.poseInterpolated, "pose-interpolated"),
    ]
    return lanes
      + problems.compactMap { bit, name in
        let rows = bits.map { $0.contains(bit) }
        return rows.contains(true) ? TimelineDrawing.Lane(name: name, rows: rows, isProblem: true) : nil
      }
  }

  /// A position that is a number.
  private static func sound(_ position: SIMD3<Double>?) -> SIMD3<Double>? {
    position.flatMap { ($0 * $0).sum().isFinite ? $0 : nil }
  }

  private mutating func addTrajectory(
    _ frame: PoseFrame, of positions: [SIMD3<Double>?], _ seconds: [Double], _ breaks: Set<Int>
  ) {
    let sound = positions.map(Self.sound)
    let plane = GroundPlane(worldAxes: frame.worldAxes, positions: sound.compactMap(\.self))
    trajectory = TrajectoryDrawing(sound, breaks: breaks, plane: plane, unit: frame.unit.rawValue)
    sideView = TrajectoryDrawing(sound, breaks: breaks, plane: plane.side, unit: frame.unit.rawValue)
    let heights = sound.map { position in position.map { ($0 * plane.up).sum() } ?? .nan }
    let words = plane.isLevel ? "Height" : "Distance from that plane"
    let curve = CurvesDrawing.Curve(name: words, values: heights)
    if let drawing = CurvesDrawing.drawing(words, [curve], seconds: seconds, breaks: breaks, unit: frame.unit.rawValue) {
      curves.insert(("\(words) (\(frame.unit))", drawing), at: 0)
    }
  }
}
