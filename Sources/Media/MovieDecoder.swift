import CFFmpeg
package import Model

/// A decoded video frame in the codec's pixel format.
///
/// `@unchecked Sendable`: it is never written to.
package final class MovieFrame: @unchecked Sendable {
  let frame: UnsafeMutablePointer<AVFrame>

  /// Takes ownership of the contents of `source`.
  fileprivate init(moving source: UnsafeMutablePointer<AVFrame>) throws {
    guard let frame = av_frame_alloc() else { throw Demuxer.outOfMemory }
    self.frame = frame
    av_frame_move_ref(frame, source)
  }

  deinit {
    var frame: UnsafeMutablePointer<AVFrame>? = frame
    av_frame_free(&frame)
  }

  /// Width of a pixel to its height by the codec's headers; `nil` for square ones, and where they do not say.
  var pixelAspect: (width: Int, height: Int)? { Movie.aspect(frame.pointee.sample_aspect_ratio) }

  package var size: ImageSize { ImageSize(width: Int(frame.pointee.width), height: Int(frame.pointee.height)) }

  var format: AVPixelFormat { AVPixelFormat(frame.pointee.format) }

  var color: Movie.Color {
    func name(_ text: UnsafePointer<CChar>?) -> String? {
      text.map { String(cString: $0) }.flatMap { ["unknown", "unspecified", "reserved"].contains($0) ? nil : $0 }
    }
    let descriptor = av_pix_fmt_desc_get(format)
    return Movie.Color(
      matrix: name(av_color_space_name(frame.pointee.colorspace)), primaries: name(av_color_primaries_name(frame.pointee.color_primaries)),
      transfer: name(av_color_transfer_name(frame.pointee.color_trc)), range: name(av_color_range_name(frame.pointee.color_range)),
      pixelFormat: name(av_get_pix_fmt_name(format)) ?? "none", bits: Int(descriptor?.pointee.comp.0.depth ?? 8))
  }
}

