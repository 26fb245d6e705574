import Evidence
import Media
import Model
import Steps

/// The streams of a recording, from their topics to an episode whose rows are the images of the main camera.
struct MCAPEpisode {
  let recording: MCAPRecording
  let streams: MCAPRecording.Streams
  let options: MCAP
  let notes: FindingCollector
  private(set) var clock = Clock.deviceUptime

  private var log: MCAPLog { recording.log }
  private var inputs: TakeInputs { log.inputs }
  var file: String { log.files[0].path }

  init(recording: MCAPRecording, streams: MCAPRecording.Streams, options: MCAP, notes: FindingCollector) {
    (self.recording, self.streams, self.options, self.notes) = (recording, streams, options, notes)
  }

  mutating func episode(id: String) throws -> Episode {
    guard let main = streams.images.first(where: { $0.name == .image })?.topic else {
      let images = recording.topics.filter(\.isImages).map(\.name.onOneLine)
      if images.isEmpty, let damage = notes.findings.first(where: { $0.code == .messagesUnreadable }) {
        throw TakeFailure(.noFrames, "no message with an image can be read; \(damage.message)", file: file)
      }
      throw TakeFailure(
        .noFrames,
        images.isEmpty
          ? "no topic has images; there are \(recording.topics.prefix(12).map(\.name.onOneLine).joined(separator: ", "))"
          : "no topic is camera_image; images are on \(images.prefix(12).joined(separator: ", ")), and the option topics says which are the rows",
        file: file)
    }
    noteMessages()
    clock = main.times.first.map(clock) ?? .deviceUptime
    let (stream, camera, order) = try images(.image, main)
    let frames = Episode.Frames(timestamps: stream.timestamps, sourceIndex: stream.sourceIndex, clock: clock)
    notes.add(frames.droppedFrames(places: nil))
    var episode = Episode(id: id, sourceFrames: main.times.count, frames: frames, streams: [:])
    episode.streams[.image] = stream
    episode.streams[.image]?.rows = order.indices.rows
    episode.cameras[.phone] = camera
    episode.captureStart = frames.timestamps.first
    episode.unixOrigin = Episode.UnixOrigin(start: episode.captureStart, listed: main.times, on: clock)
    episode.details = inputs.details
    let date = episode.captureStart.flatMap { start -> RecordingDate? in
      let seconds = start.nanoseconds / 1_000_000_000
      return clock == .phoneUnix ? RecordingDate(file, day: String(UnixTime.rfc3339(seconds: seconds).prefix(10)), seconds: seconds) : nil
    }
    episode.dates = Day.dates(name: id, date)
    if order.count < main.times.count {
      // Images are left out for their times alone, frames of a video for those that they are differences to.
      let reason = main.kind == .video ? FindingCode.imageMissing : .timeNotAscending
      episode.dropped.append(Episode.Dropped(reason: reason.rawValue, count: main.times.count - order.count))
    }

    try addPoses(to: &episode, images: main)
    for (name, topic) in streams.images where name != .image {
      let (stream, camera, _) = try images(name, topic)
      episode.streams[name] = stream
      episode.cameras[Self.camera(name)] = camera
    }
    for (name, topic) in streams.depths { try addDepth(name, topic, to: &episode) }
    for (name, topic) in streams.imu where try isReadable(topic, "readings") {
      topic.readings.noteGravity(topic.name.onOneLine, notes)
      episode.streams[name] = topic.readings.stream(clock: clock, file: topic.name.onOneLine, in: place(of: topic), notes: notes)
    }
    for (name, topic) in streams.numbers { try addNumbers(name, topic, to: &episode) }
    for (name, topic) in streams.bodies { try addBody(name, topic, to: &episode) }
    episode.variant = log.files.count > 1 ? "bag" : recording.isOwn ? "takeset" : "recording"
    episode.details["topics"] = .array(recording.topics.map(record))
    return episode
  }

  // MARK: Messages

