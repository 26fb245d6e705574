import Model
import Steps

/// The readings of `encoders.json`: four joint angles in degrees, with the phone's arrival time and the sender's time of measurement.
struct EncodersFile {
  /// Channel names, in the order of the stored vector.
  static let channels = ["index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]
  /// Value that the firmware sends when a sensor does not answer. No reading equals it: angles are multiples of 45/512 degrees.
  static let failedRead: Float = -1

  /// The readings as a stream on the phone's Unix clock, each channel unwrapped; `nil` when there are none.
  private(set) var stream: SampleStream?
  /// Angle range, which depends on the firmware version and is inferred from the angles: `0..360`, `signed`, or `unknown`.
  private(set) var range = "unknown"
  /// Number of readings in the file.
  let count: Int

  /// A longer gap in the readings is a gap in the radio link.
  private static let linkGap: Int64 = 200_000_000
  /// A first reading that arrives later than this after the start is late.
  private static let lateStart: Int64 = 1_100_000_000

  private let name: String

  /// Reads `encoders.json`, or a table that a laptop logged: `encoders_….csv`.
  ///
  /// - Parameter signs: Factor for each channel, 1 or -1.
  /// - Parameter csvOffset: Seconds to add to the laptop's clock to get the phone's.
  init(
    _ inputs: TakeInputs, _ file: Int, limit: Int, startTime: Int64?, signs: [Float], csvOffset: Double?, notes: FindingCollector
  ) throws {
    name = inputs.entries[file].path
    var readings: [Reading] = []
    var clock = Clock.phoneUnix
    if name.hasSuffix(".csv") {
      readings = try Self.table(inputs, file, limit: limit, offset: csvOffset, notes)
      if csvOffset == nil { clock = .laptop }
    } else {
      try JSONRecord.forEach(in: inputs, file, limit: limit, "readings") { readings.append(try Self.reading($0)) }
    }
    count = readings.count
    let arrivals = readings.map(\.arrival)
    let angles = readings.flatMap(\.angles)
    guard !arrivals.isEmpty else { return }
    let order = arrivals.indices.sorted { (arrivals[$0], $0) < (arrivals[$1], $1) }
    let width = Self.channels.count
    let raw = order.flatMap { angles[($0 * width)..<(($0 + 1) * width)] }
    var sorted = raw
    range = Self.range(of: raw)
    for channel in 0..<width {
      let failed = Self.unwrap(&sorted, channel: channel, width: width)
      if failed > 0 {
        let isDead = failed == order.count
        notes.add(
          isDead ? .jointDead : .jointReadFailed,
          isDead ? "the sensor never answered" : "readings of -1, the sensor's value for no answer, are masked",
          file: name, field: ".\(Self.channels[channel])", count: failed)
      }
    }
    noteLink(order.map { arrivals[$0] }, clock == .laptop ? nil : startTime, notes)
    noteSteps(sorted, order.map { arrivals[$0] }, notes)
    for index in sorted.indices { sorted[index] *= signs[index % width] }
    let records = RecordOrigins(
      name.hasSuffix(".csv") ? .line : .entry, order.map { readings[$0].record }, in: InputOrigin(inputs: inputs, entry: file))
    stream = SampleStream(
      spec: StreamSpec(kind: .angles, type: .float32, shape: [width], unit: "degree", clock: clock),
      source: records.source(width: width, sorted), timestamps: order.map { arrivals[$0] },
      sourceIndex: order.map { Int64($0) })
    stream?.spec.elements = Self.channels
    stream?.senderMilliseconds = order.map { readings[$0].sent }
    stream?.raw = records.source(width: width, raw)
  }

  /// Angle range of the firmware: before 2026-02-20 it sends 0 to 360 degrees, later -180 to 180.
  private static func range(of raw: [Float]) -> String {
    let valid = raw.filter { $0 != failedRead && $0.isFinite }
    if valid.contains(where: { $0 < 0 }) { return "signed" }
    return valid.contains { $0 > 180 } ? "0..360" : "unknown"
  }

  private func noteLink(_ arrivals: [Timestamp], _ startTime: Int64?, _ notes: FindingCollector) {
    if let startTime, let first = arrivals.first, first.since(Timestamp(nanoseconds: startTime)) > Self.lateStart {
      notes.add(.jointsLate, "the first reading arrived more than 1.1 s after the recording began", file: name)
    }
    let gaps = zip(arrivals, arrivals.dropFirst()).count { $1.since($0) > Self.linkGap }
    if gaps > 0 {
      notes.add(.jointsGap, "the readings pause for more than 0.2 s; frames in the gap are masked", file: name, count: gaps)
    }
  }

  /// Notes a new zero, set while recording: every channel that answers steps at once.
  private func noteSteps(_ angles: [Float], _ arrivals: [Timestamp], _ notes: FindingCollector) {
    let width = Self.channels.count
    var steps = 0
    for index in arrivals.indices.dropFirst() where arrivals[index].since(arrivals[index - 1]) <= Self.linkGap {
      // No finger moves faster than 400 degrees per second.
      let least = max(8, 400 * Float(arrivals[index].since(arrivals[index - 1])) / 1e9)
      let changes = (0..<width).map { angles[index * width + $0] - angles[(index - 1) * width + $0] }.filter { !$0.isNaN }
      if changes.count > 1, changes.allSatisfy({ abs($0) > least }) { steps += 1 }
    }
    if steps > 0 {
      notes.add(
        .jointsRecalibrated, "all joints step by more than 8 degrees from one reading to the next, as when a new zero is set",
        file: name, count: steps)
    }
  }

  /// Replaces failed readings of one channel by NaN and removes the jumps of 360 degrees between valid ones, starting within (-180, 180].
  /// Returns the number of failed readings.
  ///
  /// Masking comes first: a sentinel in between would shift everything after it by a full rotation.
  static func unwrap(_ angles: inout [Float], channel: Int, width: Int) -> Int {
    var failed = 0
    var previous: Double?
    for index in stride(from: channel, to: angles.count, by: width) {
      let raw = angles[index]
      guard raw != failedRead, raw.isFinite else {
        angles[index] = .nan
        failed += 1
        continue
      }
      let angle = Double(raw)
      let rotations =
        if let previous { ((previous - angle) / 360).rounded() } else { -((angle - 180) / 360).rounded(.up) }
      let unwrapped = angle + rotations * 360
      angles[index] = Float(unwrapped)
      previous = unwrapped
    }
    return failed
  }

  /// The laptop logger's table: `local_time`, the sender's milliseconds, four angles; raw captures of the serial line lack the first column
  /// and the header.
  private static func table(
    _ inputs: TakeInputs, _ file: Int, limit: Int, offset: Double?, _ notes: FindingCollector
  ) throws -> [Reading] {
    let name = inputs.entries[file].path
    var readings: [Reading] = []
    var skipped = 0
    try CSVFile(inputs, file, limit: limit).forEachLine { line in
      if readings.isEmpty, line.text(0) == "local_time" || line.text(0) == "esp_timestamp_ms" { return }
      let own = line.fields.count - channels.count
      let angles = channels.indices.compactMap { line.number(own + $0) }
      guard own == 1 || own == 2, angles.count == channels.count, let milliseconds = line.number(own - 1).flatMap({ UInt32(exactly: $0) }),
        let time = own == 2 ? line.seconds(0) : Timestamp(nanoseconds: Int64(milliseconds) * 1_000_000)
      else {
        skipped += 1
        return
      }
      let arrival = offset.map { time.advanced(byNanoseconds: $0 * 1e9) } ?? time
      readings.append(Reading(arrival: arrival, sent: milliseconds, angles: angles.map { Float($0) }, record: line.number))
    }
    if skipped > 0 {
      notes.add(.encoderCSVLinesSkipped, "lines that are not readings are skipped", file: name, count: skipped)
    }
    if !readings.isEmpty, offset == nil {
      notes.add(
        .encoderCSVUnaligned,
        "readings are on the clock of the laptop that logged them; the option csv-clock-offset maps them to the phone's", file: name)
    }
    return readings
  }

  private struct Reading {
    var arrival: Timestamp
    var sent: UInt32
    var angles: [Float]
    /// Number of the entry or line.
    var record: Int
  }

  private static func reading(_ record: JSONRecord) throws -> Reading {
    var arrival: Timestamp?
    var sent: UInt32?
    var angles = [Float?](repeating: nil, count: channels.count)
    try record.forEachKey { key in
      switch key {
      case "timestamp", "local_time": arrival = try record.seconds(key)
      case "esp_timestamp_ms", "timestamp_ms":
        guard try record.reader.nextIsNumber else { throw record.mismatch(key, "a whole number") }
        let value = try record.reader.number()
        sent = UInt32(exactly: value)
        if sent == nil { throw record.failure(key, "expected milliseconds in 32 bits, found \(value)") }
      default:
        guard let channel = channels.firstIndex(of: key) else { return try record.reader.skip() }
        angles[channel] = try record.reader.skipNull() ? .nan : Float(record.number(key))
      }
    }
    let reading = Reading(
      arrival: try record.required(arrival, "timestamp", "expected seconds"), sent: try record.required(sent, "esp_timestamp_ms"),
      angles: angles.compactMap(\.self), record: record.index)
    if let missing = angles.firstIndex(of: nil) { throw record.failure(channels[missing], "the key is missing") }
    return reading
  }
}
