import Model

/// Readings of an IMU in file order: acceleration in m/s² and angular velocity in rad/s, six numbers each.
struct InertialTable {
  /// Conventional standard acceleration of gravity (CGPM 1901), m/s².
  static let gravity = 9.80665

  private var times: [Timestamp] = []
  private var values: [Float] = []
  /// Positions among the readings added, including skipped ones.
  private var places: [Int64] = []
  /// Entries or lines of the file.
  private var records: [Int32] = []
  /// Number of readings added.
  private(set) var count = 0
  private var skipped = 0

  /// Adds a reading from an entry or line; one with a non-finite number is skipped.
  mutating func add(_ time: Timestamp, _ reading: [Float], from record: Int) {
    defer { count += 1 }
    guard reading.allSatisfy(\.isFinite) else { return skip() }
    times.append(time)
    values += reading
    places.append(Int64(count))
    records.append(Int32(clamping: record))
  }

  /// The median of the accelerations' norms; `nil` without readings.
  var medianAcceleration: Double? {
    let norms = stride(from: 0, to: values.count, by: 6).map { start -> Double in
      let squares = values[start..<(start + 3)].reduce(0.0) { $0 + Double($1) * Double($1) }
      return squares.squareRoot()
    }.sorted()
    return norms.isEmpty ? nil : norms[norms.count / 2]
  }

  mutating func scaleAccelerations(by factor: Double) {
    for index in values.indices where index % 6 < 3 { values[index] = Float(Double(values[index]) * factor) }
  }

  /// Notes a sensor whose readings are all the same: even one that lies still has noise.
  func examine(_ file: String, _ notes: FindingCollector) {
    guard times.count >= Self.fewestConstant else { return }
    for (first, what) in [(0, "accelerations"), (3, "rotations")]
    where values.indices.allSatisfy({ $0 % 6 / 3 != first / 3 || values[$0] == values[$0 % 6] }) {
      notes.add(.imuImplausible, "its \(times.count) \(what) are all the same, as where a sensor measures nothing", file: file)
    }
  }
  private static let fewestConstant = 18

  /// Notes accelerations that cannot be in m/s², of a sensor that feels gravity.
  func noteGravity(_ file: String, _ notes: FindingCollector) {
    guard times.count >= Self.fewestConstant, let median = medianAcceleration, !Self.gravities.contains(median) else { return }
    notes.add(
      .imuImplausible,
      "half of the accelerations are beyond \(Float(median)) m/s²; expected 9.8 of a sensor that feels gravity: their unit may be another",
      file: file)
  }
  /// Range of the median of accelerations with gravity, in m/s²: moved hands feel twice or half of it.
  private static let gravities = 4.9...19.6

  /// Counts a line or object that is not a reading.
  mutating func skip() { skipped += 1 }

  /// The readings in ascending time, each time once; `nil` when there are none.
  func stream(clock: Clock, file: String, in place: RecordOrigins.Place, notes: FindingCollector) -> SampleStream? {
    if skipped > 0 { notes.add(.imuUnusable, "readings that are not six finite numbers are skipped", file: file, count: skipped) }
    guard !times.isEmpty else { return nil }
    examine(file, notes)
    let order = SensorTimes(times, file: file, notes: notes).order
    return SampleStream(
      spec: StreamSpec(kind: .inertial, type: .float32, shape: [6], unit: "m/s^2, rad/s", clock: clock),
      source: RecordOrigins(order.map { Int(records[$0]) }, in: place)
        .source(width: 6, order.flatMap { values[($0 * 6)..<($0 * 6 + 6)] }),
      timestamps: order.map { times[$0] }, sourceIndex: order.map { places[$0] })
  }
}