  /// The years 2010 to 2096, in seconds.
  private static let unixSeconds: Range<Int64> = 1_262_304_000..<4_000_000_000

  private func clock(of time: Timestamp) -> Clock {
    if recording.isOwn, let written = recording.metadata["takeset"]?["time"] { return written == "unix" ? .phoneUnix : .deviceUptime }
    return Self.unixSeconds.contains(time.nanoseconds / 1_000_000_000) ? .phoneUnix : .deviceUptime
  }

  private func noteMessages() {
    for topic in recording.topics where topic.isWanted {
      if let problem = topic.problem {
        notes.add(
          .messagesUnreadable, "the messages of \(topic.name.onOneLine) are not read: \(problem)", file: file, count: topic.messages)
      } else if topic.unreadable.count > 0 {
        notes.add(
          .messagesUnreadable, "messages of \(topic.name.onOneLine) are skipped; the first: \(topic.unreadable.first.onOneLine)",
          file: file,
          count: topic.unreadable.count)
      }
      if topic.unstamped > 0 {
        notes.add(
          .stampsMissing, "messages of \(topic.name.onOneLine) have the time 0; they get that of their logging", file: file,
          count: topic.unstamped)
      }
    }
  }

  /// A topic, what it is and what it became.
  private func record(_ topic: MCAPTopic) -> JSONValue {
    var record: [String: JSONValue] = [
      "topic": .string(topic.name), "schema": .string(topic.schema), "messages": JSONValue(topic.messages),
      "kind": topic.kind.map { .string($0 == .raw && topic.isDepth ? "depth" : $0 == .raw ? "image" : $0.rawValue) } ?? .null,
    ]
    record["rate_hz"] = topic.rate.map { .number(($0 * 1000).rounded() / 1000) } ?? .null
    let all = streams.images + streams.depths + streams.numbers + streams.imu + streams.bodies
    let name = streams.pose === topic ? StreamName.pose : all.first { $0.topic === topic }?.name
    record["stream"] = name.map { .string($0.rawValue) } ?? .null
    return .object(record)
  }

  func place(of topic: MCAPTopic) -> RecordOrigins.Place {
    let (log, name) = (log, topic.name)
    return .found { number in try log.origin(ofMessage: number, on: name) }
  }

  // MARK: Cameras

  private static func camera(_ name: StreamName) -> CameraName {
    // Names end in _image or _depth.
    CameraName(String(name.rawValue.dropLast("_image".count)))
  }

  /// The images of a topic in ascending time, their camera, and the place of each among the topic's messages.
  private func images(_ name: StreamName, _ topic: MCAPTopic) throws -> (SampleStream, Camera, order: [Int]) {
    try require(topic, "images")
    guard !topic.isDepth else {
      throw TakeFailure(
        .topicMissing, "\(topic.name.onOneLine) has depth maps (\(topic.format.onOneLine)), and \(name) needs images", file: file)
    }
    let order = SensorTimes(topic.times, of: "images of \(topic.name.onOneLine)", file: file, notes: notes).order
    if topic.kind == .video { return try video(name, topic, order) }
    let (source, size, encoding): (any SampleSource, ImageSize, StreamSpec.ImageEncoding?)
    if let layout = topic.layout {
      guard RawLayout.bytes[layout.encoding] != nil else { throw unsupported(topic) }
      guard max(layout.size.width, layout.size.height) <= options.maxImageSide else {
        throw TakeFailure(.limit, "the images are \(layout.size), over the limit of \(options.maxImageSide) (max-image-side)", file: file)
      }
      (size, encoding) = (layout.size, nil)
      source = RawMessages(samples: samples(topic, order), layout: layout)
    } else {
      let samples = self.samples(topic, order)
      size = try ImageFiles.size(of: samples, limit: options.maxImageSide)
      let files = ImageFiles(samples: samples, size: size, limit: options.maxImageSide, keepsMetadata: options.video.keepLocation)
      (source, encoding) = (files, files.encoding)
    }
    return stream(name, topic, order, source, size, encoding)
  }

