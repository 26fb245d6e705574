/// The unit of poses' positions, as datasets name it.
package enum LengthUnit: String, Sendable, CustomStringConvertible {
  case meters = "m"
  /// Meters by the word of the recording's metadata, without proof.
  case claimedMeters = "m (claimed)"
  /// A scale of its own, as a reconstruction from images has.
  case arbitrary

  package var description: String { rawValue }

  /// Whether it is meters, claimed or not: a claimed scale is a scale.
  package var isMetric: Bool { self != .arbitrary }
}
