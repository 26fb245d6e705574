package import Model

/// Leaves out frames with something wrong, by the names of `meta/quality`.
///
///     - drop-frames: {with: [pose-jump, pose-repeated]}
///
/// Goes after `align` where it asks for depth or joints. Pictures are decoded later, so `image-undecodable` cannot be asked for; such rows are
/// masked.
package struct DropFrames: Transform {
  package static let name = "drop-frames"
  package static let summary = "Leaves out frames by their quality bits"
  package static let help = ["with": "what a frame is left out for: " + askable.joined(separator: ", ")]

  private static let askable = FrameQuality.names.filter { $0 != "image-undecodable" }

  var with: [String] = []

  package init() {}

  package func validate() throws {
    for name in with where !Self.askable.contains(name) {
      throw OptionError("with", "expected any of \(Self.askable.joined(separator: ", ")), found \"\(name)\"")
    }
  }

  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    var kept = episode
    for name in with {
      guard let bit = FrameQuality(named: name) else { continue }
      let quality = kept.quality()
      kept = kept.keeping(quality.indices.filter { !quality[$0].contains(bit) }, dropping: name)
    }
    return kept
  }
}
