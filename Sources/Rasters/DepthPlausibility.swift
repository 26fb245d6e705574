package import Model

/// Whether the depth of an episode is as far as phones measure, by a few of its maps. Millimeters that are taken for meters, or floats of the other byte
/// order, are not.
package enum DepthPlausibility {
  /// Number of maps that are looked at, evenly over the stream.
  private static let maps = 3
  /// Values of a map that are looked at.
  private static let values = 2000
  /// Where the median of what phones measure is, in meters.
  private static let usual: ClosedRange<Float> = 0.1...10
  /// What a single value may be; more than a tenth of others are no depth.
  private static let possible: ClosedRange<Float> = 0.001...1000

  /// The finding that depth is not in the unit that it is said to be; `nil` where it is, and for depth that cannot be read in any order.
  package static func finding(_ episode: Episode) -> Finding? {
    for (_, depth) in episode.streams.sorted(by: { $0.key < $1.key }) where depth.spec.kind == .depth {
      guard case .random = depth.source.access, let rows = depth.rows else { continue }
      let samples = Set((0..<maps).compactMap { rows.isEmpty ? nil : rows[$0 * (rows.count - 1) / max(maps - 1, 1)]?.nearest }).sorted()
      if let finding = finding(meters(of: samples, depth)) { return finding }
    }
    return nil
  }

  /// The values of some maps, without those that are none. What cannot be read has a finding of its own.
  private static func meters(of samples: [Int], _ depth: SampleStream) -> [Float] {
    guard var cursor = try? depth.source.makeCursor(SampleRequest(form: .decoded)) else { return [] }
    var bytes: [UInt8] = []
    return samples.flatMap { sample -> [Float] in
      guard (try? cursor.read(sample, into: &bytes)) != nil, bytes.count == depth.spec.sampleBytes else { return [] }
      let meters = depth.spec.meters(bytes)
      return stride(from: 0, to: meters.count, by: max(1, meters.count / values)).map { meters[$0] }.filter { $0 > 0 }
    }
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
