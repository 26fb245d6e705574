package import Model
package import Steps

/// Stores the parameters that normalize each key, in the dataset's index next to its statistics. The data stay as they are.
///
///     - normalize: {method: minmax}
///
/// `/stats/<key>/scale` and `offset` have one number per channel: normalized = (x - offset) / scale, and x = normalized * scale + offset.
/// They come from the valid samples of the takes to train on. `minmax` maps the least value to -1 and the greatest to 1, `gaussian` makes
/// the mean 0 and the standard deviation 1.
package struct Normalize: NormalizationRule {
  package static let name = "normalize"
  package static let summary = "Stores the scale and offset that normalize each key; the data stay as they are"

  /// The reference of the parameters: least and greatest value, or mean and standard deviation.
  package enum Method: String, OptionChoice { case minmax, gaussian, none }

  @StepOption("minmax: least and greatest value become -1 and 1; gaussian: mean 0 and standard deviation 1; none: nothing is stored")
  var method = Method.minmax

  package static var occursOnce: Bool { true }

  package init() {}

  /// The least range of values, or standard deviation, by which values are divided.
  private static let least = 1e-6

  /// Returns one scale and offset per channel. A channel without valid values, or of a range below 1e-6, keeps a scale of 1. `nil` for
  /// `none`.
  package func parameters(of statistics: Statistics) -> Normalization? {
    guard method != .none else { return nil }
    var result = Normalization(method: method.rawValue)
    for moments in statistics.moments {
      let (spread, factor, offset) =
        method == .minmax
        ? (moments.max - moments.min, 0.5, moments.min + (moments.max - moments.min) / 2)
        : (moments.standardDeviation, 1, moments.mean)
      let isKnown = moments.count > 0 && offset.isFinite && spread.isFinite
      result.offset.append(isKnown ? offset : 0)
      result.scale.append(isKnown && spread >= Self.least ? spread * factor : 1)
    }
    return result
  }
}
