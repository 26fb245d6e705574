import Codecs
import Evidence
import Media
import Model

/// A message of an episode. Its topic is in the file.
struct EpisodeMessage: Sendable {
  var topic: String
  var bytes: [UInt8]
  /// Nanoseconds on the episode's time base.
  var time: Int64
}

/// The topics of an episode's file, named by the cameras: of `wrist_image` they are `/wrist/image` and `/wrist/info`. Of a take of several phones,
/// each begins with the member: `/left/camera/image`, `/left/joints`.
struct EpisodeTopics: Sendable {
  /// A camera that has poses, and the frame of the world in which they are.
  struct Posed: Sendable {
    var camera: String
    var world: String
    var stream: StreamName
  }

  private(set) var channels: [String: UInt16] = [:]
  let posed: [Posed]

  /// The topic of a stream, without the slash at its begin.
  static func topic(_ name: StreamName, _ spec: StreamSpec?) -> String {
    guard let member = spec?.member else { return name.rawValue }
    // A stream may have got another name.
    let prefix = member + "_"
    return "\(member)/\(name.rawValue.hasPrefix(prefix) ? String(name.rawValue.dropFirst(prefix.count)) : name.rawValue)"
  }

  static func camera(_ name: StreamName, _ spec: StreamSpec) -> String {
    let topic = topic(name, spec)
    for ending in ["_image", "_depth"] where topic.hasSuffix(ending) && topic.count > ending.count {
      return String(topic.dropLast(ending.count))
    }
    return topic
  }

  init(_ episode: ExportedEpisode, in file: inout MCAPFile) throws {
    posed = Self.posed(episode)
    var wanted: [(topic: String, schema: FoxgloveSchema)] = []
    for (name, stream) in episode.images {
      let camera = Self.camera(name, stream.spec)
      wanted.append(("/\(camera)/image", .image))
      if episode.hasIntrinsics(stream) { wanted.append(("/\(camera)/info", .calibration)) }
    }
    for (name, stream) in episode.depths {
      let camera = Self.camera(name, stream.spec)
      wanted.append(("/\(camera)/depth", .depth))
      if episode.hasIntrinsics(stream) { wanted.append(("/\(camera)/depth_info", .calibration)) }
    }
    for (name, stream) in Self.masks(of: episode) { wanted.append(("/\(Self.topic(name, stream.spec))", .image)) }
    for posed in posed { wanted.append(("/\(posed.camera)/pose", .pose)) }
    if !posed.isEmpty { wanted.append(("/tf", .transform)) }
    for (topic, schema) in wanted {
      channels[topic] = try file.addChannel(
        topic, schema: schema.name, schema.descriptor, schemaEncoding: "protobuf", encoding: "protobuf")
    }
    for (_, topic) in Self.vectors(of: episode) {
      channels[topic] = try file.addChannel(
        topic, schema: "takeset.Numbers", Array(Self.numbers.canonicalText.utf8), schemaEncoding: "jsonschema", encoding: "json")
    }
    for (name, stream) in Self.inertial(of: episode) {
      let topic = "/" + Self.topic(name, stream.spec)
      channels[topic] = try file.addChannel(
        topic, schema: "takeset.Inertial", Array(Self.inertial.canonicalText.utf8), schemaEncoding: "jsonschema", encoding: "json")
    }
  }

  /// The camera with poses; of a take of several phones that of each, in a world of its own unless they share one.
  private static func posed(_ episode: ExportedEpisode) -> [Posed] {
    let poses = episode.streams { $0.poseFrame != nil }
    guard poses.contains(where: { $0.stream.spec.member != nil }) else {
      let camera = (episode.posedImage ?? episode.images.first).map { Self.camera($0.name, $0.stream.spec) } ?? CameraName.phone.rawValue
      return episode.poseFrame == nil ? [] : [Posed(camera: camera, world: "world", stream: .pose)]
    }
    var seen: Set<String> = []
    return poses.compactMap { name, stream in
      guard let member = stream.spec.member, seen.insert(member).inserted else { return nil }
      // The poses are those of the phone's main camera.
      let images = episode.images.filter { $0.stream.spec.member == member }
      let main = CameraName("\(member)_\(CameraName.phone)")
      let image =
        images.first { $0.name == StreamName.image.of(member) } ?? images.first { $0.stream.spec.raster?.camera == main } ?? images.first
      return Posed(
        camera: image.map { camera($0.name, $0.stream.spec) } ?? "\(member)/\(CameraName.phone)",
        world: stream.spec.kind.poseFrame?.world ?? member, stream: name)
    }
  }

