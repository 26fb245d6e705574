package import Takeset

/// The smallest episode that has a stream of every kind: frames at `times`, depth at every other one, joints between them.
package struct SyntheticEpisode {
  package var episode: Episode
  package var sources: [CountingSource] = []

  package init(times: [Int64] = [0, 16_666_667, 33_333_333, 50_000_000, 66_666_667, 83_333_333]) {
    let stamps = times.map { Timestamp(nanoseconds: $0) }
    let numbers = times.indices.map { Int64($0) }
    var sources: [CountingSource] = []
    func stream(
      _ kind: StreamSpec.Kind, _ shape: [Int], _ stamps: [Timestamp], rows: [Int?]?, sample: (Int) -> [UInt8]
    ) -> Takeset.Stream {
      let source = CountingSource(stamps.indices.map(sample))
      sources.append(source)
      return Stream(
        spec: StreamSpec(
          kind: kind, type: kind == .image ? .uint8 : .float32, shape: shape, unit: "m", clock: .deviceUptime,
          intrinsics: kind == .image ? Camera(Intrinsics(fx: 8, fy: 8, cx: 4, cy: 3)) : nil),
        source: source, timestamps: stamps, sourceIndex: stamps.indices.map { Int64($0) }, rows: rows)
    }
    let identity = times.indices.map { Int?($0) }
    let even = stride(from: 0, to: times.count, by: 2).map { stamps[$0] }
    let between = stamps.map { $0.advanced(by: 3_000_000) }
    let streams = [
      "pose": stream(.pose(.arkit), [7], stamps, rows: identity) { floats([Float($0), 0, 0, 0, 0, 0, 1]) },
      "camera_image": stream(.image, [6, 8, 3], stamps, rows: identity) { [UInt8](repeating: UInt8($0), count: 6 * 8 * 3) },
      "camera_depth": stream(.depth, [3, 4, 1], even, rows: nil) { floats([Float](repeating: Float($0) + 1, count: 12)) },
      "joints": stream(.numbers, [4], between, rows: nil) { floats([Float](repeating: Float($0), count: 4)) },
    ]
    episode = Episode(
      id: "synthetic", sourceFrames: times.count,
      frames: Episode.Frames(timestamps: stamps, sourceIndex: numbers, clock: .deviceUptime), streams: streams)
    self.sources = sources
  }

  package var readCount: Int { sources.reduce(0) { $0 + $1.readCount } }
}

/// Little-endian Float32.
package func floats(_ numbers: [Float]) -> [UInt8] { numbers.withUnsafeBytes { Array($0) } }
