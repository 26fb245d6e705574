package import Model
import Steps

/// A minimal episode with frames at `times`, depth at every other frame, joints between frames, and an IMU on another clock.
package struct SyntheticEpisode {
  package var episode: Episode
  /// Sources of images and depth.
  package let rasters: [CountingSource]

  package init(times: [Int64] = [0, 16_666_667, 33_333_333, 50_000_000, 66_666_667, 83_333_333]) {
    let stamps = times.map { Timestamp(nanoseconds: $0) }
    let numbers = times.indices.map { Int64($0) }
    func stream(_ spec: StreamSpec, _ stamps: [Timestamp], rows: [Row?]?, sample: (Int) -> [UInt8]) -> SampleStream {
      let source = CountingSource(stamps.indices.map(sample))
      return SampleStream(
        spec: spec, source: source, timestamps: stamps, sourceIndex: stamps.indices.map { Int64($0) }, rows: rows)
    }
    func vector(_ kind: StreamKind, _ width: Int, _ clock: Clock = .deviceUptime) -> StreamSpec {
      StreamSpec(kind: kind, type: .float32, shape: [width], unit: kind == .angles ? "degree" : "m", clock: clock)
    }
    func raster(_ kind: StreamKind, _ size: ImageSize, _ channels: Int) -> StreamSpec {
      StreamSpec(
        raster: Raster(size: size, covering: ImageSize(width: 8, height: 6)), kind: kind, type: kind == .image ? .uint8 : .float32,
        channels: channels, unit: kind == .depth ? "m" : "sRGB 0..255", clock: .deviceUptime)
    }
    let even = stride(from: 0, to: times.count, by: 2).map { stamps[$0] }
    let between = stamps.map { $0.advanced(by: 3_000_000) }
    // On a separate clock, an hour ahead, so that `align` has an offset to determine.
    let inertial = (0..<(4 * times.count)).map { Timestamp(nanoseconds: 3_600_000_000_000 + Int64($0) * 4_000_000) }
    let streams: [StreamName: SampleStream] = [
      .pose: stream(vector(.pose(.arkit), 7), stamps, rows: stamps.indices.rows) { floats([Float($0), 0, 0, 0, 0, 0, 1]) },
      .image: stream(raster(.image, ImageSize(width: 8, height: 6), 3), stamps, rows: stamps.indices.rows) {
        [UInt8](repeating: UInt8($0), count: 6 * 8 * 3)
      },
      .depth: stream(raster(.depth, ImageSize(width: 4, height: 3), 1), even, rows: nil) {
        floats([Float](repeating: Float($0) + 1, count: 12))
      },
      .joints: stream(vector(.angles, 4), between, rows: nil) { floats([Float](repeating: Float($0), count: 4)) },
      .imu: stream(vector(.inertial, 6, .phoneUnix), inertial, rows: nil) { floats([0, 0, 0, Float($0), 0, 0]) },
    ]
    episode = Episode(
      id: "synthetic", sourceFrames: times.count,
      frames: Episode.Frames(timestamps: stamps, sourceIndex: numbers, clock: .deviceUptime), streams: streams)
    episode.cameras[.phone] = Camera(
      size: ImageSize(width: 8, height: 6), intrinsicsTrack: IntrinsicsTrack(Intrinsics(fx: 8, fy: 8, cx: 4, cy: 3)), pose: .pose)
    rasters = [StreamName.image, .depth].compactMap { streams[$0]?.source as? CountingSource }
  }

  /// Number of images and depth maps read.
  package var readCount: Int { rasters.reduce(0) { $0 + $1.readCount } }
}

/// Bytes of the numbers as little-endian Float32.
package func floats(_ numbers: [Float]) -> [UInt8] { numbers.withUnsafeBytes { Array($0) } }

extension Transform {
  /// Applies the step as in a run without keys.
  package func apply(to episode: Episode) throws -> Episode { try apply(to: episode, in: RunContext()) }
}