  private func stream(
    _ name: StreamName, _ topic: MCAPTopic, _ order: [Int], _ source: any SampleSource, _ size: ImageSize,
    _ encoding: StreamSpec.ImageEncoding?
  ) -> (SampleStream, Camera, order: [Int]) {
    let camera = camera(of: topic, size, name)
    var spec = StreamSpec(
      raster: Raster(camera: Self.camera(name), size: size, covering: camera.size), kind: .image, type: .uint8, channels: 3,
      unit: "sRGB 0..255", clock: clock)
    spec.sourceEncoding = encoding
    return (
      SampleStream(
        spec: spec, source: source, timestamps: order.map { topic.times[$0] }, sourceIndex: order.map { Int64(topic.numbers[$0]) }),
      camera, order
    )
  }

  /// The frames of a video, each in a message, from the first at which decoding can start.
  private func video(_ name: StreamName, _ topic: MCAPTopic, _ order: [Int]) throws -> (SampleStream, Camera, order: [Int]) {
    let format = topic.format.lowercased()
    guard format == "h264" || format == "h265" else {
      throw TakeFailure(
        .codecUnsupported, "the video of \(topic.name.onOneLine) is coded as \(format.onOneLine.prefix(40)); expected h264 or h265",
        file: file)
    }
    let isHEVC = format == "h265"
    guard order == Array(topic.times.indices) else {
      throw TakeFailure(
        .timesMissing, "the frames of \(topic.name.onOneLine) do not ascend in time, in which order a video is decoded", file: file)
    }
    let kept = try decodable(topic, order, isHEVC: isHEVC)
    let samples = self.samples(topic, kept)
    let units = AccessUnits(isHEVC: isHEVC, count: kept.count, bytes: samples.places.reduce(0) { $0 + Int64($1.count) }) { unit, bytes in
      do {
        try samples.read(unit, hasher: SHA256(), as: .imageUndecodable, into: &bytes)
      } catch let failure as SampleFailure {
        throw MessageFault(failure.finding.message)
      }
    }
    let movie = try MovieTake(units, file: file, options: options.video) { try samples.origin(of: $0) }
    notes.add(movie.findings)
    guard let source = movie.episode(id: "", snapsRate: false).streams[.image]?.source else {
      throw TakeFailure(.noVideo, "\(topic.name.onOneLine) has no video", file: file)
    }
    return stream(name, topic, kept, source, movie.movie.size, nil)
  }

  /// The frames that can be decoded: after the beginning, and after each step in time that is as long as where frames are missing, those from the
  /// next at which decoding can start. Most frames are differences to the one before, which would be another one.
  private func decodable(_ topic: MCAPTopic, _ order: [Int], isHEVC: Bool) throws -> [Int] {
    let all = self.samples(topic, order)
    let hasher = SHA256()
    var bytes: [UInt8] = []
    let steps = zip(topic.times, topic.times.dropFirst()).map { $1.since($0) }.sorted()
    let longest = steps.isEmpty ? 0 : Double(steps[steps.count / 2]) * Self.stepsOfAGap
    var (kept, waits): ([Int], Bool) = ([], true)
    for sample in order.indices {
      if sample > 0, Double(topic.times[sample].since(topic.times[sample - 1])) > longest { waits = true }
      if waits {
        guard (try? all.read(sample, hasher: hasher, as: .imageUndecodable, into: &bytes)) != nil else { continue }
        guard AccessUnits.isStart(bytes, isHEVC: isHEVC) else { continue }
        waits = false
      }
      kept.append(order[sample])
    }
    guard !kept.isEmpty else {
      throw TakeFailure(
        .noFrames, "none of the \(order.count) frames of \(topic.name.onOneLine) is one at which decoding can start", file: file)
    }
    if kept.count < order.count {
      notes.add(
        .imageMissing,
        "frames of \(topic.name.onOneLine) have no row: at the beginning, or where frames before them are missing, those up to the next at which decoding can start",
        file: file, count: order.count - kept.count)
    }
    return kept
  }
  /// A longer step than so many usual ones lacks a frame.
  private static let stepsOfAGap = 1.5

