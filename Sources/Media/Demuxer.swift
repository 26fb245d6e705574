import CFFmpeg
import Synchronization

/// A reader of the compressed samples of a QuickTime or MP4 file's track of images, in storage order, or of access units. Serves one thread.
/// It opens nothing but its input: the format is fixed, and requests for other files are refused.
final class Demuxer {
  private var context: UnsafeMutablePointer<AVFormatContext>?
  private var io: UnsafeMutablePointer<AVIOContext>?
  private let packet: UnsafeMutablePointer<AVPacket>
  private let source: Source
  private let units: AccessUnits?
  var hasUnits: Bool { units != nil }
  /// The next access unit.
  private var unit = 0
  let stream: UnsafeMutablePointer<AVStream>

  /// The input and read position of the callbacks.
  private final class Source {
    let input: FileSlice
    var position: Int64 = 0
    init(_ input: FileSlice) { self.input = input }
  }

  /// - Parameters:
  ///   - track: The number of the track that `MovieBoxes` found; `nil` where it has none.
  ///   - ignoringEdits: Whether samples that the edit list hides are samples like all others.
  init(_ input: FileSlice, track: Int?, ignoringEdits: Bool = false) throws {
    try FFmpeg.prepare()
    source = Source(input)
    units = nil
    guard let packet = av_packet_alloc(), let format = avformat_alloc_context() else { throw Self.outOfMemory }
    self.packet = packet
    let size = 1 << 16
    guard let buffer = av_malloc(size) else { throw Self.outOfMemory }
    io = avio_alloc_context(
      buffer.assumingMemoryBound(to: UInt8.self), Int32(size), 0, Unmanaged.passUnretained(source).toOpaque(),
      { opaque, buffer, count in Demuxer.read(opaque, buffer, count) }, nil,
      { opaque, offset, whence in Demuxer.seek(opaque, offset, whence) })
    format.pointee.pb = io
    format.pointee.io_open = { _, _, _, _, _ in cffmpeg_denied() }
    format.pointee.flags |= AVFMT_FLAG_CUSTOM_IO
    context = format
    var options: OpaquePointer?
    defer { av_dict_free(&options) }
    if ignoringEdits { av_dict_set(&options, "ignore_editlist", "1", 0) }
    // Frees the context when it fails.
    let status = avformat_open_input(&context, nil, av_find_input_format("mov"), &options)
    guard status >= 0, let context else {
      Self.free(&io)
      var packet: UnsafeMutablePointer<AVPacket>? = self.packet
      av_packet_free(&packet)
      throw MovieError(.movieCorrupt, "the video's index cannot be read: \(MovieError.words(status))")
    }
    let streams = (0..<Int(context.pointee.nb_streams)).compactMap { context.pointee.streams[$0] }
    let videos = streams.filter {
      $0.pointee.codecpar.pointee.codec_type == AVMEDIA_TYPE_VIDEO && $0.pointee.disposition & AV_DISPOSITION_ATTACHED_PIC == 0
        && (track == nil || Int(UInt32(bitPattern: $0.pointee.id)) == track)
    }
    // `MovieBoxes` found one such track; FFmpeg must agree.
    guard let video = videos.first, videos.count == 1 else {
      avformat_close_input(&self.context)
      Self.free(&io)
      var packet: UnsafeMutablePointer<AVPacket>? = self.packet
      av_packet_free(&packet)
      throw MovieError(.movieCorrupt, "the video's index contradicts itself: \(videos.count) video tracks can be read")
    }
    stream = video
    for other in streams where other != stream { other.pointee.discard = AVDISCARD_ALL }
  }

  /// Reads access units, whose times are their numbers.
  init(_ units: AccessUnits) throws {
    try FFmpeg.prepare()
    (source, self.units) = (Source(FileSlice(count: 0) { _, _ in 0 }), units)
    guard let packet = av_packet_alloc(), let format = avformat_alloc_context() else { throw Self.outOfMemory }
    self.packet = packet
    context = format
    guard let stream = avformat_new_stream(format, nil) else {
      avformat_close_input(&context)
      var packet: UnsafeMutablePointer<AVPacket>? = packet
      av_packet_free(&packet)
      throw Self.outOfMemory
    }
    self.stream = stream
    stream.pointee.time_base = AVRational(num: Int32(Movie.unitTimeBase.numerator), den: Int32(Movie.unitTimeBase.denominator))
    stream.pointee.codecpar.pointee.codec_type = AVMEDIA_TYPE_VIDEO
    stream.pointee.codecpar.pointee.codec_id = units.codec
  }

