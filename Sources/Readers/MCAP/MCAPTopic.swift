import Evidence
import Model

/// The messages of one topic, as far as an episode needs them.
final class MCAPTopic {
  typealias Slot = TopicKind.Slot

  /// Intrinsics of images of a size, from the first message that has them to the last.
  struct Calibration {
    var first: Timestamp
    var last: Timestamp
    var size: ImageSize
    /// Of images as the camera takes them, and of rectified ones; the principal point counts from the middle of the top-left pixel.
    var matrix: [Double]
    var rectified: [Double]?
  }

  /// Numbers with the same names: several programs may report their joints on one topic.
  struct NumberGroup {
    var names: [String]
    var columns: NumberColumns
  }

  let name: String
  /// The name of the schema of its first channel.
  let schema: String
  let kind: TopicKind?
  /// The reason why its messages are not read, as a sentence.
  var problem: String?
  /// Whether its messages are decoded.
  let isWanted: Bool

  private(set) var messages = 0
  /// Nanoseconds by the recorder's clock.
  private(set) var logged: (first: UInt64, last: UInt64) = (0, 0)
  private(set) var unreadable: (count: Int, first: String) = (0, "")
  /// Messages whose own time is 0.
  private(set) var unstamped = 0
  private var unstampedPlaces: [Int] = []
  /// Whether the message that is being read is one of these.
  private var isUnstamped = false

  // What messages say, one element for each that is read; the number of each among those of the topic.
  private(set) var times: [Timestamp] = []
  private(set) var numbers: [Int] = []
  private(set) var places: [MessagePlace] = []
  private(set) var poses: [Pose] = []
  private(set) var calibrations: [Calibration] = []
  private(set) var hasDistortion = false
  /// The name of the lens's model; `nil` where its calibrations name none.
  private(set) var lens: String?
  private(set) var readings = InertialTable()
  /// Groups of other names, those with most numbers first.
  private(set) var groups: [NumberGroup] = []
  private(set) var unit = ""
  private(set) var transforms: [(time: Timestamp, parent: String, child: String, pose: Pose)] = []
  /// The frames that messages name: the coordinate frame, and of poses that of the body.
  private(set) var frame = "", body = ""
  /// Of images: as the first message says.
  private(set) var format = ""
  private(set) var layout: RawLayout?
  private(set) var areJPEG = true

  init(_ channel: MCAPRecord.Channel, _ schema: MCAPRecord.Schema?, _ kind: TopicKind?, isWanted: Bool) {
    (name, self.schema, self.kind, self.isWanted) = (channel.topic, schema?.name ?? "", kind, isWanted)
  }

  /// Whether its images are depth maps.
  var isDepth: Bool { kind == .raw ? layout?.isDepth ?? false : format.contains("compressedDepth") }

  /// Messages a second, by the recorder's clock.
  var rate: Double? {
    messages > 1 && logged.last > logged.first ? Double(messages - 1) * 1e9 / Double(logged.last - logged.first) : nil
  }

  func add(_ message: MCAPLog.Message, _ decoder: (any MessageDecoder)?, usesStamps: Bool) {
    defer { messages += 1 }
    logged = messages == 0 ? (message.logged, message.logged) : (min(logged.first, message.logged), max(logged.last, message.logged))
    guard isWanted, let kind else { return }
    do {
      isUnstamped = false
      guard let decoder else { throw MessageFault(problem ?? "its encoding is not read") }
      let fields = try decoder.decode(message.data)
      for slot in kind.needed where fields[slot] == nil { throw MessageFault("it lacks a field of a \(kind.rawValue)") }
      let time = try time(fields, message.logged, usesStamps: usesStamps)
      if case .text(let name)? = fields[Slot.frame] {
        if times.isEmpty { frame = name }
        guard kind != .pose || frame == name else {
          throw MessageFault("its frame is \(name.onOneLine.prefix(60)), that of the first \(frame.onOneLine.prefix(60))")
        }
      }
      try add(fields, kind, at: time, message, usesStamps: usesStamps)
      if isUnstamped {
        unstamped += 1
        unstampedPlaces.append(times.count)
      }
      times.append(time)
      numbers.append(messages)
    } catch {
      if unreadable.count == 0 { unreadable.first = "message \(messages): \(error)" }
      unreadable.count += 1
    }
  }