  private func samples(_ topic: MCAPTopic, _ order: [Int], headBytes: Int = 0) -> MessageSamples {
    MessageSamples(
      log: log, topic: topic.name, places: order.map { topic.places[$0] }, numbers: order.map { topic.numbers[$0] },
      areJPEG: topic.areJPEG, headBytes: headBytes)
  }

  func require(_ topic: MCAPTopic, _ what: String, as code: FindingCode = .noFrames) throws {
    guard !topic.times.isEmpty else {
      throw TakeFailure(
        code,
        "none of the \(topic.messages) messages of \(topic.name.onOneLine) has \(what)"
          + ((topic.problem ?? (topic.unreadable.count > 0 ? topic.unreadable.first : nil)).map { ": \($0.onOneLine)" } ?? ""), file: file)
    }
    guard topic.unreadable.count * 5 <= topic.messages else {
      throw TakeFailure(
        .recordingInvalid,
        "\(topic.unreadable.count) of \(topic.messages) messages of \(topic.name.onOneLine) cannot be read; at most a fifth may not: \(topic.unreadable.first.onOneLine)",
        file: file)
    }
  }

  private func unsupported(_ topic: MCAPTopic) -> TakeFailure {
    TakeFailure(
      .formatUnsupported,
      "images of \(topic.name.onOneLine) are encoded as \((topic.layout?.encoding ?? topic.format).onOneLine.prefix(40)); expected one of \(RawLayout.bytes.keys.sorted().joined(separator: ", "))",
      file: file)
  }

  /// The camera of images, by the calibration that belongs to their topic.
  private func camera(of topic: MCAPTopic, _ size: ImageSize, _ name: StreamName) -> Camera {
    guard let calibration = recording.calibration(of: topic), let first = calibration.calibrations.first else {
      notes.add(
        .intrinsicsAbsent, "no calibration is recorded for \(topic.name.onOneLine), so the pixels of \(name) have no directions", file: file
      )
      return Camera(size: size)
    }
    let isRectified = topic.isRectified && first.rectified != nil
    if !isRectified, let problem = calibration.lens.flatMap(GivenIntrinsics.problem) {
      notes.add(.intrinsicsUnusable, "\(calibration.name.onOneLine): \(problem)", file: file)
      return Camera(size: size)
    }
    if !isRectified, calibration.hasDistortion {
      notes.add(
        .distortionIgnored, "the lens has distortion by \(calibration.name.onOneLine); images are stored as they are", file: file)
    }
    func intrinsics(_ entry: MCAPTopic.Calibration) -> Intrinsics? {
      entry.intrinsics(of: topic, for: first.size)
    }
    let found = calibration.calibrations.flatMap { entry -> [IntrinsicsTrack.Moment] in
      guard let known = intrinsics(entry) else { return [] }
      // They hold up to the last message that repeats them.
      return (entry.first == entry.last ? [entry.first] : [entry.first, entry.last]).map {
        IntrinsicsTrack.Moment(time: $0, intrinsics: known)
      }
    }
    guard let usual = found.isEmpty ? nil : found[found.count / 2].intrinsics else {
      notes.add(.intrinsicsUnusable, "\(calibration.name.onOneLine): \(GivenIntrinsics.expected)", file: file)
      return Camera(size: size)
    }
    notes.add([Intrinsics.scaling(from: first.size, to: size, "\(topic.name.onOneLine) has images of", file: file)].compactMap(\.self))
    let isAscending = zip(found, found.dropFirst()).allSatisfy { $0.time < $1.time }
    return Camera(
      size: first.size, intrinsicsTrack: IntrinsicsTrack(usual, moments: calibration.calibrations.count > 1 && isAscending ? found : []))
  }

