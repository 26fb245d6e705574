import Model

/// Readings of an IMU in file order: acceleration in m/s² and angular velocity in rad/s, six numbers each.
struct InertialTable {
  private var times: [Timestamp] = []
  private var values: [Float] = []
  /// Positions among the readings added, including skipped ones.
  private var places: [Int64] = []
  /// Number of readings added.
  private(set) var count = 0
  private var skipped = 0

  /// Adds a reading; one with a non-finite number is skipped.
  mutating func add(_ time: Timestamp, _ reading: [Float]) {
    defer { count += 1 }
    guard reading.allSatisfy(\.isFinite) else { return skip() }
    times.append(time)
    values += reading
    places.append(Int64(count))
  }

  /// Counts a line or object that is not a reading.
  mutating func skip() { skipped += 1 }

  /// The readings in ascending time; `nil` when there are none.
  func stream(clock: Clock, file: String, notes: Notes) -> SampleStream? {
    if skipped > 0 { notes.add(.imuUnusable, "readings that are not six finite numbers are skipped", file: file, count: skipped) }
    guard !times.isEmpty else { return nil }
    let order = times.indices.sorted { (times[$0], $0) < (times[$1], $1) }
    return SampleStream(
      spec: StreamSpec(kind: .inertial, type: .float32, shape: [6], unit: "m/s^2, rad/s", clock: clock),
      source: VectorSource(width: 6, values: order.flatMap { values[($0 * 6)..<($0 * 6 + 6)] }),
      timestamps: order.map { times[$0] }, sourceIndex: order.map { places[$0] })
  }
}
