import Model
import Steps

/// Lines of numbers with times, as the samples of a stream: 32-bit floats, of which those that are not finite are absent.
struct NumberColumns {
  let width: Int
  private var times: [Timestamp] = []
  private var values: [Float] = []
  private var lines: [Int] = []
  private var (rounded, beyond) = (0, 0)

  init(width: Int) { self.width = width }

  /// Number of lines.
  var count: Int { times.count }

  /// Adds a number of the line that `endLine` ends.
  mutating func add(_ number: Double) {
    let value = Float(number)
    values.append(value.isFinite ? value : .nan)
    if number.isFinite, !value.isFinite {
      beyond += 1
    } else if Double(value) != number, number == number.rounded() || value == 0 {
      rounded += 1
    }
  }

  mutating func endLine(_ number: Int, at time: Timestamp) {
    times.append(time)
    lines.append(number)
  }

  /// The lines in ascending time, each time once; notes numbers that floats do not hold.
  ///
  /// - Parameter columns: Their names, where they have any.
  func stream(unit: String, clock: Clock, columns: [String]?, in place: RecordOrigins.Place, file: String, _ notes: FindingCollector)
    -> SampleStream
  {
    if rounded > 0 {
      notes.add(
        .numbersRounded, "numbers that 32-bit floats do not hold: whole ones above 16,777,216 are rounded, tiny ones are 0", file: file,
        count: rounded)
    }
    if beyond > 0 {
      notes.add(.numbersRounded, "numbers beyond 3.4e38, the greatest of 32-bit floats, are absent", file: file, count: beyond)
    }
    let order = SensorTimes(times, of: "lines", file: file, notes: notes).order
    var spec = StreamSpec(kind: .vector, type: .float32, shape: [width], unit: unit, clock: clock)
    if let columns { spec.elements = columns }
    return SampleStream(
      spec: spec,
      source: RecordOrigins(order.map { lines[$0] }, in: place)
        .source(width: width, order.flatMap { values[($0 * width)..<(($0 + 1) * width)] }),
      timestamps: order.map { times[$0] }, sourceIndex: order.map { Int64($0) })
  }
}