  /// The time that a message has, or else that of its logging.
  private func time(_ fields: [MessageValue?], _ logged: UInt64, usesStamps: Bool) throws -> Timestamp {
    if usesStamps, let stamp = try Self.stamp(fields) {
      if stamp != 0 { return Timestamp(nanoseconds: stamp) }
      isUnstamped = logged != 0
    }
    guard logged < 4_000_000_000_000_000_000 else { throw MessageFault("it was logged at \(logged) ns") }
    return Timestamp(nanoseconds: Int64(logged))
  }

  /// The time in a message in nanoseconds; `nil` in one that has none.
  private static func stamp(_ fields: [MessageValue?]) throws -> Int64? {
    func whole(_ slot: Int) throws -> Int64? {
      switch fields[slot] {
      case .number(let number)?:
        guard let whole = Int64(exactly: number) else { throw MessageFault("its time is \(number)") }
        return whole
      // JSON of Protocol Buffers has numbers of 64 bits as texts.
      case .text(let text)?:
        guard let whole = Int64(text) else { throw MessageFault("its time is \(text.onOneLine.prefix(40))") }
        return whole
      default: return nil
      }
    }
    if case .text(let text)? = fields[Slot.seconds], fields[Slot.nanoseconds] == nil, let time = UnixTime.nanoseconds(rfc3339: text) {
      return time
    }
    let (seconds, rest) = (try whole(Slot.seconds), try whole(Slot.nanoseconds))
    if seconds == nil, rest == nil { return nil }
    guard let seconds, let rest, abs(seconds) < 4_000_000_000, (0..<1_000_000_000).contains(rest) else {
      throw MessageFault("its time is \(seconds.map { "\($0)" } ?? "no") s and \(rest.map { "\($0)" } ?? "no") ns")
    }
    return seconds * 1_000_000_000 + rest
  }

  /// Leaves out messages whose own time is 0 where that of their logging is on another clock than the times of the others.
  func finish() {
    groups.sort { ($1.names.count, $0.names.joined()) < ($0.names.count, $1.names.joined()) }
    guard unstamped > 0, unstamped < times.count, places.count == times.count || poses.count == times.count else { return }
    let missing = Set(unstampedPlaces)
    let stamped = times.indices.filter { !missing.contains($0) }
    guard let one = stamped.first, abs(Double(times[one].nanoseconds) - Double(logged.first)) > Self.sameClock else { return }
    unreadable.first = unreadable.count == 0 ? "its time is 0, and that of its logging is on another clock" : unreadable.first
    unreadable.count += missing.count
    unstamped = 0
    (times, numbers) = (stamped.map { times[$0] }, stamped.map { numbers[$0] })
    if !places.isEmpty { places = stamped.map { places[$0] } }
    if !poses.isEmpty { poses = stamped.map { poses[$0] } }
  }
  /// An hour, in nanoseconds.
  private static let sameClock = 3.6e12

  private func add(
    _ fields: [MessageValue?], _ kind: TopicKind, at time: Timestamp, _ message: MCAPLog.Message, usesStamps: Bool
  ) throws {
    switch kind {
    case .image, .video, .raw: try addImage(fields, kind, message)
    case .calibration: try addCalibration(fields, at: time)
    case .pose:
      guard let pose = Self.pose(fields) else { throw MessageFault("its pose is not a position and a quaternion of length 1") }
      if case .text(let name)? = fields[Slot.body] {
        if poses.isEmpty { body = name }
        guard body == name else {
          throw MessageFault("it is the pose of \(name.onOneLine.prefix(60)), the first of \(body.onOneLine.prefix(60))")
        }
      }
      poses.append(pose)
    case .transforms: try addTransforms(fields, message.logged, at: time, usesStamps: usesStamps)
    case .imu:
      let numbers = fields[Slot.readings..<(Slot.readings + 6)].compactMap {
        if case .number(let number)? = $0 { Float(number) } else { nil }
      }
      guard numbers.count == 6, numbers.allSatisfy(\.isFinite) else { throw MessageFault("its readings are not six finite numbers") }
      readings.add(time, numbers, from: messages)
    case .joints, .numbers: try addNumbers(fields, at: time)
    }
  }

