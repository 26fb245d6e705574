package import Model
import Simulate

extension Pose {
  /// Poses of any rotation within three meters, as a file of 32-bit floats holds them: unit quaternions to 1e-7, of both signs.
  package static func random(_ count: Int, seed: UInt64) -> [Pose] {
    var generator = SplitMix(seed: seed)
    return (0..<count).map { _ in
      var q = SIMD4<Double>.random(in: -1...1, using: &generator)
      while (q * q).sum() < 0.01 { q = .random(in: -1...1, using: &generator) }
      let exact = Pose(position: .random(in: -3...3, using: &generator), quaternion: q / (q * q).sum().squareRoot())
      return Pose(floats: exact.floats)
    }
  }
}

extension Episode {
  /// An episode of poses alone, one every 100 ms; rows without a pose are missing.
  package static func posed(_ poses: [Pose?], frame: PoseFrame = .arkit) -> Episode {
    let stamps = poses.indices.map { Timestamp(nanoseconds: Int64($0) * 100_000_000) }
    let numbers = poses.indices.map { Int64($0) }
    let stream = SampleStream(
      spec: StreamSpec(kind: .pose(frame), type: .float32, shape: [7], unit: frame.unit.rawValue, clock: .deviceUptime),
      source: VectorSource(poses.map { $0 ?? Pose(position: [99, 99, 99], quaternion: [0, 0, 0, 1]) }), timestamps: stamps,
      sourceIndex: numbers, rows: poses.enumerated().map { row, pose in pose.map { _ in Row(row) } })
    return Episode(
      id: "posed", sourceFrames: poses.count, frames: Frames(timestamps: stamps, sourceIndex: numbers, clock: .deviceUptime),
      streams: [.pose: stream])
  }

  /// The pose of each row as it would be stored.
  package func poses(of name: StreamName = .pose) throws -> [Pose?] {
    var rows = RowReader(self)
    return try (0..<rows.count).map { try rows.pose(name, at: $0) }
  }
}
