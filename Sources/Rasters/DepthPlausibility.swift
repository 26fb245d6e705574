package import Model

/// Whether the depth of an episode is as far as phones measure, by a few of its maps. Millimeters that are taken for meters, or floats of the other byte
/// order, are not; nor are maps without a single depth.
package enum DepthPlausibility {
  /// Number of maps that are looked at: evenly over the stream, or, of one that is read from its beginning, the first ones.
  private static let maps = 3
  /// Number of maps to examine where the first are empty, before all are called empty.
  private static let mapsOfAnEmptyStream = 100
  /// Values of a map that are looked at.
  private static let values = 2000
  /// Range of the median of phones' measurements, in meters.
  private static let usual: ClosedRange<Float> = 0.1...10
  /// Range of a single value; maps with more than a tenth of their values outside are no depth.
  private static let possible: ClosedRange<Float> = 0.001...1000

  /// The finding that depth is not in the unit that it is said to be; `nil` where it is, and for depth that cannot be read in any order.
  package static func finding(_ episode: Episode) -> Finding? {
    for (name, depth) in episode.streams.sorted(by: { $0.key < $1.key }) where depth.spec.kind == .depth || name == .depthPoint {
      let samples = Set((depth.rows ?? []).compactMap { $0?.nearest }).sorted()
      let (read, meters) = meters(of: chosen(maps, of: samples, depth), depth)
      if let finding = finding(meters) { return finding }
      guard read > 0, meters.isEmpty else { continue }
      let (all, others) = Self.meters(of: chosen(mapsOfAnEmptyStream, of: samples, depth), depth)
      guard others.isEmpty else { continue }
      return Finding(
        .depthSuspicious, "of \(all) of its depth maps none has a depth in any pixel; expected 0.1 to 10 m, as phones measure")
    }
    return nil
  }

  private static func chosen(_ count: Int, of samples: [Int], _ depth: SampleStream) -> [Int] {
    guard samples.count > count, case .random = depth.source.access else { return Array(samples.prefix(count)) }
    return (0..<count).map { samples[$0 * (samples.count - 1) / max(count - 1, 1)] }
  }

  /// Returns the number of maps that can be read, and their values in meters, without those that are none. A map that cannot be read has a
  /// finding of its own.
  private static func meters(of samples: [Int], _ depth: SampleStream) -> (read: Int, meters: [Float]) {
    guard var cursor = try? depth.source.makeCursor(SampleRequest(form: .decoded)) else { return (0, []) }
    var bytes: [UInt8] = []
    var (read, known): (Int, [Float]) = (0, [])
    for sample in samples where (try? cursor.read(sample, into: &bytes)) != nil && bytes.count == depth.spec.sampleBytes {
      let meters = depth.spec.meters(bytes)
      read += 1
      known += stride(from: 0, to: meters.count, by: max(1, meters.count / values)).map { meters[$0] }.filter { $0 > 0 }
    }
    return (read, known)
  }

  static func finding(_ meters: [Float]) -> Finding? {
    guard !meters.isEmpty else { return nil }
    let median = meters.sorted()[meters.count / 2]
    let impossible = meters.count { !possible.contains($0) }
    if !usual.contains(median) {
      return Finding(
        .depthSuspicious,
        "half of the depth is beyond \(median) m; expected 0.1 to 10 m, as phones measure: its unit, or its byte order, may be another")
    }
    guard impossible * 10 > meters.count else { return nil }
    return Finding(
      .depthSuspicious,
      "\(impossible * 100 / meters.count) % of the depth is below 1 mm or beyond 1000 m: its byte order, or its type, may be another")
  }
}
