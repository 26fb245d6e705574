package import Evidence
package import Model
import Steps

/// The contents of an episode, without its samples.
package struct EpisodeSummary: Sendable {
  /// A stream, as its reader gave it.
  package struct StreamSummary: Sendable {
    package var name: StreamName
    package var samples: Int
    package var shape: [Int]
    package var type: ScalarType
    package var unit: String
    package var clock: Clock
    package var rateHz: Double?
    /// Fraction of the rows that have a value, once all steps have been applied.
    package var coverage: Double?
    package var intrinsics: Intrinsics?
    package var size: ImageSize?
    /// Whether intrinsics differ from frame to frame.
    package var hasVaryingIntrinsics = false

    package var numpyName: String { type.numpyName }
  }

  package var frames: Int
  package var sourceFrames: Int
  /// Seconds from the first frame to the last.
  package var seconds: Double?
  package var rateHz: Double?
  package var gaps: Int
  package var dropped: [Episode.Dropped]
  package var details: [String: JSONValue]
  package var streams: [StreamSummary]
  /// The unit of its poses, if it has any.
  package var poseUnit: String?

  /// - Parameter final: The same episode after all steps.
  package init(_ episode: Episode, final: Episode) {
    let stamps = episode.frames.timestamps
    frames = episode.frames.count
    sourceFrames = episode.sourceFrames
    seconds = stamps.first.flatMap { first in stamps.last.map { Double($0.since(first)) / 1e9 } }
    rateHz = episode.frames.cadence.rateHz
    gaps = episode.frames.gaps.count
    dropped = episode.dropped
    details = episode.details
    poseUnit = episode.streams.values.compactMap { $0.spec.kind.poseFrame?.unit.rawValue }.first
    streams = episode.streams.sorted { $0.key < $1.key }.map { name, stream in
      let rows = final.streams[name]?.rows
      let camera = episode.camera(of: stream)
      return StreamSummary(
        name: name, samples: stream.timestamps.count, shape: stream.spec.shape, type: stream.spec.type, unit: stream.spec.unit,
        clock: stream.spec.clock, rateHz: stream.cadence.rateHz,
        coverage: rows.flatMap { $0.isEmpty ? nil : Double($0.count { $0 != nil }) / Double($0.count) },
        intrinsics: stream.spec.kind == .confidence ? nil : stream.spec.raster.flatMap { camera?.usualIntrinsics($0) },
        size: stream.spec.raster?.size, hasVaryingIntrinsics: camera?.intrinsicsTrack?.isMoving ?? false)
    }
  }
}
