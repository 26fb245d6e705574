import Model
import Steps

/// The topics of a recording, and which of them is which stream.
struct MCAPRecording {
  let log: MCAPLog
  /// In the order in which the file names them.
  private(set) var topics: [MCAPTopic] = []
  /// Texts that Takeset's own files have.
  private(set) var metadata: [String: [String: String]] = [:]
  /// Whether `takeset export` wrote it, so that topics are named by their streams.
  private(set) var isOwn = false

  /// Reads all of a recording.
  ///
  /// - Parameter named: The stream of each topic that is wanted; empty where the topics of known kinds are.
  init(_ log: MCAPLog, named: [String: StreamName], usesStamps: Bool, _ notes: FindingCollector) throws {
    self.log = log
    var schemas: [Int: [UInt16: DefinedSchema]] = [:]
    var channels: [Int: [UInt16: (topic: MCAPTopic, decoder: (any MessageDecoder)?)]] = [:]
    var byName: [String: MCAPTopic] = [:]
    var (topics, metadata, isOwn): ([MCAPTopic], [String: [String: String]], Bool) = ([], [:], false)
    try log.read(notes) { file, definition in
      switch definition {
      case .library(let name): isOwn = isOwn || name == "takeset"
      case .metadata(let record): metadata[record.name] = record.texts
      case .schema(let schema):
        // Files repeat what they define; a second one of the same number would be damage.
        if schemas[file]?[schema.id] == nil { schemas[file, default: [:]][schema.id] = DefinedSchema(schema) }
      case .channel(let channel):
        guard channels[file]?[channel.id] == nil else { return }
        let schema = schemas[file]?[channel.schema]
        let topic = byName[channel.topic] ?? Self.topic(channel, schema, named, isOwn: isOwn)
        if byName[channel.topic] == nil {
          byName[channel.topic] = topic
          topics.append(topic)
        }
        var decoder: (any MessageDecoder)?
        if topic.isWanted, let kind = topic.kind {
          do {
            decoder = try MessageDecoders.make(channel, schema, kind.wanted)
          } catch {
            topic.problem = "\(error)"
          }
        }
        channels[file, default: [:]][channel.id] = (topic, decoder)
      }
    } message: { message in
      guard let (topic, decoder) = channels[message.file]?[message.channel] else { return }
      topic.add(message, decoder, usesStamps: usesStamps)
    }
    for topic in topics { topic.finish() }
    (self.topics, self.metadata, self.isOwn) = (topics, metadata, isOwn)
  }

  private static func topic(_ channel: MCAPRecord.Channel, _ schema: DefinedSchema?, _ named: [String: StreamName], isOwn: Bool)
    -> MCAPTopic
  {
    var kind = schema.flatMap { TopicKind(schema: $0.schema.name) }
    let isNamed = named[channel.topic] != nil
    if kind == nil, isNamed {
      // Messages of any name will do that have the fields.
      kind = TopicKind.byFields.first { kind in
        guard channel.encoding != "json", let decoder = try? MessageDecoders.make(channel, schema, kind.wanted) else { return false }
        return !kind.needed.isEmpty && kind.needed.allSatisfy { decoder.has[$0] }
      }
    }
    var problem: String?
    if kind == nil, isNamed {
      do {
        _ = try MessageDecoders.make(channel, schema, TopicKind.numbers.wanted)
      } catch {
        problem = "\(error)"
      }
    }
    let isTaken = named.isEmpty && (!isOwn || ownName(channel.topic, kind) != nil)
    let isWanted = isTaken || isNamed || kind == .calibration || kind == .transforms && channel.topic.hasSuffix(Self.constant)
    let topic = MCAPTopic(channel, schema?.schema, kind, isWanted: isWanted)
    topic.problem = problem
    return topic
  }
  private static let constant = "tf_static"

  // MARK: Streams

