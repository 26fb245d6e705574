import CFFmpeg
package import Model

/// A writer of H.264 or HEVC videos, for simulated takes, into a file or in segments. The same frames and options give the same bytes. Serves one
/// thread.
///
///     let encoder = try MovieEncoder("take.mp4", MovieEncoder.Options(size: size))
///     for (number, pixels) in frames.enumerated() { try encoder.add(pixels, at: Int64(20 * number)) }     // 30 Hz
///     try encoder.finish()
package final class MovieEncoder {
  /// A part of a fragmented MP4 that begins with a key frame; the first has the initialization before it.
  package struct Segment: Sendable {
    package var bytes: [UInt8]
    /// Frames of the video up to its end.
    package var frames: Int
  }

  /// The form of the video and its file.
  package struct Options: Sendable {
    /// `h264` or `hevc`.
    package var codec = "h264"
    package var size: ImageSize
    /// Nominal frames per second for the encoder; each frame has its own time.
    package var rate = 30.0
    /// Ticks per second of the track.
    package var timescale = 600
    package var bitRate = 10_000_000
    /// Maximum number of B-frames in a row, which are decoded after a later frame; 0 for none.
    package var reordering = 0
    /// Clockwise rotation for display in degrees, written to the track's matrix.
    package var rotation = 0
    /// Tags of the file, such as `location` in ISO 6709.
    package var tags: [(key: String, value: String)] = []
    /// Time of making that the file declares, in RFC 3339.
    package var created: String?

    package init(size: ImageSize) { self.size = size }
  }

  private let options: Options
  /// Seconds after which a frame begins a new segment; `nil` for a video in one piece.
  private let segmentSeconds: Double?
  private var segmentStart: Int64?
  /// Whether the initialization is written.
  private var hasBegun = false
  private var segments: [Segment] = []
  /// Frames that have been encoded.
  private var frames = 0
  private var format: UnsafeMutablePointer<AVFormatContext>?
  private var codec: UnsafeMutablePointer<AVCodecContext>?
  private var frame: UnsafeMutablePointer<AVFrame>?
  private var packet: UnsafeMutablePointer<AVPacket>?
  /// The last packet of a segment, held back until the next one tells how long it lasts.
  private var held: UnsafeMutablePointer<AVPacket>?
  private var scaler: OpaquePointer?
  private let stream: UnsafeMutablePointer<AVStream>

  /// Creates the file; its extension selects MOV or MP4.
  ///
  /// - Throws: `MovieError`.
  package convenience init(_ path: String, _ options: Options) throws { try self.init(path, options, segmentSeconds: nil) }

  /// Encodes without a file: `takeSegments` has the video, piece by piece. Nothing waits in the encoder unless frames are reordered.
  ///
  /// - Throws: `MovieError`.
  package convenience init(segmentsOf seconds: Double, _ options: Options) throws {
    try self.init("segments.mp4", options, segmentSeconds: seconds)
  }

  private init(_ path: String, _ options: Options, segmentSeconds: Double?) throws {
    (self.options, self.segmentSeconds) = (options, segmentSeconds)
    try FFmpeg.prepare()
    var format: UnsafeMutablePointer<AVFormatContext>?
    try Self.check(avformat_alloc_output_context2(&format, nil, nil, path), "creating \(path)")
    guard let format, let stream = avformat_new_stream(format, nil) else { throw Demuxer.outOfMemory }
    self.format = format
    self.stream = stream
    let name = options.codec == "hevc" ? "libx265" : "libx264"
    guard let encoder = avcodec_find_encoder_by_name(name), let codec = avcodec_alloc_context3(encoder) else {
      throw MovieError(
        .codecUnsupported,
        "this build's FFmpeg has no \(name), which encodes simulated videos; install Takeset's Debian package, or build it from source, on a system where ffmpeg -encoders lists \(name)"
      )
    }
    self.codec = codec
    codec.pointee.width = Int32(options.size.width)
    codec.pointee.height = Int32(options.size.height)
    codec.pointee.pix_fmt = AV_PIX_FMT_YUV420P
    codec.pointee.time_base = AVRational(num: 1, den: Int32(options.timescale))
    codec.pointee.framerate = av_d2q(options.rate, 1_000_000)
    codec.pointee.bit_rate = Int64(options.bitRate)
    // In segments, the frames that begin them are the key frames.
    codec.pointee.gop_size = segmentSeconds == nil ? 30 : 1_000_000
    codec.pointee.max_b_frames = Int32(options.reordering)
    codec.pointee.colorspace = AVCOL_SPC_BT709
    codec.pointee.color_primaries = AVCOL_PRI_BT709
    codec.pointee.color_trc = AVCOL_TRC_BT709
    codec.pointee.color_range = AVCOL_RANGE_MPEG
    codec.pointee.thread_count = 1
    codec.pointee.flags |= AV_CODEC_FLAG_GLOBAL_HEADER | AV_CODEC_FLAG_BITEXACT
    var settings: OpaquePointer?
    defer { av_dict_free(&settings) }
    av_dict_set(&settings, "preset", "veryfast", 0)
    var parameters = "log-level=none:pools=none:frame-threads=1:info=0:bframes=\(options.reordering)"
    if segmentSeconds != nil {
      av_dict_set(&settings, "forced-idr", "1", 0)
      // Each frame in the encoder is one that a killed recorder loses.
      parameters += ":open-gop=0:scenecut=0:rc-lookahead=\(options.reordering == 0 ? 0 : options.reordering + 1)"
      if options.codec != "hevc" { av_dict_set(&settings, "rc-lookahead", "\(options.reordering)", 0) }
      if options.reordering == 0 { av_dict_set(&settings, "tune", "zerolatency", 0) }
      codec.pointee.flags |= Int32(bitPattern: AV_CODEC_FLAG_CLOSED_GOP)
    }
    if options.codec == "hevc" {
      av_dict_set(&settings, "x265-params", parameters, 0)
      codec.pointee.codec_tag = 0x3163_7668  // hvc1, as Apple writes
    }
    try Self.check(avcodec_open2(codec, encoder, &settings), "starting \(name)")
    try Self.check(avcodec_parameters_from_context(stream.pointee.codecpar, codec), "describing the track")
    stream.pointee.time_base = codec.pointee.time_base
    if options.rotation != 0, let matrix = av_stream_new_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, 36) {
      matrix.withMemoryRebound(to: Int32.self, capacity: 9) { av_display_rotation_set($0, Double(options.rotation)) }
    }
    for tag in options.tags { av_dict_set(&format.pointee.metadata, tag.key, tag.value, 0) }
    if let created = options.created { av_dict_set(&format.pointee.metadata, "creation_time", created, 0) }
    format.pointee.flags |= AVFMT_FLAG_BITEXACT
    if segmentSeconds == nil {
      try Self.check(avio_open(&format.pointee.pb, path, AVIO_FLAG_WRITE), "creating \(path)")
    } else {
      try Self.check(avio_open_dyn_buf(&format.pointee.pb), "allocating a segment")
    }
    var muxing: OpaquePointer?
    defer { av_dict_free(&muxing) }
    av_dict_set(&muxing, "video_track_timescale", "\(options.timescale)", 0)
    var flags = options.tags.isEmpty ? [] : ["use_metadata_tags"]
    // The initialization is written with the first segment, when the delay of reordering is known.
    if segmentSeconds != nil { flags += ["frag_custom", "empty_moov", "delay_moov", "default_base_moof"] }
    if !flags.isEmpty { av_dict_set(&muxing, "movflags", flags.joined(separator: "+"), 0) }
    try Self.check(avformat_write_header(format, &muxing), "writing the header")

    guard let frame = av_frame_alloc(), let packet = av_packet_alloc(), let held = av_packet_alloc() else { throw Demuxer.outOfMemory }
    (self.frame, self.packet, self.held) = (frame, packet, held)
    frame.pointee.format = AV_PIX_FMT_YUV420P.rawValue
    frame.pointee.width = codec.pointee.width
    frame.pointee.height = codec.pointee.height
    try Self.check(av_frame_get_buffer(frame, 0), "allocating a frame")
    scaler = sws_getContext(
      codec.pointee.width, codec.pointee.height, AV_PIX_FMT_RGB24, codec.pointee.width, codec.pointee.height, AV_PIX_FMT_YUV420P,
      SWS_AREA | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP, nil, nil, nil)
    let table = sws_getCoefficients(Int32(AVCOL_SPC_BT709.rawValue))
    sws_setColorspaceDetails(scaler, sws_getCoefficients(SWS_CS_DEFAULT), 1, table, 0, 0, 1 << 16, 1 << 16)
  }

  deinit {
    sws_freeContext(scaler)
    av_frame_free(&frame)
    av_packet_free(&packet)
    av_packet_free(&held)
    avcodec_free_context(&codec)
    if let format {
      if segmentSeconds == nil { avio_closep(&format.pointee.pb) } else { _ = closedBuffer() }
    }
    avformat_free_context(format)
  }

  private static func check(_ status: Int32, _ what: String) throws {
    if status < 0 { throw MovieError(.movieCorrupt, "\(what) failed: \(MovieError.words(status))") }
  }

  /// Adds a frame of RGB rows, presented at `time` in ticks of the timescale; times ascend. The file's edit list hides frames of negative
  /// times.
  package func add(_ pixels: [UInt8], at time: Int64) throws {
    guard let frame, pixels.count == options.size.width * options.size.height * 3 else {
      throw MovieError(.movieCorrupt, "\(pixels.count) bytes are not an RGB image of \(options.size)")
    }
    try Self.check(av_frame_make_writable(frame), "allocating a frame")
    pixels.withUnsafeBufferPointer { pixels in
      var planes: [UnsafePointer<UInt8>?] = [pixels.baseAddress, nil, nil, nil]
      var strides: [Int32] = [Int32(options.size.width * 3), 0, 0, 0]
      withUnsafeMutablePointer(to: &frame.pointee.data) { data in
        withUnsafeMutablePointer(to: &frame.pointee.linesize) { linesize in
          data.withMemoryRebound(to: UnsafeMutablePointer<UInt8>?.self, capacity: 8) { data in
            linesize.withMemoryRebound(to: Int32.self, capacity: 8) { linesize in
              _ = sws_scale(scaler, &planes, &strides, 0, Int32(options.size.height), data, linesize)
            }
          }
        }
      }
    }
    frame.pointee.pts = time
    frame.pointee.pict_type = beginsSegment(time) ? AV_PICTURE_TYPE_I : AV_PICTURE_TYPE_NONE
    try Self.check(avcodec_send_frame(codec, frame), "encoding")
    try drain()
  }

  private func beginsSegment(_ time: Int64) -> Bool {
    guard let segmentSeconds else { return false }
    // Half a tick, so that a start that was rounded up makes no segment longer.
    if let segmentStart, Double(time - segmentStart) + 0.5 < segmentSeconds * Double(options.timescale) { return false }
    segmentStart = time
    return true
  }

  /// The segments that are complete since the last call.
  package func takeSegments() -> [Segment] {
    defer { segments = [] }
    return segments
  }

  /// Writes the remaining samples and, into a file, the index.
  package func finish() throws {
    try Self.check(avcodec_send_frame(codec, nil), "encoding")
    try drain()
    if segmentSeconds != nil {
      try writeHeld(duration: Int64((Double(options.timescale) / options.rate).rounded()))
      return try endSegment()
    }
    try Self.check(av_write_trailer(format), "writing the index")
    if let format { try Self.check(avio_closep(&format.pointee.pb), "closing the video") }
  }

  private func drain() throws {
    while true {
      let status = avcodec_receive_packet(codec, packet)
      if status == cffmpeg_again() || status == cffmpeg_end() { return }
      try Self.check(status, "encoding")
      if let codec { av_packet_rescale_ts(packet, codec.pointee.time_base, stream.pointee.time_base) }
      packet?.pointee.stream_index = stream.pointee.index
      if segmentSeconds == nil {
        try Self.check(av_interleaved_write_frame(format, packet), "writing a sample")
      } else {
        try hold()
      }
    }
  }

  private func hold() throws {
    guard let packet, let held else { return }
    if held.pointee.size > 0 { try writeHeld(duration: packet.pointee.dts - held.pointee.dts) }
    if packet.pointee.flags & AV_PKT_FLAG_KEY != 0, frames > 0 { try endSegment() }
    swap(&self.packet, &self.held)
  }

  /// Writes the held packet with its duration. Without it, the next segment would begin at the time of its end.
  private func writeHeld(duration: Int64) throws {
    guard let held, held.pointee.size > 0 else { return }
    held.pointee.duration = duration
    try Self.check(av_write_frame(format, held), "writing a sample")
    av_packet_unref(held)
    frames += 1
  }

  private func endSegment() throws {
    // The first call writes the initialization alone.
    if !hasBegun { try Self.check(av_write_frame(format, nil), "writing the initialization") }
    hasBegun = true
    try Self.check(av_write_frame(format, nil), "writing a segment")
    let bytes = closedBuffer()
    if !bytes.isEmpty { segments.append(Segment(bytes: bytes, frames: frames)) }
    if let format { try Self.check(avio_open_dyn_buf(&format.pointee.pb), "allocating a segment") }
  }

  /// Returns the bytes written since the last segment.
  private func closedBuffer() -> [UInt8] {
    guard let format, format.pointee.pb != nil else { return [] }
    var bytes: UnsafeMutablePointer<UInt8>?
    let count = avio_close_dyn_buf(format.pointee.pb, &bytes)
    format.pointee.pb = nil
    defer { av_freep(&bytes) }
    return Array(UnsafeBufferPointer(start: bytes, count: Int(max(0, count))))
  }
}
