package import Evidence
package import Model
import Steps
import Synchronization

/// The difference between depth maps and what they were resampled to.
struct DepthResamplingError: Equatable, Sendable {
  /// Sum and maximum of the absolute differences in meters.
  var sum = 0.0
  var largest = 0.0
  /// Number of valid depth values, and of those whose new value is valid too.
  var valid = 0
  var compared = 0

  static func += (a: inout DepthResamplingError, b: DepthResamplingError) {
    a.sum += b.sum
    a.largest = max(a.largest, b.largest)
    a.valid += b.valid
    a.compared += b.compared
  }
}

/// The errors of the samples of a stream, each measured when it is first read. The total does not depend on the order or the number of
/// reads.
package final class DepthResamplingErrors: Sendable {
  /// The error of each sample; empty before the first is read.
  private let samples: Mutex<[DepthResamplingError?]> = Mutex([])
  let count: Int

  package init(count: Int) { self.count = count }

  func has(_ sample: Int) -> Bool { samples.withLock { $0.isEmpty ? false : $0[sample] != nil } }

  func add(_ error: DepthResamplingError, sample: Int) {
    samples.withLock {
      if $0.isEmpty { $0 = Array(repeating: nil, count: count) }
      if $0[sample] == nil { $0[sample] = error }
    }
  }

  /// The sum over those of some samples that were read, in their order, and the number of these.
  func total(of isIncluded: (Int) -> Bool) -> (maps: Int, error: DepthResamplingError) {
    samples.withLock {
      var (maps, total) = (0, DepthResamplingError())
      for (sample, error) in $0.enumerated() where isIncluded(sample) {
        guard let error else { continue }
        maps += 1
        total += error
      }
      return (maps, total)
    }
  }
}

extension Episode {
  /// The error of resampled depth against its source, over the depth maps of the rows, once these were read; `nil` where none was.
  ///
  /// `mean_m` and `max_m`: absolute difference in meters between a valid depth value and the new pixel that its center is in, where that is
  /// valid too; `lost_fraction`: the fraction of valid depth values for which it is not. Where several steps resample one stream, each is
  /// compared with the one before.
  package var depthResampling: JSONValue? {
    var (maps, total) = (0, DepthResamplingError())
    for (_, stream) in streams.sorted(by: { $0.key < $1.key }) where stream.spec.kind == .depth {
      var isRow = [Bool](repeating: stream.rows == nil, count: stream.timestamps.count)
      for row in stream.rows ?? [] { if let row { isRow[row.sample] = true } }
      var read = 0
      for errors in stream.source.resamplingErrors {
        let (count, error) = errors.total { $0 < isRow.count && isRow[$0] }
        read = max(read, count)
        total += error
      }
      maps += read
    }
    guard maps > 0 else { return nil }
    let lost = Double(total.valid - total.compared) / Double(max(total.valid, 1))
    let mean = total.sum / Double(max(total.compared, 1))
    return [
      "maps": JSONValue(maps), "mean_m": total.compared > 0 ? mean.json : .null,
      "max_m": total.compared > 0 ? total.largest.json : .null, "lost_fraction": total.valid > 0 ? lost.json : .null,
    ]
  }
}

extension SampleSource {
  /// The errors of every step that resampled these depth maps, the last step first.
  fileprivate var resamplingErrors: [DepthResamplingErrors] {
    if let resampled = self as? ResampledDepth { return (resampled.errors.map { [$0] } ?? []) + resampled.base.resamplingErrors }
    return (self as? MappedSource)?.base.resamplingErrors ?? []
  }
}
