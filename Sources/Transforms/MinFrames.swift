package import Model
package import Steps

/// Rejects takes that are too short.
///
///     - min-frames: {count: 18}
package struct MinFrames: Transform {
  package static let name = "min-frames"
  package static let summary = "Rejects takes with too few frames"

  @StepOption("a take with fewer frames is rejected", 1...) var count: Int? = nil

  package init() {}

  /// Throws `OptionError` without a count.
  package func validate() throws {
    if count == nil { throw OptionError("count", "give the least number of frames; without it no take is rejected") }
  }

  /// Returns the episode unchanged, or throws a `Rejection` that has the episode for the record.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    let found = episode.frames.count
    if let count, found < count {
      throw Rejection(.minFrames, "\(found) \(found == 1 ? "frame" : "frames"); at least \(count) are needed", episode: episode)
    }
    return episode
  }
}