  deinit {
    var packet: UnsafeMutablePointer<AVPacket>? = packet
    av_packet_free(&packet)
    avformat_close_input(&context)
    Self.free(&io)
  }

  private static func free(_ io: inout UnsafeMutablePointer<AVIOContext>?) {
    if io != nil { av_freep(&io!.pointee.buffer) }
    avio_context_free(&io)
  }

  static let outOfMemory = MovieError(.limit, "out of memory")

  private static func read(_ opaque: UnsafeMutableRawPointer?, _ buffer: UnsafeMutablePointer<UInt8>?, _ count: Int32) -> Int32 {
    guard let opaque, let buffer else { return cffmpeg_io() }
    let source = Unmanaged<Source>.fromOpaque(opaque).takeUnretainedValue()
    let target = UnsafeMutableRawBufferPointer(start: buffer, count: Int(count))
    guard let got = try? source.input.read(into: target, at: source.position) else { return cffmpeg_io() }
    source.position += Int64(got)
    return got == 0 ? cffmpeg_end() : Int32(got)
  }

  private static func seek(_ opaque: UnsafeMutableRawPointer?, _ offset: Int64, _ whence: Int32) -> Int64 {
    guard let opaque else { return -1 }
    let source = Unmanaged<Source>.fromOpaque(opaque).takeUnretainedValue()
    let target: Int64
    switch whence & ~AVSEEK_FORCE {
    case AVSEEK_SIZE: return source.input.count
    case SEEK_SET: target = offset
    case SEEK_CUR: target = source.position &+ offset
    case SEEK_END: target = source.input.count &+ offset
    default: return -1
    }
    guard (0...source.input.count).contains(target) else { return -1 }
    source.position = target
    return target
  }

  /// Passes the next sample to `body`; returns false at the end.
  func next(_ body: (UnsafeMutablePointer<AVPacket>) throws -> Void) throws -> Bool {
    if let units { return try next(of: units, body) }
    while let context {
      let status = av_read_frame(context, packet)
      if status == cffmpeg_end() { return false }
      guard status >= 0 else { throw MovieError(.movieCorrupt, "a sample cannot be read: \(MovieError.words(status))") }
      defer { av_packet_unref(packet) }
      guard packet.pointee.stream_index == stream.pointee.index else { continue }
      try body(packet)
      return true
    }
    return false
  }

  private func next(of units: AccessUnits, _ body: (UnsafeMutablePointer<AVPacket>) throws -> Void) throws -> Bool {
    guard unit < units.count else { return false }
    var bytes: [UInt8] = []
    do {
      try units.read(unit, &bytes)
    } catch {
      throw MovieError(.movieCorrupt, "frame \(unit) cannot be read: \(error)")
    }
    guard let size = Int32(exactly: bytes.count), size < Int32.max - 64, av_new_packet(packet, size) >= 0 else { throw Self.outOfMemory }
    defer { av_packet_unref(packet) }
    if let target = packet.pointee.data {
      bytes.withUnsafeBytes { target.update(from: $0.bindMemory(to: UInt8.self).baseAddress ?? UnsafePointer(target), count: $0.count) }
    }
    (packet.pointee.pts, packet.pointee.dts, packet.pointee.stream_index) = (Int64(unit), Int64(unit), 0)
    if unit == 0 { packet.pointee.flags |= AV_PKT_FLAG_KEY }
    unit += 1
    try body(packet)
    return true
  }

  /// Seeks to the sample with this decoding time, or to the sync sample before it.
  func seek(to time: Int64) throws {
    if let units {
      unit = max(0, min(Int(clamping: time), units.count))
      return
    }
    let status = av_seek_frame(context, stream.pointee.index, time, AVSEEK_FLAG_BACKWARD)
    guard status >= 0 else { throw MovieError(.movieCorrupt, "seeking failed: \(MovieError.words(status))") }
  }

