import Foundation
import Model
import Rasters

/// The question whether depth, poses and intrinsics agree, which every program that makes points of depth assumes. It stands for no
/// program.
extension Loader {
  static let geometryRules: [DoctorRule] =
    DoctorRule.sound + [
      DoctorRule(
        .posesMissing, .breaks, "depth of one row cannot be compared with that of another",
        Remedy("leave these takes out, or compute poses")
      ) { $0.withoutPoses() },
      DoctorRule(
        .depthMissing, .breaks, "there is nothing to compare", Remedy("convert with depth, or leave these takes out")
      ) { $0.withoutDepth() },
      DoctorRule(
        .geometryUnknown, .trainsBadly, "whether depth and poses agree is not known",
        Remedy(
          "record takes with intrinsics, with depth in meters and the camera's own poses, in which the camera sees the same things again")
      ) { $0.withUnknownGeometry() },
      DoctorRule(
        .geometryContradictory, .breaks, "points of depth are not where the poses say, so axes, orientation or intrinsics are wrong",
        Remedy("tell the people of the app or of Takeset, with a take; do not train on points, or on poses with images, of these takes")
      ) { $0.withContradictoryGeometry() },
    ]
}

extension Examined {
  func withoutDepth() -> [Problem] { problem({ !$0.observations.values.contains(where: \.isDepth) }) { "\($0) no depth maps" } }

  func withUnknownGeometry() -> [Problem] {
    problem({ episode in
      episode.poses != nil && episode.observations.values.contains(where: \.isDepth) && episode.geometry.map { $0.pairs == 0 } ?? true
    }) { "\($0) too little in common between rows, or no intrinsics, meters or poses of the camera" }
  }

  /// Episodes whose maps do not agree, or for which a mistake explains them far better, by what would explain them.
  func withContradictoryGeometry() -> [Problem] {
    let bad = readable.filter { $0.geometry.map { $0.pairs > 0 && ($0.mistake != nil || $0.distance > GeometryAgreement.limit) } ?? false }
    let groups = Dictionary(grouping: bad) { $0.geometry?.mistake?.words ?? "" }
    return groups.sorted { $0.key < $1.key }.map { words, episodes in
      func millimeters(_ meters: Double) -> String { "\(short(meters * 1000)) mm" }
      let worst = episodes.compactMap(\.geometry).max { $0.distance < $1.distance }
      let distance = "depth of \(self.words(episodes.map(\.id))) is off by \(millimeters(worst?.distance ?? 0)) from one row to another"
      let better = worst?.mistake.map { ", and by \(millimeters($0.distance)) if \($0.words)" } ?? ""
      return Problem(sentence: distance + better, episodes: episodes.map(\.id))
    }
  }
}