  private func addImage(_ fields: [MessageValue?], _ kind: TopicKind, _ message: MCAPLog.Message) throws {
    guard case .text(let words)? = fields[Slot.format] else { throw MessageFault("it has no format") }
    var (place, count): (MessagePlace, Int)
    switch fields[Slot.data] {
    case .bytes(let range)?: (place, count) = (message.place.part(range), range.count)
    case .text(let text)?:
      // JSON has Base64, which is decoded again when the image is read.
      (place, count) = (message.place, text.utf8.count / 4 * 3)
      place.isText = true
    default: throw MessageFault("its data are no bytes")
    }
    guard count > 0 else { throw MessageFault("it has no data") }
    if kind == .raw {
      let found = try RawLayout(fields, bytes: count)
      guard layout == nil || layout == found else {
        throw MessageFault("it is \(found.words), the first \(layout?.words ?? "")")
      }
      layout = found
    }
    if format.isEmpty { format = words }
    let plain = words.lowercased()
    if !plain.contains("jpeg"), !plain.contains("jpg") { areJPEG = false }
    // Any image is known by its first bytes.
    guard format == words || kind == .image && format.contains("compressedDepth") == words.contains("compressedDepth") else {
      throw MessageFault("its format is \(words.onOneLine.prefix(40)), that of the first \(format.prefix(40))")
    }
    places.append(place)
  }

  private func addCalibration(_ fields: [MessageValue?], at time: Timestamp) throws {
    guard case .numbers(let given)? = fields[Slot.matrix], given.count == 9, case .number(let width)? = fields[Slot.width],
      case .number(let height)? = fields[Slot.height], (1...65_535).contains(width), (1...65_535).contains(height)
    else { throw MessageFault("it has no matrix of 9 numbers and no size") }
    var matrices = [given]
    // Three rows of four numbers; the fourth is the distance between two cameras. All are 0 where nobody rectifies.
    if case .numbers(let projection)? = fields[Slot.projection], projection.count == 12, projection[0] > 0 {
      matrices.append(projection.indices.filter { $0 % 4 < 3 }.map { projection[$0] })
    }
    if case .numbers(let lens)? = fields[Slot.distortion], lens.contains(where: { abs($0) > 1e-9 }) { hasDistortion = true }
    if case .text(let model)? = fields[Slot.model], !model.isEmpty { lens = String(model.onOneLine.prefix(40)) }
    func whole(_ slot: Int) -> Int { if case .number(let number)? = fields[slot], (0...65_535).contains(number) { Int(number) } else { 0 } }
    var size = ImageSize(width: Int(width), height: Int(height))
    // Images may be a part of the sensor's, and of fewer pixels: numbers are of all of it.
    let (partWidth, partHeight) = (whole(Slot.part + 2), whole(Slot.part + 3))
    if partWidth > 0, partHeight > 0 {
      size = ImageSize(width: partWidth, height: partHeight)
      for number in matrices.indices {
        matrices[number][2] -= Double(whole(Slot.part))
        matrices[number][5] -= Double(whole(Slot.part + 1))
      }
    }
    let (across, down) = (max(whole(Slot.part + 4), 1), max(whole(Slot.part + 5), 1))
    if across > 1 || down > 1 {
      size = ImageSize(width: max(size.width / across, 1), height: max(size.height / down, 1))
      for number in matrices.indices {
        for (place, factor) in [(0, across), (4, down)] { matrices[number][place] /= Double(factor) }
        for (place, factor) in [(2, across), (5, down)] {
          matrices[number][place] = (matrices[number][place] + 0.5) / Double(factor) - 0.5
        }
      }
    }
    // Most cameras repeat the same all the time.
    let found = Calibration(first: time, last: time, size: size, matrix: matrices[0], rectified: matrices.count > 1 ? matrices[1] : nil)
    if let last = calibrations.last, last.size == size, last.matrix == found.matrix, last.rectified == found.rectified {
      calibrations[calibrations.count - 1].last = max(last.last, time)
    } else {
      calibrations.append(found)
    }
  }