  /// The streams of an episode.
  struct Streams {
    var images: [(name: StreamName, topic: MCAPTopic)] = []
    var depths: [(name: StreamName, topic: MCAPTopic)] = []
    var numbers: [(name: StreamName, topic: MCAPTopic)] = []
    var imu: [(name: StreamName, topic: MCAPTopic)] = []
    var pose: MCAPTopic?
    /// Poses of other bodies.
    var bodies: [(name: StreamName, topic: MCAPTopic)] = []
  }

  /// The topics whose transforms hold at all times, and the others.
  var transforms: (constant: [MCAPTopic], changing: [MCAPTopic]) {
    let all = topics.filter { $0.kind == .transforms && $0.isWanted }
    return (all.filter { $0.name.hasSuffix(Self.constant) }, all.filter { !$0.name.hasSuffix(Self.constant) })
  }

  /// The stream of each topic.
  ///
  /// - Throws: `TakeFailure` where two topics of a kind could be one stream, and where a named one is missing or of another kind.
  func streams(named: [String: StreamName]) throws -> Streams {
    var streams = Streams()
    if named.isEmpty, !isOwn {
      let groups: [(name: StreamName, what: String, topics: [MCAPTopic])] = [
        (.image, "images", topics.filter { $0.isImages && !$0.isDepth }),
        (.depth, "depth maps", topics.filter { $0.isImages && $0.isDepth }),
        (.pose, "poses", topics.filter { $0.kind == .pose }), (.imu, "readings of an IMU", topics.filter { $0.kind == .imu }),
        (.joints, "joints", topics.filter { $0.kind == .joints }), ("numbers", "numbers", topics.filter { $0.kind == .numbers }),
      ]
      for group in groups {
        let found = group.topics.filter { $0.messages > 0 }
        guard found.count <= 1 else {
          let option = group.name == "numbers" ? Self.name(of: found[0].name) : group.name
          throw TakeFailure(
            .topicsAmbiguous,
            "\(found[0].name.onOneLine) and \(found[1].name.onOneLine) have \(group.what)\(found.count > 2 ? ", and \(found.count - 2) more topics" : ""); the option topics says which is which, as in topics: {\(option): \(found[0].name.onOneLine)}; the topics are \(described)",
            file: log.files[0].path)
        }
        if let topic = found.first { try Self.add(group.name == "numbers" ? Self.name(of: topic.name) : group.name, topic, to: &streams) }
      }
    } else {
      for topic in topics {
        guard let name = named.isEmpty ? Self.ownName(topic.name, topic.kind) : named[topic.name] else { continue }
        try Self.add(name, topic, to: &streams)
      }
      let missing = named.filter { wanted in !topics.contains { $0.name == wanted.key } }.sorted { $0.key < $1.key }
      if let first = missing.first {
        throw TakeFailure(
          .topicMissing,
          "there is no topic \(first.key.onOneLine) for \(first.value); the topics are \(described)",
          file: log.files[0].path)
      }
    }
    streams.images.sort { $0.name < $1.name }
    return streams
  }

  /// The topics and what they are, for messages.
  private var described: String {
    let words = topics.prefix(20).map { topic in
      "\(topic.name.onOneLine) (\(topic.isImages && topic.isDepth ? "depth" : topic.kind?.rawValue ?? topic.schema.onOneLine)\(topic.rate.map { ", \(($0 * 100).rounded() / 100) Hz" } ?? ""))"
    }
    return words.joined(separator: ", ") + (topics.count > 20 ? " and \(topics.count - 20) more" : "")
  }

  /// The stream that a topic of Takeset's own files is, which is named by it: `/wrist/image` is `wrist_image`.
  private static func ownName(_ topic: String, _ kind: TopicKind?) -> StreamName? {
    let parts = topic.split(separator: "/").map(String.init)
    let text = parts.joined(separator: "_")
    switch kind {
    case .image where parts.last == "image", .raw where parts.last == "depth", .imu, .numbers: break
    case .pose where parts == ["camera", "pose"]: return .pose
    default: return nil
    }
    let name = StreamName(text)
    return StreamName.isName(text) && !name.isReserved ? name : nil
  }