  private func addDepth(_ name: StreamName, _ topic: MCAPTopic, to episode: inout Episode) throws {
    let cameraName = Self.camera(name)
    guard let camera = episode.cameras[cameraName] else {
      throw TakeFailure(.topicMissing, "\(name) covers \(cameraName)_image, which no topic is", file: file)
    }
    try require(topic, "depth maps")
    let order = SensorTimes(topic.times, of: "depth maps of \(topic.name.onOneLine)", file: file, notes: notes).order
    let (source, size): (any SampleSource, ImageSize)
    var (type, unit) = (ScalarType.uint16, "mm")
    if let layout = topic.layout {
      guard layout.isDepth else { throw unsupported(topic) }
      guard max(layout.size.width, layout.size.height) <= options.maxImageSide else {
        throw TakeFailure(
          .limit, "the depth maps are \(layout.size), over the limit of \(options.maxImageSide) (max-image-side)", file: file)
      }
      size = layout.size
      (type, unit) = layout.depthType
      source = RawMessages(samples: samples(topic, order), layout: layout)
    } else {
      // ROS puts 12 bytes before the PNG of a depth map; those of meters are inverse values, quantized.
      guard !topic.format.contains("compressedDepth") || topic.format.contains("16UC1") else {
        throw TakeFailure(
          .formatUnsupported,
          "depth maps of \(topic.name.onOneLine) are \(topic.format.onOneLine.prefix(60)); of compressedDepth, 16UC1 is read: meters are stored as inverse values, and rounded",
          file: file)
      }
      let samples = self.samples(topic, order, headBytes: topic.format.contains("compressedDepth") ? 12 : 0)
      let maps = try DepthMessages(samples)
      (source, size) = (maps, maps.size)
    }
    episode.streams[name] = SampleStream(
      spec: StreamSpec(
        raster: raster(of: topic, size, cameraName, camera), kind: .depth, type: type, channels: 1, unit: unit, clock: clock),
      source: source, timestamps: order.map { topic.times[$0] }, sourceIndex: order.map { Int64(topic.numbers[$0]) })
  }

  /// The grid of depth maps. Those with a calibration of their own have the pixels that it says, which are others than those of the images.
  private func raster(of topic: MCAPTopic, _ size: ImageSize, _ name: CameraName, _ camera: Camera) -> Raster {
    let covering = Raster(camera: name, size: size, covering: camera.size)
    guard let calibration = recording.calibration(of: topic), let known = camera.usualIntrinsics(covering),
      let own = calibration.calibrations.first?.intrinsics(of: topic, for: size),
      zip([own.fx, own.fy, own.cx, own.cy], [known.fx, known.fy, known.cx, known.cy]).contains(where: { abs($0 - $1) > 0.01 }),
      let full = camera.intrinsicsTrack?.usual
    else { return covering }
    let (x, y) = (own.fx / full.fx, own.fy / full.fy)
    notes.add(
      .intrinsicsDiffer,
      "\(topic.name.onOneLine) has a calibration of its own, which its maps keep: their pixels are not those of \(name)_image, and what lies between the two sensors is not known",
      file: file)
    return Raster(camera: name, size: size, rasterFromFull: Affine(xx: x, yy: y, x0: own.cx - x * full.cx, y0: own.cy - y * full.cy))
  }
}

extension MCAPTopic.Calibration {
  /// The intrinsics of a topic's images or maps, in pixels of `size`.
  func intrinsics(of topic: MCAPTopic, for size: ImageSize) -> Intrinsics? {
    // Messages count from the middle of the top-left pixel.
    let m = topic.isRectified ? rectified ?? matrix : matrix
    return GivenIntrinsics([m[0], m[4], m[2] + 0.5, m[5] + 0.5], of: self.size).intrinsics(for: size)
  }
}
