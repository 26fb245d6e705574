import Model

/// Joints paired with frames as the recorder's own loader does it: not the right way, but what its users' models were trained on.
///
/// Both clocks start at their first samples; a frame gets the nearest reading closer than 50 ms, or zeros; then each joint is unwrapped
/// with a period of 360 degrees, zeros and failed readings included.
enum ReferenceJoints {
  private static let limit: Int64 = 50_000_000

  static func align(_ stream: SampleStream, to frames: Episode.Frames) throws -> SampleStream {
    guard let firstFrame = frames.timestamps.first, let firstSample = stream.timestamps.first else { return stream }
    var cursor = try (stream.raw ?? stream.source).makeCursor(SampleRequest())
    let width = stream.spec.shape[0]
    var values: [Float] = []
    var bytes: [UInt8] = []
    let offset = firstFrame.since(firstSample)
    let shifted = stream.timestamps.map { $0.advanced(by: offset) }
    let rows = SampleMatching.nearest(in: shifted, to: frames.timestamps, limit: limit - 1)
    for row in rows {
      guard let row else {
        values += [Float](repeating: 0, count: width)
        continue
      }
      try cursor.read(row, into: &bytes)
      values += bytes.withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }
    }
    for channel in 0..<width { unwrap(&values, channel: channel, width: width) }
    var aligned = stream
    aligned.source = VectorSource(width: width, values: values)
    aligned.raw = nil
    aligned.spec.clock = frames.clock
    aligned.timestamps = zip(rows, frames.timestamps).map { row, frame in row.map { shifted[$0] } ?? frame }
    aligned.sourceIndex = rows.map { $0.map { stream.sourceIndex[$0] } ?? -1 }
    aligned.rows = frames.timestamps.indices.rows
    return aligned
  }

  /// Unwraps a channel like numpy.unwrap with period 360.
  private static func unwrap(_ values: inout [Float], channel: Int, width: Int) {
    var shift = 0.0
    var previous: Double?
    for index in stride(from: channel, to: values.count, by: width) {
      let value = Double(values[index])
      if let previous {
        let step = value - previous
        var wrapped = step + 180 - ((step + 180) / 360).rounded(.down) * 360 - 180
        if wrapped == -180, step > 0 { wrapped = 180 }
        if abs(step) >= 180 { shift += wrapped - step }
      }
      previous = value
      values[index] = Float(value + shift)
    }
  }
}