  /// The streams whose rows are numbers, with their topics: joints and actions, and whatever else is not a camera's pose.
  static func vectors(of episode: ExportedEpisode) -> [(name: StreamName, topic: String)] {
    let numbers = episode.streams { !$0.isRaster && $0.place == .observation && $0.poseFrame == nil }
    return numbers.map { ($0.name, "/" + topic($0.name, $0.stream.spec)) }
      + (episode.episode.derived[.actions] == nil ? [] : [(.actions, "/\(StreamName.actions)")])
  }

  /// Masks that a step in Python has made, which are gray images.
  static func masks(of episode: ExportedEpisode) -> [(name: StreamName, stream: SampleStream)] { episode.streams { $0 == .segmentation } }

  /// IMUs on the clock of the rows; readings on another have no place among these.
  static func inertial(of episode: ExportedEpisode) -> [(name: StreamName, stream: SampleStream)] {
    episode.episode.streams.filter { $0.value.spec.kind == .inertial && $0.value.spec.clock == episode.episode.frames.clock }
      .sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }

  private static let time: JSONValue = [
    "type": "object", "title": "time", "properties": ["sec": ["type": "integer"], "nsec": ["type": "integer"]],
  ]
  private static let numbers: JSONValue = [
    "type": "object", "title": "takeset.Numbers",
    "properties": [
      "timestamp": time, "values": ["type": "array", "items": ["type": ["number", "null"]]], "unit": ["type": "string"],
      "names": ["type": "array", "items": ["type": "string"]],
    ],
  ]
  private static let vector: JSONValue = [
    "type": "object", "properties": ["x": ["type": "number"], "y": ["type": "number"], "z": ["type": "number"]],
  ]
  private static let inertial: JSONValue = [
    "type": "object", "title": "takeset.Inertial",
    "properties": ["timestamp": time, "linear_acceleration": vector, "angular_velocity": vector],
  ]

  static func stamp(_ nanoseconds: Int64) -> JSONValue {
    let (seconds, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
    return ["sec": .integer(rest < 0 ? seconds - 1 : seconds), "nsec": .integer(rest < 0 ? rest + 1_000_000_000 : rest)]
  }
}

/// Makes the messages of rows. One reader serves one thread.
struct MessageReader {
  struct Lost: Sendable {
    var images = 0, beyondRange = 0

    mutating func add(_ other: Lost) {
      images += other.images
      beyondRange += other.beyondRange
    }
  }

  private let episode: ExportedEpisode
  private let topics: EpisodeTopics
  private let clock: MessageClock
  private let poses: [(place: EpisodeTopics.Posed, rows: [Pose?])]
  private var images: [(name: StreamName, stream: SampleStream, format: String, files: FrameFiles)] = []
  private var depths: [(name: StreamName, stream: SampleStream, maps: DepthMillimeters)] = []
  private var masks: [(name: StreamName, stream: SampleStream, samples: RasterReader)] = []
  private var reader: RowReader

  init(_ episode: ExportedEpisode, _ topics: EpisodeTopics, _ options: MCAPExporter) throws {
    (self.episode, self.topics) = (episode, topics)
    clock = MessageClock(episode)
    poses = try topics.posed.compactMap { place in try episode.cameraPoses(.opencv, of: place.stream).map { (place, $0) } }
    reader = RowReader(episode.episode)
    for (name, stream) in episode.images {
      let format = FrameFiles.fileExtension(stream, options.image) == "jpg" ? "jpeg" : "png"
      images.append((name, stream, format, try FrameFiles(name, of: episode, as: options.image, quality: options.quality)))
    }
    for (name, stream) in episode.depths { depths.append((name, stream, try DepthMillimeters(name, of: episode))) }
    for (name, stream) in EpisodeTopics.masks(of: episode) { masks.append((name, stream, try RasterReader(name, of: episode))) }
  }

