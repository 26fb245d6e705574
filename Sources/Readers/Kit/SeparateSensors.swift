import Model

/// Readings of an accelerometer in m/s² and a gyroscope in rad/s that have times of their own, as most phones write them.
struct SeparateSensors {
  /// The longest time between two accelerations that are interpolated between, in nanoseconds.
  private static let reach: Int64 = 100_000_000

  private struct Reading {
    var time: Timestamp
    var values: [Float]
    /// Entry or line of the file.
    var record: Int
  }

  private var accelerations: [Reading] = []
  private var rotations: [Reading] = []
  private var skipped = 0

  enum Sensor { case accelerometer, gyroscope }

  /// Adds a reading of three numbers from an entry or line; one with another number of them, or without a time, is skipped.
  mutating func add(_ sensor: Sensor, _ time: Timestamp?, _ values: [Double], from record: Int) {
    let floats = values.map { Float($0) }
    guard let time, floats.count == 3, floats.allSatisfy(\.isFinite) else { return skipped += 1 }
    let reading = Reading(time: time, values: floats, record: record)
    if sensor == .gyroscope { rotations.append(reading) } else { accelerations.append(reading) }
  }

  /// A reading for each of the gyroscope, with the acceleration interpolated to its time; those before the first acceleration, after the last and
  /// in gaps have none and are left out.
  ///
  /// - Parameter file: The file of the readings, for the finding that nothing is left of them.
  func table(_ file: String, _ notes: FindingCollector) -> InertialTable {
    let table = merged(file, notes)
    table.noteGravity(file, notes)
    if table.count == 0, !accelerations.isEmpty || !rotations.isEmpty {
      notes.add(
        .imuUnusable,
        "there are \(accelerations.count) accelerations and \(rotations.count) rotations, and no rotation between two accelerations",
        file: file)
    }
    return table
  }

  private func ascending(_ readings: [Reading], _ what: String, _ file: String, _ notes: FindingCollector) -> [Reading] {
    SensorTimes(readings.map(\.time), of: what, file: file, notes: notes).order.map { readings[$0] }
  }

  private func merged(_ file: String, _ notes: FindingCollector) -> InertialTable {
    var table = InertialTable()
    for _ in 0..<skipped { table.skip() }
    let known = ascending(accelerations, "accelerations", file, notes)
    var next = 0  // the first acceleration at or after the time
    for reading in ascending(rotations, "rotations", file, notes) {
      while next < known.count, known[next].time < reading.time { next += 1 }
      guard next < known.count else { break }
      let after = known[next]
      if after.time == reading.time {
        table.add(reading.time, after.values + reading.values, from: reading.record)
      } else if next > 0 {
        let before = known[next - 1]
        let span = after.time.since(before.time)
        guard span <= Self.reach else { continue }
        let weight = Float(Double(reading.time.since(before.time)) / Double(span))
        let acceleration = zip(before.values, after.values).map { $0 + ($1 - $0) * weight }
        table.add(reading.time, acceleration + reading.values, from: reading.record)
      }
    }
    return table
  }
}
