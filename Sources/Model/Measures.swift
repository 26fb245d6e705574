import Foundation

/// Numbers of an episode that people choose episodes by, without a verdict. One that cannot be is absent. `docs/measures.md` defines each.
package struct Measures: Sendable, Equatable {
  package enum Name: String, CaseIterable, Sendable {
    case seconds, rows
    case rate = "rate_hz"
    case path = "path_m"
    case meanSpeed = "speed_mean_m_s"
    case greatSpeed = "speed_p99_m_s"
    case greatTurn = "turn_p99_deg_s"
    case still = "still_fraction"
    case jumps = "pose_jumps"
    case imageMissing = "image_missing_fraction"
    case sharpness = "sharpness_p10"
    case brightness = "brightness_mean"
    case overexposed = "overexposed_fraction"
    case depthValid = "depth_valid_fraction"
    case jointsValid = "joints_valid_fraction"
    case imagePoseLag = "image_pose_lag_ms"
    case imagePoseLagR = "image_pose_lag_r"
  }

  private var values: [Name: Double] = [:]

  package init() {}

  /// Whole numbers are exact; others are kept to six significant digits, so that the last bit of a machine's mathematics is in no record.
  package subscript(_ name: Name) -> Double? {
    get { values[name] }
    set { values[name] = newValue.flatMap { $0.isFinite ? Self.rounded($0) : nil } }
  }

  /// Those that the episode has, by name.
  package var known: [String: Double] { Dictionary(uniqueKeysWithValues: values.map { ($0.key.rawValue, $0.value) }) }

  /// No episode has a measure beyond this.
  package static let greatest = 1e15

  private static func rounded(_ value: Double) -> Double {
    value == value.rounded() ? value : Double(String(format: "%.5e", value)) ?? value
  }
}

// MARK: Motion

extension Measures {
  /// Measures the times of an episode's rows, and the motion of its camera: the first stream by name that has poses.
  ///
  /// - Throws: what the source of the poses throws.
  package init(_ episode: Episode) throws {
    let times = episode.frames.timestamps
    self.init(times: times, rate: episode.frames.cadence.rateHz)
    guard let (name, stream) = episode.firstStream(where: { $0.spec.kind.poseFrame != nil }), stream.rows != nil else { return }
    var reader = RowReader(episode)
    let poses = try (0..<reader.count).map { try reader.pose(name, at: $0) }
    let isMetric = stream.spec.kind.poseFrame?.unit.isMetric == true
    measure(poses, at: times, isMetric: isMetric)
    self[.jumps] = Double(episode.frames.quality.count { $0.contains(.poseJump) })
  }

  package init(times: [Timestamp], rate: Double?) {
    self[.rows] = Double(times.count)
    if let first = times.first, let last = times.last { self[.seconds] = Double(last.since(first)) / 1e9 }
    self[.rate] = rate
  }

  /// The camera is still where it moves and turns more slowly than this, from a row to the first one that is `stillSeconds` later.
  private static let (stillSpeed, stillTurn, stillSeconds) = (0.02, 3.0, 0.2)

  /// Measures motion from rows to the next ones where both have a pose.
  package mutating func measure(_ poses: [Pose?], at times: [Timestamp], isMetric: Bool) {
    func motion(_ row: Int, _ later: Int) -> (meters: Double, degrees: Double, seconds: Double)? {
      guard let a = poses[row], let b = poses[later] else { return nil }
      let seconds = Double(times[later].since(times[row])) / 1e9
      let turn = FrameQuality.rotationVector(from: a.quaternion, to: b.quaternion)
      guard seconds > 0 else { return nil }
      return (
        ((b.position - a.position) * (b.position - a.position)).sum().squareRoot(), (turn * turn).sum().squareRoot() * 180 / .pi, seconds
      )
    }
    let steps = poses.indices.dropLast().compactMap { motion($0, $0 + 1) }
    guard !steps.isEmpty else { return }
    self[.greatTurn] = Statistics.quantile(0.99, of: steps.map { $0.degrees / $0.seconds })
    guard isMetric else { return }
    let path = steps.reduce(0) { $0 + $1.meters }
    self[.path] = path
    self[.meanSpeed] = path / steps.reduce(0) { $0 + $1.seconds }
    self[.greatSpeed] = Statistics.quantile(0.99, of: steps.map { $0.meters / $0.seconds })
    var (still, compared, later) = (0, 0, 0)
    for row in poses.indices {
      while later < poses.count, Double(times[later].since(times[row])) / 1e9 < Self.stillSeconds { later += 1 }
      guard later < poses.count else { break }
      guard let found = motion(row, later) else { continue }
      compared += 1
      if found.meters / found.seconds < Self.stillSpeed, found.degrees / found.seconds < Self.stillTurn { still += 1 }
    }
    if compared > 0 { self[.still] = Double(still) / Double(compared) }
  }
}
