package import Model
package import Steps

/// Measures whether depth looks like one real scene, recorded in one go. Unlike other transforms, it reads the keyframes.
///
///     - verify-depth: {every: 1, on-miss: reject}
package struct VerifyDepth: Transform {
  package static let name = "verify-depth"
  package static let summary = "Measures whether the depth shows one real scene; notes or rejects takes where it seems not to"

  /// The treatment of a take whose depth misses a threshold.
  package enum Miss: String, OptionChoice { case finding, reject }

  @StepOption("measure every n-th depth map; 10 is what the RealityCam server does, and misses single maps", 1...10_000) var every = 1
  @StepOption("least mean overlap of neighboring histograms", 0...1) var consistency = 0.7
  @StepOption("least steadiness of motion", 0...1) var coherence = 0.6
  @StepOption("least fraction of steps without a jump", 0...1) var stability = 0.8
  @StepOption("finding: report a take below these thresholds; reject: reject it") var onMiss = Miss.finding

  package var readsSamples: Bool { true }

  package init() {}

  /// Measures every n-th depth map of the first depth stream by name, of each member of a joined take. Throws `Rejection` below a threshold with
  /// `on-miss: reject`; the data never change.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode {
    try Set(episode.streams.values.map(\.spec.member)).sorted { $0 ?? "" < $1 ?? "" }.reduce(episode) { try verifying($0, $1) }
  }

  private func verifying(_ episode: Episode, _ member: String?) throws -> Episode {
    guard let stream = episode.firstStream(where: { $0.spec.kind == .depth && $0.spec.member == member })?.stream,
      let size = stream.spec.raster?.size
    else { return episode }
    var verified = episode
    let samples = Array(stride(from: 0, to: stream.timestamps.count, by: every))
    guard samples.count >= 2 else {
      verified.findings.append(
        Finding(.depthMetricsUnavailable, "\(samples.count) depth maps to measure; at least 2 are needed").ofMember(member))
      return verified
    }
    var metrics = DepthMetrics(size: size)
    var cursor = try stream.source.makeCursor(SampleRequest())
    var bytes: [UInt8] = []
    for sample in samples {
      do {
        try cursor.read(sample, into: &bytes)
      } catch is SampleFailure {
        continue  // The writer masks it and reports it.
      }
      metrics.add(stream.spec.meters(bytes), index: sample)
    }
    let thresholds = DepthThresholds(consistency: consistency, coherence: coherence, stability: stability)
    if let member {
      verified.setDetail("depth_metrics", metrics.json(thresholds), of: member)
    } else {
      verified.details["depth_metrics"] = metrics.json(thresholds)
    }
    guard !metrics.isLikelyReal(thresholds) else { return verified }
    let message =
      "consistency \(metrics.consistency), coherence \(metrics.coherence), stability \(metrics.stability), \(metrics.suspicious.count) suspicious keyframes"
    verified.findings.append(Finding(.depthSuspicious, message).ofMember(member))
    if onMiss == .reject {
      throw Rejection(
        .verifyDepth, "\(member.map { $0 + ": " } ?? "")the depth is unlikely to show a real scene: \(message)", episode: verified)
    }
    return verified
  }
}