  /// A name for numbers: `gripper_width` for `/gripper/width`.
  private static func name(of topic: String) -> StreamName {
    let plain = topic.lowercased().map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" }
    let text = String(plain).split(separator: "_").joined(separator: "_")
    let name = StreamName(text.first?.isLetter == true ? text : "numbers_" + text)
    return name.isReserved ? StreamName("recorded_" + name.rawValue) : name
  }

  private static func add(_ name: StreamName, _ topic: MCAPTopic, to streams: inout Streams) throws {
    func mismatch(_ expected: String) -> TakeFailure {
      TakeFailure(
        .topicMissing,
        "\(topic.name.onOneLine) (\(topic.schema.onOneLine)) has no \(expected), which \(name) needs\(topic.problem.map { ": \($0)" } ?? "")"
      )
    }
    if name.rawValue.hasSuffix("_image") {
      guard topic.isImages else { throw mismatch("images") }
      streams.images.append((name, topic))
    } else if name.rawValue.hasSuffix("_depth") {
      guard topic.isImages else { throw mismatch("depth maps") }
      streams.depths.append((name, topic))
    } else if name == .pose {
      guard topic.kind == .pose || topic.kind == .transforms else { throw mismatch("poses") }
      streams.pose = topic
    } else if topic.kind == .imu {
      streams.imu.append((name, topic))
    } else if topic.kind == .pose {
      streams.bodies.append((name, topic))
    } else {
      guard topic.kind == .joints || topic.kind == .numbers else {
        throw mismatch("joints (name, position), numbers (data or values), poses or readings of an IMU")
      }
      streams.numbers.append((name, topic))
    }
  }

  /// The calibration of a camera by its topic: of the same coordinate frame, that which stands beside the images or nearest above, as
  /// `/cam/camera_info` does for `/cam/image/compressed`, or else that whose name is most alike.
  func calibration(of images: MCAPTopic) -> MCAPTopic? {
    let own = images.name.split(separator: "/")
    func parents(_ topic: MCAPTopic) -> Int? {
      let folder = topic.name.split(separator: "/").dropLast()
      return own.starts(with: folder) ? folder.count : nil
    }
    func shared(_ topic: MCAPTopic) -> Int { zip(topic.name.utf8, images.name.utf8).prefix { $0 == $1 }.count }
    let all = topics.filter { $0.kind == .calibration && !$0.calibrations.isEmpty }
    let sameFrame = all.filter { !$0.frame.isEmpty && $0.frame == images.frame }
    // One that names another frame is another camera's.
    let others = all.filter { $0.frame.isEmpty || images.frame.isEmpty }
    let candidates = sameFrame.isEmpty ? others.filter { $0.name.split(separator: "/").first == own.first || others.count == 1 } : sameFrame
    let nearest = candidates.compactMap(parents).filter { $0 > 0 }.max()
    let beside = candidates.filter { nearest != nil && parents($0) == nearest }
    let alike = beside.isEmpty ? candidates : beside
    let most = alike.map(shared).max()
    let best = alike.filter { shared($0) == most }
    return best.count == 1 ? best[0] : nil
  }
}

extension MCAPTopic {
  var isImages: Bool { kind == .image || kind == .video || kind == .raw }

  /// Whether its images are rectified, as ROS names such topics: `/camera/image_rect_color`, `/camera/depth/image_rect_raw/compressed`.
  var isRectified: Bool { name.split(separator: "/").contains { $0.hasPrefix("image_rect") } }

  /// Whether it has the same first name as another one, as `/camera/pose` has beside `/camera/image`.
  func isBeside(_ other: MCAPTopic) -> Bool {
    let parts = name.split(separator: "/")
    return parts.count > 1 && parts.first == other.name.split(separator: "/").first
  }
}