  mutating func messages(of row: Int) throws -> (messages: [EpisodeMessage], lost: Lost) {
    var messages: [EpisodeMessage] = []
    var lost = Lost()
    let time = episode.nanoseconds(row)
    func add(_ topic: String, _ bytes: [UInt8]) { messages.append(EpisodeMessage(topic: topic, bytes: bytes, time: time)) }
    /// A message's own time is that of its sample.
    func stamp(_ stream: SampleStream) -> Int64 {
      let late = episode.time(of: stream, row).map { $0.since(episode.time(row)) } ?? 0
      return clock.stamped(time) + late
    }
    for index in images.indices {
      let (name, stream) = (images[index].name, images[index].stream)
      let camera = EpisodeTopics.camera(name, stream.spec)
      guard let file = try images[index].files.image(row) else {
        lost.images += 1
        continue
      }
      add("/\(camera)/image", FoxgloveMessage.image(file, format: images[index].format, frame: camera, at: stamp(stream)))
      if let intrinsics = episode.intrinsics(stream, row) {
        add("/\(camera)/info", FoxgloveMessage.calibration(intrinsics, size: stream.spec.gridSize, frame: camera, at: stamp(stream)))
      }
    }
    for index in depths.indices {
      let (name, stream) = (depths[index].name, depths[index].stream)
      let camera = EpisodeTopics.camera(name, stream.spec)
      let before = depths[index].maps.beyondRange
      guard let values = try depths[index].maps.values(row) else { continue }
      lost.beyondRange += depths[index].maps.beyondRange - before
      add("/\(camera)/depth", FoxgloveMessage.depth(values, size: stream.spec.gridSize, frame: camera, at: stamp(stream)))
      if let intrinsics = episode.intrinsics(stream, row) {
        add("/\(camera)/depth_info", FoxgloveMessage.calibration(intrinsics, size: stream.spec.gridSize, frame: camera, at: stamp(stream)))
      }
    }
    for index in masks.indices {
      let (name, stream) = (masks[index].name, masks[index].stream)
      guard let values = try masks[index].samples.read(row) else { continue }
      let png = try PNG.encodeGray(values, bits: 8, size: stream.spec.gridSize)
      let frame = EpisodeTopics.camera(name, stream.spec)
      add("/\(EpisodeTopics.topic(name, stream.spec))", FoxgloveMessage.image(png, format: "png", frame: frame, at: stamp(stream)))
    }
    for (place, rows) in poses {
      guard let pose = rows[row] else { continue }
      let stamp = clock.stamped(time)
      add("/\(place.camera)/pose", FoxgloveMessage.pose(pose, world: place.world, at: stamp))
      add("/tf", FoxgloveMessage.transform(pose, of: place.camera, in: place.world, at: stamp))
    }
    for (name, topic) in EpisodeTopics.vectors(of: episode) {
      let spec = episode.episode.streams[name]?.spec ?? episode.episode.derived[name]?.spec
      let numbers = try reader.values(of: name, at: row).map { $0.isFinite ? Double("\($0)").map { JSONValue.number($0) } ?? .null : .null }
      var members: [String: JSONValue] = ["timestamp": EpisodeTopics.stamp(clock.stamped(time)), "values": .array(numbers)]
      if let spec {
        members["unit"] = .string(spec.unit)
        if !spec.elements.isEmpty { members["names"] = .array(spec.elements.map { .string($0) }) }
      }
      add(topic, JSONValue.object(members).canonicalBytes)
    }
    return (messages, lost)
  }
}

/// Readings of an episode's IMUs, at their own times, from the first row to the last.
struct InertialMessages {
  /// Readings that are outside of the rows, such as those of other episodes of the take.
  let outside: Int
  private let streams: [(topic: String, cursor: any SampleCursor)]
  private let clock: MessageClock
  private var pending: [(time: Int64, stream: Int, sample: Int)] = []
  private var next = 0

  init(_ episode: ExportedEpisode, _ clock: MessageClock) throws {
    self.clock = clock
    var streams: [(topic: String, cursor: any SampleCursor)] = []
    var outside = 0
    for (name, stream) in EpisodeTopics.inertial(of: episode) where episode.rows > 0 {
      let (first, last) = (episode.time(0), episode.time(episode.rows - 1))
      for (sample, stamp) in stream.timestamps.enumerated() {
        guard stamp >= first, stamp <= last else {
          outside += 1
          continue
        }
        pending.append((episode.nanoseconds(0) + stamp.since(first), streams.count, sample))
      }
      streams.append(("/" + EpisodeTopics.topic(name, stream.spec), try stream.source.makeCursor(SampleRequest(form: .decoded))))
    }
    (self.streams, self.outside) = (streams, outside)
    pending.sort { ($0.time, $0.stream) < ($1.time, $1.stream) }
  }

  mutating func messages(upTo time: Int64) throws -> [EpisodeMessage] {
    let first = next
    while next < pending.count, pending[next].time <= time { next += 1 }
    var bytes: [UInt8] = []
    return try pending[first..<next].compactMap { reading in
      var cursor = streams[reading.stream].cursor
      try cursor.read(reading.sample, into: &bytes)
      let numbers = bytes.withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
      guard numbers.count == 6, numbers.allSatisfy(\.isFinite) else { return nil }
      func vector(_ at: Int) -> JSONValue {
        .object(Dictionary(uniqueKeysWithValues: zip(["x", "y", "z"], numbers[at..<(at + 3)].map { .number(Double("\($0)") ?? 0) })))
      }
      let message: JSONValue = [
        "timestamp": EpisodeTopics.stamp(clock.stamped(reading.time)), "linear_acceleration": vector(0), "angular_velocity": vector(3),
      ]
      return EpisodeMessage(topic: streams[reading.stream].topic, bytes: message.canonicalBytes, time: reading.time)
    }
  }
}