  private static func pose(_ fields: [MessageValue?]) -> Pose? {
    Pose(
      measured: fields[Slot.pose..<(Slot.pose + 7)].compactMap { if case .number(let number)? = $0 { number } else { nil } })
  }

  private func addTransforms(_ fields: [MessageValue?], _ logged: UInt64, at time: Timestamp, usesStamps: Bool) throws {
    guard case .records(let records)? = fields[Slot.body + 1] else { return try addTransform(fields, at: time) }
    if records.isEmpty, case .number? = fields[Slot.pose] { return try addTransform(fields, at: time) }
    var fault: (any Error)?
    for record in records {
      do {
        try addTransform(record, at: self.time(record, logged, usesStamps: usesStamps))
      } catch {
        fault = fault ?? error
      }
    }
    if let fault { throw fault }
  }

  private func addTransform(_ fields: [MessageValue?], at time: Timestamp) throws {
    guard case .text(let parent)? = fields[Slot.frame], case .text(let child)? = fields[Slot.body], let pose = Self.pose(fields) else {
      throw MessageFault("a transform has no frames, or is not a position and a quaternion of length 1")
    }
    transforms.append((time, parent, child, pose))
  }

  private func addNumbers(_ fields: [MessageValue?], at time: Timestamp) throws {
    let values: [Double]
    switch fields[Slot.values] {
    case .numbers(let list)?: values = list
    case .number(let number)?: values = [number]
    default: throw MessageFault("it has no numbers")
    }
    var found: [String] = []
    if case .texts(let list)? = fields[Slot.names] { found = list }
    guard (1...4096).contains(values.count), found.isEmpty || found.count == values.count else {
      throw MessageFault(
        "it has \(values.count) numbers\(found.isEmpty ? "" : " for \(found.count) names"); expected 1 to 4096"
          + (values.isEmpty && kind == .joints ? ", the positions of joints" : ""))
    }
    if groups.isEmpty, kind == .numbers, case .text(let text)? = fields[Slot.unit] { unit = text }
    let place = try group(of: found, count: values.count)
    // The same joints may come in another order.
    let order = groups[place].names == found ? Array(values.indices) : groups[place].names.compactMap { found.firstIndex(of: $0) }
    guard order.count == values.count else { throw MessageFault("a name of a joint is there twice") }
    for number in order { groups[place].columns.add(values[number]) }
    groups[place].columns.endLine(messages, at: time)
  }

  /// The place of the group with these names, in any order.
  private func group(of names: [String], count: Int) throws -> Int {
    if let known = groups.firstIndex(where: { $0.names == names && (!names.isEmpty || $0.columns.width == count) }) { return known }
    if let known = groups.firstIndex(where: { $0.names.count == names.count && Set($0.names) == Set(names) && !names.isEmpty }) {
      return known
    }
    let isFirst = groups.isEmpty
    guard isFirst || kind == .joints && !names.isEmpty && groups.count < Self.mostGroups else {
      throw MessageFault(
        "it has \(count) numbers\(names.isEmpty ? "" : " (\(names.prefix(8).joined(separator: ", ").onOneLine))"), the first \(groups.first?.columns.width ?? 0)"
      )
    }
    groups.append(NumberGroup(names: names, columns: NumberColumns(width: count)))
    return groups.count - 1
  }
  private static let mostGroups = 16
}
