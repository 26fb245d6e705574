package import Model

/// Numbers the stretches without a gap, so that windows need not cross one, and leaves out those that are too short to be of use. The numbers
/// are in `meta/segment`, from 0.
///
///     - split-at-gaps: {longer-than: 0.1, min-frames: 18}
package struct SplitAtGaps: Transform {
  package static let name = "split-at-gaps"
  package static let summary = "Numbers the stretches between gaps; short ones are left out"
  package static let help = [
    "longer-than": "seconds; a step longer than this is a gap; 0: every step in meta/gaps",
    "min-frames": "a stretch of fewer frames is left out",
    "keep": "all: every stretch that is long enough; longest: only the longest, of several the first",
  ]

  package enum Keep: String, Codable, Sendable { case all, longest }

  var longerThan = 0.0
  var minFrames = 1
  var keep = Keep.all

  package init() {}

  package func validate() throws {
    if !(0...86_400).contains(longerThan) { throw OptionError("longer-than", "expected 0 to 86400 seconds") }
    if !(1...1_000_000).contains(minFrames) { throw OptionError("min-frames", "expected 1 to 1000000") }
  }

  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    let count = episode.frames.count
    guard count > 0 else { return episode }
    let ends = episode.frames.gaps.filter { Double($0.step) / 1e9 > longerThan }.map { $0.row + 1 } + [count]
    var stretches = zip([0] + ends, ends).map { $0..<$1 }.filter { $0.count >= minFrames }
    if keep == .longest, let longest = stretches.max(by: { $0.count < $1.count }) {
      stretches = [stretches.first { $0.count == longest.count } ?? longest]
    }
    var split = episode.keeping(stretches.flatMap { Array($0) }, dropping: "short-stretch")
    split.frames.segment = stretches.enumerated().flatMap { number, stretch in stretch.map { _ in Int64(number) } }
    // Leaving stretches out opens new gaps but no new rate.
    split.frames.nominalRate = episode.frames.nominalRate
    return split
  }
}
