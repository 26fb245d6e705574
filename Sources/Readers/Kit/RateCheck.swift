import Foundation
package import Model

/// A check of the frames' rate, whichever reader made the times: times in another unit than the format's are off by a factor of 1,000.
package enum RateCheck {
  /// Rates that cameras record at, in frames per second.
  private static let rates = 1.0...1000.0
  /// A picture in a hundred seconds: of apps that keep key frames only.
  private static let leastOfKeyframes = 0.01

  /// Returns a finding where the rate is none that cameras have; none for frames without times.
  package static func findings(_ episode: Episode) -> [Finding] {
    guard episode.frames.clock != .frameNumber, episode.frames.count > 2, let rate = episode.frames.cadence.rateHz else { return [] }
    let least = episode.findings.contains { $0.code == .keyframesOnly } ? leastOfKeyframes : rates.lowerBound
    guard rate < least || rate > rates.upperBound else { return [] }
    let words = String(format: "%ld frames are %.3g a second; expected %g to %g", episode.frames.count, rate, least, rates.upperBound)
    return [Finding(.rateImplausible, "the times of \(words), so they may be in another unit")]
  }
}