  /// Byte offsets and lengths of the samples, in file order, as far as the index lists them.
  var places: [(offset: Int64, count: Int64)] {
    (0..<avformat_index_get_entries_count(stream)).compactMap { index in
      avformat_index_get_entry(stream, index).map { ($0.pointee.pos, Int64($0.pointee.size)) }
    }
  }

  /// Number of samples in the index that the edit list hides; those beyond its end are not in the index.
  var hiddenEntries: Int {
    (0..<avformat_index_get_entries_count(stream)).count { index in
      avformat_index_get_entry(stream, index).map { $0.pointee.flags & AVINDEX_DISCARD_FRAME != 0 } ?? false
    }
  }

  /// The parameter sets of the track's first sample description.
  var parameterSets: ParameterSets {
    let parameters = stream.pointee.codecpar.pointee
    let description = UnsafeBufferPointer(start: parameters.extradata, count: Int(max(0, parameters.extradata_size)))
    return ParameterSets(isHEVC: parameters.codec_id == AV_CODEC_ID_HEVC, description: Array(description))
  }

  /// Width of a pixel to its height by the file's index; `nil` for square ones, and where it does not say.
  var pixelAspect: (width: Int, height: Int)? { Movie.aspect(stream.pointee.sample_aspect_ratio) }

  /// The tracks of sound.
  var sounds: [Movie.Sound] {
    (0..<Int(context?.pointee.nb_streams ?? 0)).compactMap { index in
      guard let parameters = context?.pointee.streams[index]?.pointee.codecpar.pointee, parameters.codec_type == AVMEDIA_TYPE_AUDIO else {
        return nil
      }
      return Movie.Sound(
        codec: Movie.name(parameters.codec_id), rate: Int(parameters.sample_rate), channels: Int(parameters.ch_layout.nb_channels))
    }
  }

  /// Tags of the file and of the track.
  var tags: [(key: String, value: String)] {
    [context?.pointee.metadata, stream.pointee.metadata].flatMap { dictionary in
      var tags: [(key: String, value: String)] = []
      var entry = av_dict_get(dictionary, "", nil, AV_DICT_IGNORE_SUFFIX)
      while let found = entry {
        tags.append((String(cString: found.pointee.key), String(cString: found.pointee.value)))
        entry = av_dict_get(dictionary, "", found, AV_DICT_IGNORE_SUFFIX)
      }
      return tags
    }
  }

  /// The track's display matrix: clockwise rotation for display in degrees, and whether it mirrors. `nil` without one.
  var display: (degrees: Double, isMirrored: Bool)? {
    guard let data = av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, nil) else { return nil }
    return UnsafeRawPointer(data).withMemoryRebound(to: Int32.self, capacity: 9) { matrix in
      let determinant = Double(matrix[0]) * Double(matrix[4]) - Double(matrix[1]) * Double(matrix[3])
      return (-av_display_rotation_get(matrix), determinant < 0)
    }
  }

  /// The signal of Dolby Vision's base layer by itself: 0 none, 1 PQ, 2 SDR, 4 HLG. `nil` for other videos.
  var dolbyVisionCompatibility: Int? {
    guard let data = av_stream_get_side_data(stream, AV_PKT_DATA_DOVI_CONF, nil) else { return nil }
    let record = UnsafeRawPointer(data).loadUnaligned(as: AVDOVIDecoderConfigurationRecord.self)
    return Int(record.dv_bl_signal_compatibility_id)
  }
}

/// The FFmpeg libraries as a whole.
package enum FFmpeg {
  private static let isPrepared = Mutex(false)

  /// Loads the libraries when they are first needed, and tries again if they could not be loaded before.
  package static func prepare() throws {
    try isPrepared.withLock { isPrepared in
      if isPrepared { return }
      if let problem = cffmpeg_load() { throw MovieError(.unreadable, "FFmpeg cannot be loaded: \(String(cString: problem))") }
      // Problems are reported as errors, not logged.
      cffmpeg_quieten()
      // No allocation for a plausible video comes near this; a hostile one gets an error instead of the memory.
      av_max_alloc(1 << 29)
      isPrepared = true
    }
  }
}
