package import Model
package import Steps

/// Numbers the segments between gaps, so that windows need not cross one, and drops those that are too short to be useful. The numbers are
/// in `meta/segment`, from 0.
///
///     - split-at-gaps: {longer-than: 0.1, min-frames: 18}
package struct SplitAtGaps: Transform {
  package static let name = "split-at-gaps"
  package static let summary = "Numbers the segments between gaps; short ones are dropped"

  /// The segments that stay.
  package enum Keep: String, OptionChoice { case all, longest }

  @StepOption("a step longer than this is a gap; 0: every step in meta/gaps (seconds)", 0...86_400) var longerThan = 0.0
  @StepOption("a segment of fewer frames is dropped", 1...1_000_000) var minFrames = 1
  @StepOption("all: every segment that is long enough; longest: only the longest, the first of several") var keep = Keep.all

  package init() {}

  /// Numbers the segments and drops the frames of short ones; the frame rate stays that of the take.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    let count = episode.frames.count
    guard count > 0 else { return episode }
    let ends = episode.frames.gaps.filter { Double($0.step) / 1e9 > longerThan }.map { $0.row + 1 } + [count]
    var segments = zip([0] + ends, ends).map { $0..<$1 }.filter { $0.count >= minFrames }
    if keep == .longest, let longest = segments.max(by: { $0.count < $1.count }) {
      segments = [segments.first { $0.count == longest.count } ?? longest]
    }
    var split = episode.keeping(segments.flatMap { Array($0) }, dropping: "short-stretch", continues: true)
    split.frames.segment = segments.enumerated().flatMap { number, segment in segment.map { _ in Int64(number) } }
    // Dropping segments opens new gaps but does not change the rate.
    split.frames.nominalRate =
      episode.frames.nominalRate ?? (split.frames.count < episode.frames.count ? episode.frames.cadence.rateHz : nil)
    return split
  }
}
