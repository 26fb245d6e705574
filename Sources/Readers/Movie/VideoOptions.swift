import Media
import Steps

/// Options of readers that decode video.
package struct VideoOptions: StepOptionGroup {
  /// The treatment of HDR: its colors become those of SDR, or the take fails.
  package enum HDR: String, OptionChoice { case map, refuse }

  @StepOption("map: colors of an HDR video (HLG, PQ, Dolby Vision with either) become those of SDR; refuse: such a video fails the take")
  var hdr = HDR.map
  @StepOption("copy a location in the take's metadata to the output") var keepLocation = false
  @StepOption("a video with more frames fails the take", 1...1_000_000) var maxSamples = 20_000
  @StepOption("a longer video fails the take (seconds)", above: 0, through: 86_400) var maxSeconds = 600.0
  @StepOption("a video with wider or higher frames fails the take (pixels)", 1...16_384) var maxSide = 8192
  @StepOption("a video whose frames as RGB total more than 4 GiB and more than this many times the file fails the take", 1...10_000_000)
  var maxVideoRatio = 10_000.0
  @StepOption("decoding that takes longer fails the take (seconds)", above: 0, through: 86_400) var maxDecodeSeconds = 3600.0

  package init() {}

  var limits: MovieLimits {
    var limits = MovieLimits()
    (limits.samples, limits.seconds, limits.side, limits.ratio) = (maxSamples, maxSeconds, maxSide, maxVideoRatio)
    limits.refusesHDR = hdr == .refuse
    return limits
  }
}

/// Whether images are rotated by a video's display matrix.
package enum VideoRotation: String, OptionChoice {
  /// Images are stored upright, except where the matrix is suspect.
  case auto
  case apply
  /// Images are stored as coded.
  case keep
}
