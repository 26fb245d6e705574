import CFFmpeg
package import Model

/// A QuickTime or MP4 video with one H.264 or HEVC video track: the properties in its index and first frame, and the
/// presentation times of its samples. FFmpeg's libraries read it; `MovieDecoder` decodes the frames.
package struct Movie: Sendable {
  /// One compressed frame of the track.
  package struct Sample: Equatable, Sendable {
    /// Presentation and decoding time, in ticks of the time base, edit list applied.
    package var presentation: Int64
    var decoding: Int64
    /// Whether decoding can start here.
    var isSync: Bool
    /// The parameter sets that it carries and the track's description lacks, as `ParameterSets` numbers them.
    var parameterSets: UInt64 = 0
  }

  /// The color coding of the pixels, by FFmpeg's names: `bt709`, `smpte432`, `tv`, …; `nil` where the file does not declare it.
  package struct Color: Equatable, Sendable {
    package var matrix: String?
    package var primaries: String?
    package var transfer: String?
    package var range: String?
    package var pixelFormat: String
    package var bits: Int
  }

  /// A track of sound, which is not read.
  package struct Sound: Equatable, Sendable {
    /// FFmpeg's name, such as `aac`.
    package var codec: String
    /// Samples a second, by the file's index.
    package var rate: Int
    package var channels: Int
  }

  /// The file, without what follows its last box; `nil` for access units.
  private let input: FileSlice?
  private let units: AccessUnits?
  /// The number of the track; `nil` where the file gives it none.
  private let track: Int?
  /// `h264` or `hevc`.
  package let codec: String
  /// Size of the decoded frames.
  package let size: ImageSize
  /// The length of a tick: `timeBase.numerator / timeBase.denominator` seconds.
  package let timeBase: (numerator: Int64, denominator: Int64)
  /// All samples that are shown, in presentation order; with `includesHidden` also those that are not.
  package let samples: [Sample]
  /// The first samples of closed-GOP ranges, which can be decoded independently, ascending from 0. Each range is long enough that starting
  /// a decoder for it costs little. The ranges depend only on the file; where a decoder that starts in the middle may lack parameter sets, the
  /// track is one range.
  package let runs: [Int]
  /// Number of samples that the edit list hides, whether or not they are among `samples`.
  package let hiddenSamples: Int
  /// Whether `samples` are all that are coded, at the media's own times, as if there were no edit list.
  package let includesHidden: Bool
  package let hasEditList: Bool
  /// Whether the edit list changes the playback speed; `samples` keep the media's own.
  package let isRetimed: Bool
  /// Clockwise rotation of the display matrix in degrees, 0 to 359.
  package let rotation: Double
  package let isMirrored: Bool
  /// Width of a pixel to its height; `nil` for square ones.
  package let pixelAspect: (width: Int, height: Int)?
  package let color: Color
  package let tags: [(key: String, value: String)]
  package let sounds: [Sound]

  /// Reads the index and the sample headers, and decodes the first frame.
  ///
  /// - Throws: `MovieError`.
  package init(_ input: FileSlice, limits: MovieLimits = MovieLimits(), includesHidden: Bool = false) throws {
    self.includesHidden = includesHidden
    let boxes = try MovieBoxes(input, limits: limits)
    let video = try Self.video(of: boxes.tracks)
    let file = input
    let input = file[0..<boxes.end]
    (self.input, track, units) = (input, video.id, nil)
    let demuxer = try Demuxer(input, track: video.id, ignoringEdits: includesHidden)
    let parameters = demuxer.stream.pointee.codecpar.pointee
    guard parameters.codec_type == AVMEDIA_TYPE_VIDEO else { throw MovieError(.noVideo, "no track holds video") }
    guard parameters.codec_id == AV_CODEC_ID_H264 || parameters.codec_id == AV_CODEC_ID_HEVC else {
      throw MovieError(
        .codecUnsupported, "the video is coded as \(Self.name(parameters.codec_id)) (\(video.format)); expected H.264 or HEVC")
    }
    codec = Self.name(parameters.codec_id)
    guard parameters.width <= limits.side, parameters.height <= limits.side else {
      let limit = "\(limits.side)x\(limits.side)"
      throw MovieError(.limit, "the frames are \(parameters.width)x\(parameters.height), over the limit of \(limit)")
    }
    let base = demuxer.stream.pointee.time_base
    guard base.num > 0, base.den > 0 else { throw MovieError(.movieCorrupt, "the track has no time scale") }
    timeBase = (Int64(base.num), Int64(base.den))

    if !boxes.isFragmented { try Self.checkPlaces(demuxer.places, input, of: file) }
    let (samples, discarded, sets) = try Self.scan(demuxer, limits)
    self.samples = samples
    runs = sets.areUnknown ? [0] : Self.runs(samples.map { $0.isSync && $0.parameterSets == sets.missed }, samples)
    // FFmpeg does not return samples beyond the edit list at all.
    let indexed = video.sampleCount + boxes.fragmentSamples
    if boxes.isFragmented, boxes.tracks.count == 1, samples.count + discarded < indexed {
      throw MovieError(
        .movieTruncated, "\(samples.count) of \(indexed) samples that the fragments list are in the file; the rest is cut off")
    }
    hiddenSamples = try max(
      includesHidden ? Demuxer(input, track: video.id).hiddenEntries : discarded,
      boxes.tracks.count == 1 || !boxes.isFragmented ? indexed - samples.count : 0)
    if let first = samples.first, let last = samples.last {
      let (span, overflow) = last.presentation.subtractingReportingOverflow(first.presentation)
      let seconds = Double(span) * Double(base.num) / Double(base.den)
      guard !overflow, seconds <= limits.seconds else {
        throw MovieError(
          .limit, "the video is \((min(seconds, 1e12) * 1000).rounded() / 1000) s long, over the limit of \(Int(limits.seconds)) s")
      }
    }
    let origin = Self.nanoseconds(samples.first?.presentation ?? 0, timeBase)
    guard abs(Double(origin)) < 0x1p60 else {
      throw MovieError(.limit, "the video starts \(origin / 1_000_000_000) s into its own timeline, which is implausible")
    }
    hasEditList = boxes.hasEditList
    isRetimed = boxes.isRetimed
    (tags, sounds) = (demuxer.tags, demuxer.sounds)
    let display = demuxer.display
    let degrees = (display?.degrees ?? 0).truncatingRemainder(dividingBy: 360)
    // The matrix holds fixed-point numbers; a rotation by 90 degrees reads as 90 within rounding.
    let rotated = degrees.isFinite ? (degrees < 0 ? degrees + 360 : degrees) : 0
    let quarters = (rotated / 90).rounded()
    rotation = abs(rotated - quarters * 90) < 0.5 ? (quarters * 90).truncatingRemainder(dividingBy: 360) : rotated
    isMirrored = display?.isMirrored ?? false

    let decoder = try MovieDecoder(
      Demuxer(input, track: video.id, ignoringEdits: includesHidden), samples: samples, side: limits.side)
    let frame = try decoder.next()
    (size, color) = (frame.size, frame.color)
    pixelAspect = demuxer.pixelAspect ?? frame.pixelAspect
    guard size.width <= limits.side, size.height <= limits.side else {
      throw MovieError(.limit, "the frames are \(size), over the limit of \(limits.side)x\(limits.side)")
    }
    try limits.check(samples: samples.count, of: size, bytes: input.count)
    if demuxer.dolbyVisionCompatibility == 0 {
      throw MovieError(
        .colorUnsupported, "the frames are Dolby Vision without a layer that is HDR or SDR by itself (profile 5); expected profile 8")
    }
    try color.check(refusesHDR: limits.refusesHDR)
  }

  /// The track of the images. Throws where there is none, or several, or where it is encrypted.
  private static func video(of tracks: [MovieBoxes.Track]) throws -> MovieBoxes.Track {
    let videos = tracks.filter(\.isVideo)
    guard let video = videos.first else {
      let found = tracks.map { "\"\($0.handler)\"" }.joined(separator: ", ")
      throw MovieError(.noVideo, "no track holds video; the file has \(tracks.isEmpty ? "no tracks" : "tracks of kind \(found)")")
    }
    guard videos.count == 1 else {
      throw MovieError(.videoAmbiguous, "the file has \(videos.count) video tracks; expected one")
    }
    if video.format == "encv" || video.format == "drmi" {
      throw MovieError(.movieEncrypted, "the video is encrypted (\(video.format))")
    }
    return video
  }

  /// A video without a file of its own, whose first frame is decoded.
  init(
    _ units: AccessUnits, _ samples: [Sample], size: ImageSize, color: Color, pixelAspect: (width: Int, height: Int)?
  ) throws {
    (input, track, self.units) = (nil, nil, units)
    (codec, self.size, self.samples, self.color, self.pixelAspect) = (Self.name(units.codec), size, samples, color, pixelAspect)
    (timeBase, runs, hiddenSamples, includesHidden) = (Self.unitTimeBase, [0], 0, false)
    (hasEditList, isRetimed, rotation, isMirrored, tags, sounds) = (false, false, 0, false, [], [])
  }

  /// Reads the file's index anew.
  func demuxer() throws -> Demuxer {
    if let units { return try Demuxer(units) }
    guard let input else { throw Demuxer.outOfMemory }
    return try Demuxer(input, track: track, ignoringEdits: includesHidden)
  }

  /// Throws where the index lists samples beyond the end of the file, as in a recording that was cut off.
  ///
  /// - Parameter file: All of the file.
  private static func checkPlaces(_ places: [(offset: Int64, count: Int64)], _ input: FileSlice, of file: FileSlice) throws {
    let complete = places.count { $0.offset >= 0 && $0.count >= 0 && $0.offset <= input.count - $0.count }
    if complete < places.count {
      guard input.count == file.count else { throw MovieBoxes.noBox(at: input.count) }
      throw MovieError(
        .movieTruncated, "\(complete) of \(places.count) samples lie within the file's \(input.count) bytes; the rest is cut off")
    }
  }

  private static func scan(_ demuxer: Demuxer, _ limits: MovieLimits) throws -> ([Sample], hidden: Int, ParameterSets) {
    var samples: [Sample] = []
    var sets = demuxer.parameterSets
    var hidden = 0
    var isMore = true
    while isMore {
      isMore = try demuxer.next { packet in
        let hasNewDescription = (0..<Int(packet.pointee.side_data_elems)).contains {
          packet.pointee.side_data[$0].type == AV_PKT_DATA_NEW_EXTRADATA
        }
        if hasNewDescription { sets.areUnknown = true }
        let carried = sets.look(UnsafeBufferPointer(start: packet.pointee.data, count: Int(max(0, packet.pointee.size))))
        if packet.pointee.flags & AV_PKT_FLAG_DISCARD != 0 {
          hidden += 1
        } else {
          let time = packet.pointee.pts
          guard time != cffmpeg_no_time() else { throw MovieError(.movieCorrupt, "sample \(samples.count) has no time") }
          samples.append(
            Sample(
              presentation: time, decoding: packet.pointee.dts, isSync: packet.pointee.flags & AV_PKT_FLAG_KEY != 0,
              parameterSets: carried))
        }
        guard samples.count + hidden <= limits.samples else {
          throw MovieError(.limit, "the file has more than \(limits.samples) samples")
        }
      }
    }
    guard !samples.isEmpty else { throw MovieError(.noVideo, "the video track has no samples") }
    samples.sort { $0.presentation < $1.presentation }
    for (index, pair) in zip(samples, samples.dropFirst()).enumerated() where pair.0.presentation == pair.1.presentation {
      throw MovieError(.movieCorrupt, "samples \(index) and \(index + 1) have the same time")
    }
    return (samples, hidden, sets)
  }

  /// First samples of closed-GOP ranges: samples at which a decoder can start, where all samples decoded before are also presented before.
  private static func runs(_ isStart: [Bool], _ samples: [Sample]) -> [Int] {
    let shortest = 24
    var earliestAfter = samples.map(\.decoding)
    for index in earliestAfter.indices.dropLast().reversed() { earliestAfter[index] = min(earliestAfter[index], earliestAfter[index + 1]) }
    var runs = [0]
    var latestBefore = Int64.min
    for (index, sample) in samples.enumerated() {
      if isStart[index], index - runs[runs.count - 1] >= shortest, latestBefore < sample.decoding, earliestAfter[index] == sample.decoding {
        runs.append(index)
      }
      latestBefore = max(latestBefore, sample.decoding)
    }
    return runs
  }

  /// The packet of a sample: its number in decoding order, among all that FFmpeg returns, and its bytes in the input. `nil` where the file
  /// does not say. Throws `MovieError`.
  package func packet(ofSample sample: Int) throws -> (number: Int, bytes: Range<Int64>)? {
    guard samples.indices.contains(sample), units == nil else { return nil }
    let demuxer = try self.demuxer()
    var found: (number: Int, bytes: Range<Int64>)?
    var number = 0
    var isMore = true
    while isMore, found == nil {
      isMore = try demuxer.next { packet in
        let packet = packet.pointee
        if packet.pts == samples[sample].presentation, packet.flags & AV_PKT_FLAG_DISCARD == 0, packet.pos >= 0, packet.size >= 0 {
          found = (number, packet.pos..<(packet.pos + Int64(packet.size)))
        }
        number += 1
      }
    }
    return found
  }

  /// Width of a pixel to its height; `nil` for pixels that are square within a hundredth, and for an unknown ratio.
  static func aspect(_ ratio: AVRational) -> (width: Int, height: Int)? {
    guard ratio.num > 0, ratio.den > 0, abs(Double(ratio.num) / Double(ratio.den) - 1) > 0.01 else { return nil }
    return (Int(ratio.num), Int(ratio.den))
  }

  static func name(_ codec: AVCodecID) -> String { String(cString: avcodec_get_name(codec)) }

  /// FFmpeg's release, as in "5.1.6-0+deb12u1", or "none" where its smallest library cannot be loaded.
  package static var library: String { cffmpeg_version().map { String(cString: $0) } ?? "none" }

  /// Nanoseconds from the first sample to each sample: the exact value rounded to nearest, ties away from zero.
  package var nanoseconds: [Int64] {
    let first = samples[0].presentation
    return samples.map { Self.nanoseconds($0.presentation - first, timeBase) }
  }

  /// Presentation time of the first sample.
  package var originNanoseconds: Int64 { Self.nanoseconds(samples[0].presentation, timeBase) }

  /// Length of one tick of the time base in nanoseconds, at least 1.
  package var tickNanoseconds: Int64 { max(1, Self.nanoseconds(1, timeBase)) }

  static func nanoseconds(_ ticks: Int64, _ base: (numerator: Int64, denominator: Int64)) -> Int64 {
    // Within the limit on duration the product needs more than 64 bits, but the quotient does not.
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

extension Movie.Color {
  /// The transfer and primaries of a frame of HDR whose colors can be mapped to SDR.
  var hdr: (transfer: ToneMap.Transfer, primaries: ToneMap.Primaries)? {
    guard let transfer = transfer.flatMap(ToneMap.Transfer.init), Self.mappedFormats.contains(pixelFormat) else { return nil }
    return ToneMap.Primaries(rawValue: primaries ?? ToneMap.Primaries.bt2020.rawValue).map { (transfer, $0) }
  }
  private static let mappedFormats = ["yuv420p", "yuvj420p", "yuv420p10le", "yuv420p12le"]

  /// The mapping of HDR colors to SDR, for the record; `nil` for a movie of SDR.
  package var mapping: (words: String, peak: Double, white: Double)? {
    hdr.map { ("\($0.transfer == .hlg ? "HLG" : "PQ") of \($0.primaries.rawValue) to SDR of bt709", ToneMap.peak, ToneMap.white) }
  }

  /// Throws for a color coding that cannot be stored as 8-bit SDR.
  func check(refusesHDR: Bool) throws {
    let refused = ["linear": "linear light", "log100": "logarithmic", "log316": "logarithmic"]
    if let transfer, let what = refused[transfer] {
      throw MovieError(.colorUnsupported, "the frames are \(what), transfer \(transfer); converting these to 8-bit SDR is not supported")
    }
    if let transfer, ToneMap.Transfer(rawValue: transfer) != nil {
      let what = "the frames are HDR, transfer \(transfer), primaries \(primaries ?? "not declared"), format \(pixelFormat)"
      guard !refusesHDR else { throw MovieError(.colorUnsupported, what + "; hdr: refuse says to refuse them") }
      guard hdr != nil else {
        throw MovieError(.colorUnsupported, what + "; 4:2:0 with primaries bt2020, smpte432 or bt709 can be mapped to SDR")
      }
    }
    if let matrix, ["ycgco", "bt2020c", "ictcp", "chroma-derived-nc", "chroma-derived-c", "smpte2085"].contains(matrix) {
      throw MovieError(.colorUnsupported, "the frames use the color matrix \(matrix), which is not supported")
    }
  }
}
