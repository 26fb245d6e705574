/// The readings of `encoders.json`: four joint angles in degrees, stamped by the phone on arrival and by the sender when
/// measured.
struct EncodersFile {
  /// In the order of the stored vector.
  static let channels = ["index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]
  /// What the firmware sends when a sensor does not answer. No reading equals it: angles are multiples of 45/512 degrees.
  static let failedRead: Float = -1

  /// The readings as a stream on the phone's Unix clock, each channel unwrapped; `nil` when there are none.
  private(set) var stream: Stream?

  init(_ inputs: TakeInputs, _ file: Int, limit: Int, findings: inout [Finding]) throws {
    var arrivals: [Timestamp] = []
    var sent: [UInt32] = []
    var angles: [Float] = []
    try inputs.readJSON(file, limit: limit) { reader in
      guard try reader.nextIsArray else {
        throw TakeFailure("json-type", "expected a list of readings, found \(try reader.describeNext())")
      }
      try reader.beginArray()
      var isFirst = true
      while try reader.nextElement(isFirst: &isFirst) {
        let reading = try Self.reading(reader, index: arrivals.count)
        arrivals.append(reading.arrival)
        sent.append(reading.sent)
        angles += reading.angles
      }
      try reader.expectEnd()
    }
    guard !arrivals.isEmpty else { return }
    let order = arrivals.indices.sorted { (arrivals[$0], $0) < (arrivals[$1], $1) }
    let width = Self.channels.count
    var sorted = order.flatMap { angles[($0 * width)..<(($0 + 1) * width)] }
    for channel in 0..<width {
      let failed = Self.unwrap(&sorted, channel: channel, width: width)
      if failed > 0 {
        let isDead = failed == order.count
        findings.append(
          Finding(
            .warning, isDead ? "joint-dead" : "joint-read-failed",
            isDead ? "the sensor never answered" : "readings of -1, the sensor's word for no answer, are masked",
            file: "encoders.json", field: ".\(Self.channels[channel])", count: failed))
      }
    }
    stream = Stream(
      spec: StreamSpec(kind: .numbers, type: .float32, shape: [width], unit: "degree", clock: .phoneUnix),
      source: NumbersSource(width: width, values: sorted), timestamps: order.map { arrivals[$0] },
      sourceIndex: order.map { Int64($0) })
    stream?.senderMilliseconds = order.map { sent[$0] }
  }

  /// Turns failed readings of one channel into NaN and removes the jumps of 360 degrees between valid ones, starting
  /// within (-180, 180]. Returns how many had failed.
  ///
  /// Masking comes first: a sentinel in between would shift everything after it by a turn.
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
      let turns =
        if let previous { ((previous - angle) / 360).rounded() } else { -((angle - 180) / 360).rounded(.up) }
      let unwrapped = angle + turns * 360
      angles[index] = Float(unwrapped)
      previous = unwrapped
    }
    return failed
  }

  private struct Reading {
    var arrival: Timestamp
    var sent: UInt32
    var angles: [Float]
  }

  private static func reading(_ reader: JSONReader, index: Int) throws -> Reading {
    func failure(_ key: String, _ message: String) -> TakeFailure {
      TakeFailure("json-type", message, field: "[\(index)]" + (key.isEmpty ? "" : ".\(key)"))
    }
    func mismatch(_ key: String, _ expected: String) -> TakeFailure {
      failure(key, "expected \(expected), found \((try? reader.describeNext()) ?? "something else")")
    }
    guard try reader.nextIsObject else { throw mismatch("", "an object") }
    try reader.beginObject()
    var arrival: Timestamp?
    var sent: UInt32?
    var angles = [Float?](repeating: nil, count: channels.count)
    var isFirst = true
    while let key = try reader.nextKey(isFirst: &isFirst) {
      switch key {
      case "timestamp":
        guard try reader.nextIsNumber else { throw mismatch(key, "a number") }
        arrival = try reader.seconds()
      case "esp_timestamp_ms":
        guard try reader.nextIsNumber else { throw mismatch(key, "a whole number") }
        let value = try reader.number()
        sent = UInt32(exactly: value)
        if sent == nil { throw failure(key, "expected milliseconds in 32 bits, found \(value)") }
      default:
        if let channel = channels.firstIndex(of: key) {
          if try reader.skipNull() {
            angles[channel] = .nan
          } else {
            guard try reader.nextIsNumber else { throw mismatch(key, "a number") }
            angles[channel] = Float(try reader.number())
          }
        } else {
          try reader.skip()
        }
      }
    }
    guard let arrival else { throw failure("timestamp", "expected seconds") }
    guard let sent else { throw failure("esp_timestamp_ms", "the key is missing") }
    if let missing = angles.firstIndex(of: nil) { throw failure(channels[missing], "the key is missing") }
    return Reading(arrival: arrival, sent: sent, angles: angles.compactMap(\.self))
  }
}
