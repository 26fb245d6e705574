import CFFmpeg
package import Model

/// A QuickTime or MP4 movie with one H.264 or HEVC video track: what its index and its first picture say, and when each
/// sample is shown. FFmpeg's libraries read it; `MovieDecoder` gives the pictures.
package struct Movie: Sendable {
  /// One picture of the track.
  package struct Sample: Equatable, Sendable {
    /// When it is shown and decoded, in units of the time base, edit list applied.
    package var presentation: Int64
    var decoding: Int64
    /// Decoding can start here.
    var isSync: Bool
  }

  /// How pixels are coded, by FFmpeg's names: `bt709`, `smpte432`, `tv`, …; `nil` where the file does not say.
  package struct Colour: Equatable, Sendable {
    package var matrix: String?
    package var primaries: String?
    package var transfer: String?
    package var range: String?
    package var pixelFormat: String
    package var bits: Int
  }

  let input: FileSlice
  /// `h264` or `hevc`.
  package let codec: String
  /// Size of the pictures as they come out of the decoder.
  package let size: ImageSize
  /// Ticks of the time base last `timeBase.numerator / timeBase.denominator` seconds.
  package let timeBase: (numerator: Int64, denominator: Int64)
  /// In presentation order.
  package let samples: [Sample]
  /// The first samples of stretches that can be decoded by themselves, ascending from 0; each is long enough that starting a decoder for it
  /// costs little. They depend on the file alone.
  package let runs: [Int]
  /// Samples that the edit list leaves out.
  package let hiddenSamples: Int
  package let hasEditList: Bool
  /// The edit list plays at another speed than the media's own, which `samples` keep.
  package let isRetimed: Bool
  /// What the display matrix asks for: degrees to turn clockwise, 0 to 359.
  package let rotation: Double
  package let isMirrored: Bool
  package let colour: Colour
  package let tags: [(key: String, value: String)]

  /// Reads index and sample headers, and decodes the first picture. Throws `MovieError`.
  package init(_ input: FileSlice, limits: MovieLimits = MovieLimits()) throws {
    self.input = input
    let boxes = try MovieBoxes(input, limits: limits)
    try Self.checkTracks(boxes.tracks)
    let demuxer = try Demuxer(input)
    let parameters = demuxer.stream.pointee.codecpar.pointee
    guard parameters.codec_type == AVMEDIA_TYPE_VIDEO else { throw MovieError(.noVideo, "no track holds video") }
    guard parameters.codec_id == AV_CODEC_ID_H264 || parameters.codec_id == AV_CODEC_ID_HEVC else {
      let format = boxes.tracks.first { $0.handler == "vide" }?.format ?? ""
      throw MovieError(.codecUnsupported, "the video is coded as \(Self.name(parameters.codec_id)) (\(format)); expected H.264 or HEVC")
    }
    codec = Self.name(parameters.codec_id)
    guard parameters.width <= limits.side, parameters.height <= limits.side else {
      let limit = "\(limits.side)x\(limits.side)"
      throw MovieError(.limit, "the pictures are \(parameters.width)x\(parameters.height), over the limit of \(limit)")
    }
    let base = demuxer.stream.pointee.time_base
    guard base.num > 0, base.den > 0 else { throw MovieError(.movieCorrupt, "the track has no time scale") }
    timeBase = (Int64(base.num), Int64(base.den))

    if !boxes.isFragmented { try Self.checkPlaces(demuxer.places, input) }
    let (samples, discarded) = try Self.scan(demuxer, limits)
    self.samples = samples
    runs = Self.runs(samples)
    // Samples beyond the edit list are not even handed out.
    let indexed = (boxes.tracks.first { $0.handler == "vide" }?.sampleCount ?? 0) + boxes.fragmentSamples
    if boxes.isFragmented, boxes.tracks.count == 1, samples.count + discarded < indexed {
      throw MovieError(
        .movieTruncated, "\(samples.count) of \(indexed) samples that the fragments name are in the file; the rest has been cut off")
    }
    hiddenSamples = max(discarded, boxes.tracks.count == 1 || !boxes.isFragmented ? indexed - samples.count : 0)
    if let first = samples.first, let last = samples.last {
      let (span, overflow) = last.presentation.subtractingReportingOverflow(first.presentation)
      let seconds = Double(span) * Double(base.num) / Double(base.den)
      guard !overflow, seconds <= limits.seconds else {
        throw MovieError(
          .limit, "the movie is \((min(seconds, 1e12) * 1000).rounded() / 1000) s long, over the limit of \(Int(limits.seconds)) s")
      }
    }
    let origin = Self.nanoseconds(samples.first?.presentation ?? 0, timeBase)
    guard abs(Double(origin)) < 0x1p60 else {
      throw MovieError(.limit, "the movie starts \(origin / 1_000_000_000) s into its own timeline, which is beyond all reason")
    }
    hasEditList = boxes.hasEditList
    isRetimed = boxes.isRetimed
    tags = demuxer.tags
    let display = demuxer.display
    let degrees = (display?.degrees ?? 0).truncatingRemainder(dividingBy: 360)
    // The matrix is of fixed-point numbers; a quarter turn comes out as 90 within rounding.
    let turned = degrees.isFinite ? (degrees < 0 ? degrees + 360 : degrees) : 0
    let quarters = (turned / 90).rounded()
    rotation = abs(turned - quarters * 90) < 0.5 ? (quarters * 90).truncatingRemainder(dividingBy: 360) : turned
    isMirrored = display?.isMirrored ?? false

    let decoder = try MovieDecoder(Demuxer(input), samples: samples, side: limits.side)
    let picture = try decoder.next()
    (size, colour) = (picture.size, picture.colour)
    guard size.width <= limits.side, size.height <= limits.side else {
      throw MovieError(.limit, "the pictures are \(size), over the limit of \(limits.side)x\(limits.side)")
    }
    try colour.check()
  }

  private static func checkTracks(_ tracks: [MovieBoxes.Track]) throws {
    let videos = tracks.filter { $0.handler == "vide" }
    guard let video = videos.first else {
      let found = tracks.map { "\"\($0.handler)\"" }.joined(separator: ", ")
      throw MovieError(.noVideo, "no track holds video; the movie has \(tracks.isEmpty ? "no tracks" : "tracks of kind \(found)")")
    }
    guard videos.count == 1 else {
      throw MovieError(.videoAmbiguous, "the movie has \(videos.count) video tracks; expected one")
    }
    if video.format == "encv" || video.format == "drmi" {
      throw MovieError(.movieEncrypted, "the video is encrypted (\(video.format))")
    }
  }

  /// A recording that was cut off names samples beyond its end.
  private static func checkPlaces(_ places: [(offset: Int64, count: Int64)], _ input: FileSlice) throws {
    let whole = places.count { $0.offset >= 0 && $0.count >= 0 && $0.offset <= input.count - $0.count }
    if whole < places.count {
      throw MovieError(
        .movieTruncated, "\(whole) of \(places.count) samples lie within the file's \(input.count) bytes; the rest has been cut off")
    }
  }

  private static func scan(_ demuxer: Demuxer, _ limits: MovieLimits) throws -> ([Sample], hidden: Int) {
    var samples: [Sample] = []
    var hidden = 0
    var isMore = true
    while isMore {
      isMore = try demuxer.next { packet in
        if packet.pointee.flags & AV_PKT_FLAG_DISCARD != 0 {
          hidden += 1
        } else {
          let time = packet.pointee.pts
          guard time != cffmpeg_no_time() else { throw MovieError(.movieCorrupt, "sample \(samples.count) has no time") }
          samples.append(
            Sample(presentation: time, decoding: packet.pointee.dts, isSync: packet.pointee.flags & AV_PKT_FLAG_KEY != 0))
        }
        guard samples.count + hidden <= limits.samples else {
          throw MovieError(.limit, "the movie has more than \(limits.samples) samples")
        }
      }
    }
    guard !samples.isEmpty else { throw MovieError(.noVideo, "the video track has no samples") }
    samples.sort { $0.presentation < $1.presentation }
    for (index, pair) in zip(samples, samples.dropFirst()).enumerated() where pair.0.presentation == pair.1.presentation {
      throw MovieError(.movieCorrupt, "samples \(index) and \(index + 1) have one and the same time")
    }
    return (samples, hidden)
  }

  /// A stretch starts at a sync sample where the order of decoding is cut as that of showing is: what is decoded before is shown before.
  private static func runs(_ samples: [Sample]) -> [Int] {
    let shortest = 24
    var earliestAfter = samples.map(\.decoding)
    for index in earliestAfter.indices.dropLast().reversed() { earliestAfter[index] = min(earliestAfter[index], earliestAfter[index + 1]) }
    var runs = [0]
    var latestBefore = Int64.min
    for (index, sample) in samples.enumerated() {
      if sample.isSync, index - runs[runs.count - 1] >= shortest, latestBefore < sample.decoding, earliestAfter[index] == sample.decoding {
        runs.append(index)
      }
      latestBefore = max(latestBefore, sample.decoding)
    }
    return runs
  }

  static func name(_ codec: AVCodecID) -> String { String(cString: avcodec_get_name(codec)) }

  /// FFmpeg's release, as in "5.1.6-0+deb12u1"; asks its smallest library.
  package static var library: String { String(cString: av_version_info()) }

  /// Nanoseconds from the first sample to each, rounded to the nearest from the exact value, ties away from zero.
  package var nanoseconds: [Int64] {
    let first = samples[0].presentation
    return samples.map { Self.nanoseconds($0.presentation - first, timeBase) }
  }

  /// When the first sample is shown.
  package var originNanoseconds: Int64 { Self.nanoseconds(samples[0].presentation, timeBase) }

  /// Of one tick of the time base, at least 1.
  package var tickNanoseconds: Int64 { max(1, Self.nanoseconds(1, timeBase)) }

  static func nanoseconds(_ ticks: Int64, _ base: (numerator: Int64, denominator: Int64)) -> Int64 {
    // Within the limit on length the product needs more than 64 bits, the quotient does not.
    let negative = ticks < 0
    let (high, low) = ticks.magnitude.multipliedFullWidth(by: UInt64(base.numerator) * 1_000_000_000)
    let divisor = UInt64(base.denominator)
    guard high < divisor else { return negative ? .min : .max }
    let (quotient, remainder) = divisor.dividingFullWidth((high, low))
    let (rounded, overflow) = quotient.addingReportingOverflow(remainder >= divisor - remainder ? 1 : 0)
    guard !overflow, let value = Int64(exactly: rounded) else { return negative ? .min : .max }
    return negative ? -value : value
  }
}

extension Movie.Colour {
  /// Pictures are stored as 8-bit sRGB. What needs tone mapping to become that is refused rather than washed out.
  fileprivate func check() throws {
    let refused = [
      "smpte2084": "PQ (HDR)", "arib-std-b67": "HLG (HDR)", "linear": "linear light", "log100": "logarithmic", "log316": "logarithmic",
    ]
    if let transfer, let what = refused[transfer] {
      throw MovieError(.colorUnsupported, "the pictures are \(what), transfer \(transfer); converting these to 8-bit sRGB is not supported")
    }
    if let matrix, ["ycgco", "bt2020c", "ictcp", "chroma-derived-nc", "chroma-derived-c", "smpte2085"].contains(matrix) {
      throw MovieError(.colorUnsupported, "the pictures use the colour matrix \(matrix), which is not supported")
    }
  }
}