/// A decoder of a video's frames in presentation order. Damage that the decoder notices is an error: its concealment is never returned.
/// Damage that still decodes cannot be detected; decoding uses one thread and cleared buffers, so that the result is the same every
/// time.
///
///     let movie = try Movie(slice)
///     let decoder = try MovieDecoder(movie)
///     while decoder.position < movie.samples.count { show(try decoder.next()) }
package final class MovieDecoder {
  /// The video, from which a decoder reads that restarts; `nil` for one of the first frame only.
  private let movie: Movie?
  private var demuxer: Demuxer
  private let samples: [Movie.Sample]
  private let side: Int
  private var context: UnsafeMutablePointer<AVCodecContext>?
  private let frame: UnsafeMutablePointer<AVFrame>
  private var isDrained = false
  private var hasFed = false
  /// The errors that the decoder has logged.
  private let log: UnsafeMutablePointer<cffmpeg_log>
  /// The error that ended decoding; frames decoded before it are still returned.
  private var damage: String?
  /// The time of decoding of the sample at which decoding starts. What the demuxer returns before it is not decoded, so that the damage that
  /// is found does not depend on how much of a file's index it has read.
  private var start: Int64?
  /// Index of the next sample.
  package private(set) var position = 0

  package convenience init(_ movie: Movie) throws {
    // A frame of another size is an error that names both sizes; one that claims to be far larger is not decoded at all. Codecs round up
    // to blocks of at most 64 pixels.
    let side = max(2 * max(movie.size.width, movie.size.height), 2048) + 64
    try self.init(movie.demuxer(), samples: movie.samples, movie: movie, side: side)
  }

  /// - Parameters:
  ///   - movie: The video whose size and colors all frames must have.
  ///   - side: Frames wider or higher than this are refused before anything is allocated for them.
  init(_ demuxer: Demuxer, samples: [Movie.Sample], movie: Movie? = nil, side: Int) throws {
    self.side = side
    self.movie = movie
    self.demuxer = demuxer
    self.samples = samples
    guard let frame = av_frame_alloc() else { throw Demuxer.outOfMemory }
    self.frame = frame
    log = .allocate(capacity: 1)
    log.initialize(to: cffmpeg_log(errors: 0, counts_gaps: demuxer.hasUnits ? 1 : 0))
    try openCodec()
  }

  private func openCodec() throws {
    let parameters = demuxer.stream.pointee.codecpar
    let codec = parameters?.pointee.codec_id ?? AV_CODEC_ID_NONE
    guard let decoder = avcodec_find_decoder(codec) else {
      throw MovieError(.codecUnsupported, "the linked FFmpeg cannot decode \(Movie.name(codec))")
    }
    avcodec_free_context(&context)
    context = avcodec_alloc_context3(decoder)
    guard let context else { throw Demuxer.outOfMemory }
    log.pointee.errors = 0
    damage = nil
    (isDrained, hasFed) = (false, false)
    avcodec_parameters_to_context(context, parameters)
    context.pointee.pkt_timebase = demuxer.stream.pointee.time_base
    context.pointee.thread_count = 1
    context.pointee.max_pixels = Int64(side) * Int64(side)
    context.pointee.err_recognition = AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER | AV_EF_EXPLODE
    cffmpeg_clear_buffers(context)
    context.pointee.opaque = UnsafeMutableRawPointer(log)
    let status = avcodec_open2(context, decoder, nil)
    guard status >= 0 else { throw MovieError(.movieCorrupt, "the decoder does not start: \(MovieError.words(status))") }
  }

  deinit {
    var frame: UnsafeMutablePointer<AVFrame>? = frame
    av_frame_free(&frame)
    avcodec_free_context(&context)
    log.deallocate()
  }

  /// Decodes the next frame, sample `position`.
  package func next() throws -> MovieFrame {
    guard samples.indices.contains(position) else { throw MovieError(.movieCorrupt, "there is no sample \(position)") }
    while true {
      let status = avcodec_receive_frame(context, frame)
      if status == cffmpeg_again() {
        try feed()
        continue
      }
      if status == cffmpeg_end() { throw failure(damage ?? "the decoder returned no more frames") }
      guard status >= 0 else { throw failure(MovieError.words(status)) }
      let time = frame.pointee.best_effort_timestamp
      // After a seek, frames before the requested one come first.
      if time < samples[position].presentation {
        av_frame_unref(frame)
        continue
      }
      guard time == samples[position].presentation else {
        if damage == nil, log.pointee.errors == 0, hasTimesOfDecoding { throw Self.timesOfDecoding }
        throw failure(damage ?? "the decoder skipped it")
      }
      if frame.pointee.decode_error_flags != 0 || frame.pointee.flags & AV_FRAME_FLAG_CORRUPT != 0 || log.pointee.errors > 0 {
        throw failure("its data is damaged")
      }
      declareColor()
      let decoded = try MovieFrame(moving: frame)
      try check(decoded)
      position += 1
      return decoded
    }
  }

  /// Takes the colors that the frame does not declare from the container.
  private func declareColor() {
    guard let container = demuxer.stream.pointee.codecpar else { return }
    if frame.pointee.color_trc == AVCOL_TRC_UNSPECIFIED { frame.pointee.color_trc = container.pointee.color_trc }
    if frame.pointee.color_primaries == AVCOL_PRI_UNSPECIFIED { frame.pointee.color_primaries = container.pointee.color_primaries }
    if frame.pointee.colorspace == AVCOL_SPC_UNSPECIFIED { frame.pointee.colorspace = container.pointee.color_space }
  }

  private func feed() throws {
    let isFirst = !hasFed
    hasFed = true
    if damage == nil, !isDrained {
      var isSkipped = true
      while isSkipped {
        isSkipped = false
        let isMore = try demuxer.next { packet in
          isSkipped = start.map { packet.pointee.dts < $0 && packet.pointee.dts != cffmpeg_no_time() } ?? false
          if isSkipped { return }
          if isFirst { try checkSize(packet) }
          let status = avcodec_send_packet(context, packet)
          if status < 0 { damage = MovieError.words(status) }
        }
        if isMore, !isSkipped, damage == nil { return }
      }
    }
    // The decoder now returns the frames that it held back for reordering.
    guard !isDrained else { throw failure(damage ?? "the video ends before it") }
    isDrained = true
    avcodec_send_packet(context, nil)
  }

  /// Checks the frame size in the codec's own headers, from which the index may differ.
  private func checkSize(_ packet: UnsafeMutablePointer<AVPacket>) throws {
    var (width, height): (Int32, Int32) = (0, 0)
    cffmpeg_coded_size(demuxer.stream.pointee.codecpar, packet, &width, &height)
    guard width <= side, height <= side else {
      throw MovieError(.limit, "the codec's headers declare frames of \(width)x\(height), over the limit of \(side)x\(side)")
    }
  }

  private func check(_ decoded: MovieFrame) throws {
    guard let movie else { return }
    guard decoded.size == movie.size else {
      throw MovieError(.imageSizeChanged, "frame \(position) is \(decoded.size), the first is \(movie.size)")
    }
    guard decoded.color == movie.color else {
      throw MovieError(.colorUnsupported, "from frame \(position) on, the pixel format or color coding differs")
    }
  }

  /// Whether the decoder changes the order of the frames, although each is to be shown at the time of its decoding.
  private var hasTimesOfDecoding: Bool {
    (context?.pointee.has_b_frames ?? 0) > 0 && samples.allSatisfy { $0.presentation == $0.decoding }
  }

  private static let timesOfDecoding = MovieError(
    .movieCorrupt,
    "the times are those of decoding: the frames are shown in another order than they are stored in, and the index gives them no times for that (ctts)"
  )

  private func failure(_ words: String) -> MovieError {
    MovieError(.movieCorrupt, "\(position) of \(samples.count) frames could be decoded; then there is damage: \(words)")
  }

  /// Decodes the remaining frames, so that damage there is found too.
  package func finish() throws { while position < samples.count { _ = try next() } }

  /// Restarts at the first sample of a run, as if nothing had been decoded before.
  package func start(atRun sample: Int) throws {
    if position == 0, sample == 0, !hasFed { return }
    start = nil
    if sample == 0, let movie {
      demuxer = try movie.demuxer()
    } else {
      try demuxer.seek(to: samples[sample].decoding)
      if sample > 0 { start = samples[sample].decoding }
    }
    try openCodec()
    position = sample
  }

  /// Makes `sample` the next one: decodes forward to it or, if it was already passed, from the first sample. Every frame on the way is
  /// decoded, so that the damage found does not depend on which frames are requested.
  package func go(to sample: Int) throws {
    guard samples.indices.contains(sample) else { return }
    if sample < position { try start(atRun: 0) }
    while position < sample { _ = try next() }
  }
}
