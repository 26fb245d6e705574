import Datasets
import Foundation
import Model
import Steps

/// Trajectories as text, `timestamp tx ty tz qx qy qz qw` per row: the format of the TUM RGB-D benchmark.
///
/// Camera-to-world, OpenCV's camera axes, in the unit of the poses; `timestamp` is in seconds.
/// Source: the benchmark's page "File Formats" (Sturm et al. 2012), and what evo reads.
struct TUMExporter: Exporter {
  static let name = "tum"
  static let summary = "trajectories as text, a line of time, position and quaternion per row"

  func export(_ episodes: [ExportedEpisode], of dataset: Dataset, to directory: ExportDirectory) throws {
    let trajectories = try Trajectories(episodes, for: Self.name, losingTo: directory)
    try directory.inParallel(episodes.count) {
    } _: { _, index in
      let episode = episodes[index]
      try directory.writing("\(episode.id).txt") { write in
        for (row, pose) in try trajectories.poses(episode).enumerated() {
          guard let pose else { continue }
          var line = episode.seconds(row)
          for number in pose.numbers { line += " " + Trajectories.text(number) }
          try Array((line + "\n").utf8).withUnsafeBytes(write)
        }
      }
    }
  }
}

/// Trajectories as text, the twelve numbers of a 3x4 matrix per row: the format of the KITTI odometry benchmark.
///
/// Row-major, camera-to-world relative to the first pose, OpenCV's camera axes. Source: the benchmark's development kit (Geiger et al. 2012).
struct KITTIExporter: Exporter {
  static let name = "kitti"
  static let summary = "trajectories as text, a 3x4 matrix relative to row 0 per row"

  func export(_ episodes: [ExportedEpisode], of dataset: Dataset, to directory: ExportDirectory) throws {
    let trajectories = try Trajectories(episodes, for: Self.name, losingTo: directory)
    directory.lose("The format has no times: a line is a row of the episode that has a pose.")
    try directory.inParallel(episodes.count) {
    } _: { _, index in
      let episode = episodes[index]
      let poses = try trajectories.poses(episode).compactMap(\.self)
      guard let origin = poses.first?.inverse else { return }
      try directory.writing("\(episode.id).txt") { write in
        for pose in poses {
          let relative = origin.composed(with: pose)
          let (x, y, z) = relative.axes
          let rows = (0..<3).map { "\([x[$0], y[$0], z[$0], relative.position[$0]].map(Trajectories.text).joined(separator: " "))" }
          try Array((rows.joined(separator: " ") + "\n").utf8).withUnsafeBytes(write)
        }
      }
    }
  }
}

/// The camera poses of a dataset, which both formats need.
private struct Trajectories {
  /// Throws `ExportRefusal` for episodes without poses; notes rows without one and units other than meters.
  init(_ episodes: [ExportedEpisode], for format: String, losingTo directory: ExportDirectory) throws {
    let without = episodes.filter { $0.poseFrame == nil }.map(\.id)
    guard without.isEmpty else {
      throw ExportRefusal("\(format) needs poses, and these episodes have none: \(without.abridged); leave them out with --episodes")
    }
    for episode in episodes {
      let missing = try poses(episode).count { $0 == nil }
      guard missing < episode.rows else { throw ExportRefusal("\(format) needs poses, and no row of \(episode.id) has one") }
      if missing > 0 { directory.lose("\(episode.id): \(missing) of \(episode.rows) rows have no pose and no line.") }
      directory.loseUnit(of: episode)
    }
  }

  func poses(_ episode: ExportedEpisode) throws -> [Pose?] { try episode.cameraPoses(.opencv) ?? [] }

  /// The shortest text that gives the same double.
  static func text(_ number: Double) -> String { number == number.rounded() && abs(number) < 1e15 ? String(Int64(number)) : "\(number)" }
}

extension Pose {
  /// x, y, z, qx, qy, qz, qw.
  fileprivate var numbers: [Double] {
    [position.x, position.y, position.z, quaternion.x, quaternion.y, quaternion.z, quaternion.w]
  }
}
