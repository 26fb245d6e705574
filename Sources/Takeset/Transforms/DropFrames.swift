package import Model

/// Drops frames that have a problem, by the names in `meta/quality`.
///
///     - drop-frames: {with: [pose-jump, pose-repeated]}
///
/// Must come after `align` to drop frames by depth or joints. Images are decoded later, so `image-undecodable` is unavailable; such rows
/// are masked.
package struct DropFrames: Transform {
  package static let name = "drop-frames"
  package static let summary = "Drops frames by their quality bits"

  /// The bits that are known before images are decoded.
  package enum Reason: String, OptionChoice {
    case poseRepeated = "pose-repeated"
    case poseJump = "pose-jump"
    case poseInterpolated = "pose-interpolated"
    case depthMissing = "depth-missing"
    case jointsMissing = "joints-missing"
  }

  @Option("drop frames with any of these quality bits") var with: [Reason] = []

  package init() {}

  package func validate() throws {
    if with.isEmpty { throw OptionError("with", "name at least one reason; without any nothing is dropped") }
  }

  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    var kept = episode
    for reason in with {
      guard let bit = FrameQuality(named: reason.rawValue) else { continue }
      let quality = kept.quality()
      kept = kept.keeping(quality.indices.filter { !quality[$0].contains(bit) }, dropping: reason.rawValue)
    }
    return kept
  }
}
