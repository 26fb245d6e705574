import Model
import Steps

/// The readings of `imu.json`: user acceleration in g, without gravity, and angular velocity in rad/s, in the device's axes, with the
/// phone's time of handling.
struct IMUFile {
  static let name = "imu.json"

  /// Acceleration in m/s² and angular velocity in rad/s; `nil` when there are no readings.
  private(set) var stream: SampleStream?
  /// Number of readings in the file.
  let count: Int

  /// Time from the first reading to the last, in nanoseconds.
  var span: Int64? {
    guard let first = stream?.timestamps.first, let last = stream?.timestamps.last else { return nil }
    return last.since(first)
  }

  init(_ inputs: TakeInputs, _ file: Int, limit: Int, notes: FindingCollector) throws {
    var table = InertialTable()
    try JSONRecord.forEach(in: inputs, file, limit: limit, "readings") { record in
      var time: Timestamp?
      var vectors: [String: [Float]] = [:]
      try record.forEachKey { key in
        switch key {
        case "timestamp": time = try record.seconds(key)
        case "accel": vectors[key] = try record.numbers(key, count: 3, "three numbers").map { Float($0 * InertialTable.gravity) }
        case "gyro": vectors[key] = try record.numbers(key, count: 3, "three numbers").map { Float($0) }
        default: try record.reader.skip()
        }
      }
      let values =
        try record.required(vectors["accel"], "", "expected accel and gyro")
        + record.required(vectors["gyro"], "", "expected accel and gyro")
      table.add(try record.required(time, "timestamp", "expected seconds"), values, from: record.index)
    }
    count = table.count
    stream = table.stream(
      clock: .phoneUnix, file: Self.name, in: .text(.entry, InputOrigin(inputs: inputs, entry: file)), notes: notes)
    stream?.spec.sourceUnit = "g"
  }
}
