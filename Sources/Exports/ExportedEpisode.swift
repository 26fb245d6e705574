package import Datasets
import Evidence
import Foundation
package import Model
import Steps

/// An episode as exporters read it: poses in the axes of a format, times in seconds, and what a row has.
package struct ExportedEpisode: Sendable {
  /// The clock of the times in an export.
  package enum TimeBase: Equatable, Sendable, CustomStringConvertible {
    /// Unix time, whose start is known to this many nanoseconds.
    case unix(resolution: Int64)
    case clock(Clock)

    package var description: String {
      switch self {
      case .unix: "unix"
      case .clock(let clock): "clock:\(clock.rawValue)"
      }
    }
  }

  package let id: String
  package let episode: Episode
  package let timeBase: TimeBase
  package var labels = Labels()
  /// Nanoseconds that are added to the frames' times.
  private let offset: Int64

  package init(_ id: String, open episode: Episode) {
    (self.id, self.episode) = (id, episode)
    if let unix = episode.unixOrigin, let first = episode.frames.timestamps.first {
      timeBase = .unix(resolution: unix.resolution)
      offset = Timestamp(nanoseconds: unix.nanoseconds).since(first)
    } else {
      (timeBase, offset) = (.clock(episode.frames.clock), 0)
    }
  }

  /// The attribute in which robomimic and robocasa look for the language of an episode; `nil` without a task.
  var metaAttribute: String? { labels.task.map { JSONValue.object(["lang": .string($0)]).canonicalText } }

  /// Number of rows.
  package var rows: Int { episode.frames.count }

  /// Time of a row in nanoseconds: Unix time where known, else on the clock of the frames.
  package func nanoseconds(_ row: Int) -> Int64 { episode.frames.timestamps[row].advanced(by: offset).nanoseconds }

  /// Time of a row in seconds, with nine digits after the point.
  package func seconds(_ row: Int) -> String { Self.seconds(nanoseconds(row)) }

  /// Nanoseconds as seconds with nine digits after the point.
  package static func seconds(_ nanoseconds: Int64) -> String {
    let padded = nanoseconds.magnitude.padded(to: 10)
    return (nanoseconds < 0 ? "-" : "") + padded.dropLast(9) + "." + padded.suffix(9)
  }

  /// The streams of a kind, by name.
  package func streams(_ isWanted: (StreamKind) -> Bool) -> [(name: StreamName, stream: SampleStream)] {
    episode.streams.filter { isWanted($0.value.spec.kind) && $0.value.rows != nil }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }

  package var images: [(name: StreamName, stream: SampleStream)] { streams { $0 == .image } }
  package var depths: [(name: StreamName, stream: SampleStream)] { streams { $0 == .depth } }

  /// The confidence of a depth stream's values: the one on the same grid.
  package func confidence(of depth: SampleStream) -> StreamName? {
    let grid = (depth.spec.gridSize, depth.spec.raster)
    return streams { $0 == .confidence }.first { ($0.stream.spec.gridSize, $0.stream.spec.raster) == grid }?.name
  }

  /// The frame of the poses; `nil` without poses.
  package var poseFrame: PoseFrame? { episode.streams[.pose]?.spec.kind.poseFrame }

  /// The poses of what acts: of a take of several phones those whose motion is the action, in its order, or else all but the head's.
  package var hands: [(pose: StreamName, member: String?)] {
    let poses = streams { $0.poseFrame != nil }
    guard poses.contains(where: { $0.stream.spec.member != nil }) else { return poseFrame == nil ? [] : [(.pose, nil)] }
    let parts = episode.derived[.actions]?.spec.parts.map(\.name) ?? []
    let acting = poses.compactMap { pose -> (order: Int, pose: StreamName, member: String)? in
      guard let member = pose.stream.spec.member else { return nil }
      let order = parts.firstIndex { $0.hasPrefix(member + "_") }
      return order != nil || parts.isEmpty && pose.stream.spec.isOfActingMember ? (order ?? 0, pose.name, member) : nil
    }
    return acting.sorted { ($0.order, $0.pose) < ($1.order, $1.pose) }.map { ($0.pose, $0.member) }
  }

  /// Camera-to-world poses of the rows in these camera axes, `nil` where a row has none; `nil` for an episode without poses.
  ///
  /// Throws `ExportRefusal` for poses that are not a camera's.
  package func cameraPoses(_ axes: PoseFrame.CameraAxes, of name: StreamName = .pose) throws -> [Pose?]? {
    guard let frame = episode.streams[name]?.spec.kind.poseFrame else { return nil }
    guard let own = frame.cameraAxes.arkitFromThese, let wanted = axes.arkitFromThese else {
      throw ExportRefusal("\(id): the poses have axes that are not a camera's (\(frame.cameraAxes.rawValue))")
    }
    // Quaternions from ARKit's axes to others are the conjugates.
    let back = SIMD4(-own.x, -own.y, -own.z, own.w)
    var change = Pose(position: .zero, quaternion: back).composed(with: Pose(position: .zero, quaternion: wanted))
    if let body = frame.body { change = body.inverse.composed(with: change) }
    var reader = RowReader(episode)
    return try (0..<rows).map { try reader.pose(name, at: $0)?.composed(with: change) }
  }

  /// Intrinsics in pixels of a row of a stream, with the origin at the outer corner of the top-left pixel; `nil` where unknown.
  ///
  /// They are those at the time of the row's sample, which the dataset has with the row. At the time of the row itself, another sample may
  /// be the nearest.
  package func intrinsics(_ stream: SampleStream, _ row: Int) -> Intrinsics? {
    // They are stored as 32-bit floats, and were computed to the size of the full image and back.
    func stored(_ number: Double) -> Double { Double(Float(number)) }
    return episode.intrinsics(of: stream, at: stream.rows?[row] ?? nil).map {
      Intrinsics(fx: stored($0.fx), fy: stored($0.fy), cx: stored($0.cx), cy: stored($0.cy))
    }
  }

  /// Whether intrinsics of a stream are known.
  package func hasIntrinsics(_ stream: SampleStream) -> Bool { episode.intrinsicsTrack(of: stream) != nil }
}
