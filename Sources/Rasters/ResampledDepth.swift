package import Model

/// Depth maps, or confidence maps, on another grid or in another unit. The value of a depth pixel may depend on its confidence and the other
/// way round, so each sample is computed together with its companion from the other stream.
package struct ResampledDepth: SampleSource {
  /// The values of a sample: depths, or their confidence.
  package enum Content { case depth, confidence }

  /// The stream with the other half: the confidence of depth maps, the depth maps of a confidence.
  package struct Companion: Sendable {
    let source: any SampleSource
    /// The companion of each sample of the base; -1 for none.
    let samples: [Int]

    /// Pairs the samples of two streams by the source's own numbers.
    package init(of stream: SampleStream, in companion: SampleStream) {
      source = companion.source
      let samples = Dictionary(zip(companion.sourceIndex, companion.sourceIndex.indices), uniquingKeysWith: { first, _ in first })
      self.samples = stream.sourceIndex.map { samples[$0] ?? -1 }
    }
  }

  package let base: any SampleSource
  package let content: Content
  package let companion: Companion?
  package let resampling: DepthResampling
  /// The list that takes the errors of depth maps.
  package var errors: DepthResamplingErrors?

  package init(
    base: any SampleSource, content: Content, companion: Companion?, resampling: DepthResampling, errors: DepthResamplingErrors? = nil
  ) { (self.base, self.content, self.companion, self.resampling, self.errors) = (base, content, companion, resampling, errors) }

  package var access: SampleAccess { base.access }

  /// Returns the places of the sample, and of its companion if it has one.
  package func origins(of sample: Int) throws -> [SampleOrigin] {
    let other = companion.flatMap { $0.samples.indices.contains(sample) ? $0.samples[sample] : nil } ?? -1
    return try base.origins(of: sample) + (other >= 0 ? companion?.source.origins(of: other) ?? [] : [])
  }

  /// Makes a cursor that computes each sample from the base's full-size one; `request.minimumSize` is ignored.
  package func makeCursor(_ request: SampleRequest) throws -> any SampleCursor {
    var request = request
    request.minimumSize = nil
    let base = try base.makeCursor(request)
    guard request.form == .decoded else { return base }
    return Cursor(self, base, try companion?.source.makeCursor(request))
  }

  private final class Cursor: SampleCursor {
    private let source: ResampledDepth
    private let resampler: DepthResampler
    private var base: any SampleCursor
    private var companion: (any SampleCursor)?
    private var sample: [UInt8] = []
    private var other: [UInt8] = []

    init(_ source: ResampledDepth, _ base: any SampleCursor, _ companion: (any SampleCursor)?) {
      (self.source, self.base, self.companion) = (source, base, companion)
      resampler = DepthResampler(source.resampling)
    }

    var size: ImageSize? { source.resampling.new }

    func read(_ index: Int, into bytes: inout [UInt8]) throws {
      try base.read(index, into: &sample)
      let other = try readCompanion(index) ? other : nil
      switch source.content {
      case .confidence: try resampler.resample(confidence: sample, depth: other, into: &bytes)
      case .depth:
        try resampler.resample(depth: sample, confidence: other, into: &bytes)
        if let errors = source.errors, !errors.has(index) {
          errors.add(resampler.error(of: bytes, from: sample, confidence: other), sample: index)
        }
      }
    }

    /// Reads the companion of a sample. Returns `false` where there is none, or where it cannot be read; its own stream reports that.
    private func readCompanion(_ index: Int) throws -> Bool {
      guard companion != nil, let number = source.companion?.samples[index], number >= 0 else { return false }
      do {
        try companion?.read(number, into: &other)
        return true
      } catch is SampleFailure {
        return false
      }
    }
  }
}
