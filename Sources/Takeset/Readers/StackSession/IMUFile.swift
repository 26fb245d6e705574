import Model

/// The readings of `imu.json`: user acceleration in g, without gravity, and turn rates in rad/s, in the device's axes, stamped by the
/// phone when it handled them.
struct IMUFile {
  /// Conventional standard acceleration of gravity (CGPM 1901), m/s².
  static let gravity = 9.80665

  /// Acceleration in m/s² and turn rate in rad/s; `nil` when there are no readings.
  private(set) var stream: SampleStream?
  /// Readings in the file.
  let count: Int

  /// From the first reading to the last, in nanoseconds.
  var span: Int64? {
    guard let first = stream?.timestamps.first, let last = stream?.timestamps.last else { return nil }
    return last.since(first)
  }

  init(_ inputs: TakeInputs, _ file: Int, limit: Int, notes: Notes) throws {
    var times: [Timestamp] = []
    var values: [Float] = []
    try inputs.readJSON(file, limit: limit) { reader in
      guard try reader.nextIsArray else {
        throw TakeFailure(.jsonType, "expected a list of readings, found \(try reader.describeNext())")
      }
      try reader.beginArray()
      var isFirst = true
      while try reader.nextElement(isFirst: &isFirst) {
        let reading = try Self.reading(reader, index: times.count)
        times.append(reading.time)
        values += reading.values
      }
      try reader.expectEnd()
    }
    count = times.count
    guard !times.isEmpty else { return }
    let order = times.indices.sorted { (times[$0], $0) < (times[$1], $1) }
    let usable = order.filter { index in values[(index * 6)..<(index * 6 + 6)].allSatisfy(\.isFinite) }
    if usable.count < order.count {
      notes.add(.imuUnusable, "readings that are not finite are left out", file: "imu.json", count: order.count - usable.count)
    }
    guard !usable.isEmpty else { return }
    stream = SampleStream(
      spec: StreamSpec(kind: .inertial, type: .float32, shape: [6], unit: "m/s^2, rad/s", clock: .phoneUnix),
      source: VectorSource(width: 6, values: usable.flatMap { values[($0 * 6)..<($0 * 6 + 6)] }),
      timestamps: usable.map { times[$0] }, sourceIndex: usable.map { Int64($0) })
    stream?.spec.sourceUnit = "g"
  }

  private static func reading(_ reader: JSONReader, index: Int) throws -> (time: Timestamp, values: [Float]) {
    func failure(_ key: String, _ message: String) -> TakeFailure {
      TakeFailure(.jsonType, message, field: "[\(index)]" + (key.isEmpty ? "" : ".\(key)"))
    }
    func found() -> String { (try? reader.describeNext()) ?? "something else" }
    guard try reader.nextIsObject else { throw failure("", "expected an object, found \(found())") }
    try reader.beginObject()
    var time: Timestamp?
    var vectors: [String: [Float]] = [:]
    var isFirst = true
    while let key = try reader.nextKey(isFirst: &isFirst) {
      switch key {
      case "timestamp":
        guard try reader.nextIsNumber else { throw failure(key, "expected a number, found \(found())") }
        time = try reader.seconds()
      case "accel", "gyro":
        guard try reader.nextIsArray else { throw failure(key, "expected three numbers, found \(found())") }
        var vector: [Float] = []
        var isFirstNumber = true
        try reader.beginArray()
        while try reader.nextElement(isFirst: &isFirstNumber) {
          guard try reader.nextIsNumber, vector.count < 3 else { throw failure(key, "expected three numbers, found \(found())") }
          vector.append(Float(try reader.number() * (key == "accel" ? gravity : 1)))
        }
        guard vector.count == 3 else { throw failure(key, "expected three numbers, found \(vector.count)") }
        vectors[key] = vector
      default: try reader.skip()
      }
    }
    guard let time else { throw failure("timestamp", "expected seconds") }
    guard let accel = vectors["accel"], let gyro = vectors["gyro"] else { throw failure("", "expected accel and gyro") }
    return (time, accel + gyro)
  }
}
