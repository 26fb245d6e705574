package import Model

/// The agreement of an episode's depth maps with its poses and intrinsics, by a few pairs of rows.
package struct GeometryAgreement: Sendable {
  /// Pairs of rows that see enough in common.
  package private(set) var pairs = 0
  /// The median distance of points in meters, and their 90th percentile: each the median over all pairs.
  package private(set) var distance = 0.0
  package private(set) var p90 = 0.0
  /// The mistake that explains the maps best, with its distance, if that is far less.
  package private(set) var mistake: (words: String, distance: Double)?

  /// The time between the two rows of a pair in nanoseconds, and the most rows.
  private static let apart: Int64 = 500_000_000
  private static let mostRows = 15
  /// Error beyond which maps and poses do not agree; phones are off by 25 mm at most.
  package static let limit = 0.03
  /// Below this a mistake explains nothing: maps in whole millimeters are not more exact.
  package static let least = 0.005
  /// The same of one who asks: a mistake is seen only where the camera moves slowly.
  package static let leastMistake = 0.001
  /// Factor by which a mistake has to explain the maps better.
  private static let factor = 3.0

  /// - Parameters:
  ///   - timestamps: Of the rows, of which there are two or more.
  ///   - wanted: Number of pairs, 2 or more, evenly over the rows.
  ///   - least: The distance in meters from which mistakes are tried.
  ///   - view: The map of a row; `nil` where it has none.
  package init(
    _ timestamps: [Timestamp], pairs wanted: Int, mistakesFrom least: Double = Self.least, _ view: (Int) throws -> DepthAgreement.View?
  ) rethrows {
    let count = timestamps.count
    // The last row within the time, or the next one.
    func partner(_ row: Int) -> Int {
      var other = row + 1
      while other + 1 < count, other - row < Self.mostRows, timestamps[other + 1].since(timestamps[row]) <= Self.apart { other += 1 }
      return other
    }
    let starts = Set((0..<wanted).map { $0 * max(count - 2, 0) / (wanted - 1) }).sorted()
    let views = try starts.compactMap { start -> (DepthAgreement.View, DepthAgreement.View)? in
      guard count > 1, let one = try view(start), let other = try view(partner(start)) else { return nil }
      return (one, other)
    }
    func distances(_ mistake: DepthAgreement.Mistake) -> [(median: Double, p90: Double)] {
      views.compactMap { DepthAgreement.distance(from: $0, to: $1, mistake) }
    }
    func medians(_ mistake: DepthAgreement.Mistake) -> [Double] { distances(mistake).map(\.median).sorted() }
    let own = distances(.none)
    guard !own.isEmpty else { return }
    (pairs, distance, p90) = (own.count, own.map(\.median).sorted()[own.count / 2], own.map(\.p90).sorted()[own.count / 2])
    guard distance > least else { return }
    // A mistake counts only if it explains as many pairs.
    let others = DepthAgreement.Mistake.allCases.filter { $0 != .none }.map { ($0.rawValue, medians($0)) }
      .filter { $1.count >= own.count }.map { (words: $0, distance: $1[$1.count / 2]) }
    mistake = others.filter { $0.distance * Self.factor < distance }.min { ($0.distance, $0.words) < ($1.distance, $1.words) }
  }
}

// MARK: While converting

extension GeometryAgreement {
  /// Pairs that are looked at first, and how many where these do not agree.
  private static let few = 2, more = 8
  /// Error beyond which a finding needs no explanation. A gripper in view, or a person who moves, causes less.
  private static let certain = 0.1

  /// The finding that depth, poses and intrinsics of an episode contradict each other; `nil` where they do not, where nothing can be said, and for
  /// depth that cannot be read in any order.
  package static func finding(_ episode: Episode) -> Finding? {
    guard let agreement = GeometryAgreement(episode, pairs: few), agreement.isContradictory,
      let sure = GeometryAgreement(episode, pairs: more), sure.isContradictory
    else { return nil }
    func millimeters(_ meters: Double) -> String { "\(Int(min(meters * 1000, 1e9).rounded())) mm" }
    let better = sure.mistake.map { ", and by \(millimeters($0.distance)) if \($0.words)" } ?? ""
    return Finding(
      .geometryContradictory,
      "points of depth are off by \(millimeters(sure.distance)) from one row to another\(better); axes, orientation, intrinsics or a unit are wrong"
    )
  }

  private var isContradictory: Bool { pairs > 0 && (mistake != nil || distance > Self.certain) }

  private init?(_ episode: Episode, pairs: Int) {
    guard episode.frames.count > 1,
      let depth = episode.streams.sorted(by: { $0.key < $1.key }).first(where: { $0.value.spec.kind == .depth })?.value,
      let poses = episode.streams[.pose], let frame = poses.spec.kind.poseFrame, frame.body == nil, frame.unit.isMetric,
      let toAxes = frame.cameraAxes.arkitFromThese.map({ Pose(position: .zero, quaternion: $0).inverse }),
      let camera = depth.spec.raster?.camera, episode.cameras[camera]?.pose == .pose,
      episode.intrinsicsTrack(of: depth) != nil, case .random = depth.source.access, let rows = depth.rows
    else { return nil }
    var reader = RowReader(episode)
    var bytes: [UInt8] = []
    do {
      var cursor = try depth.source.makeCursor(SampleRequest(form: .decoded))
      try self.init(episode.frames.timestamps, pairs: pairs) { row in
        guard let sample = rows[row]?.nearest, let pose = try reader.pose(.pose, at: row),
          let intrinsics = episode.intrinsics(of: depth, at: rows[row])
        else { return nil }
        try cursor.read(sample, into: &bytes)
        guard bytes.count == depth.spec.sampleBytes else { return nil }
        return DepthAgreement.View(
          pose: pose.normalized.composed(with: toAxes), intrinsics: intrinsics, size: depth.spec.gridSize, meters: depth.spec.meters(bytes))
      }
    } catch {
      // What cannot be read has a finding of its own.
      return nil
    }
  }
}
