package import Model
import Steps

/// The computation of a stream of depth maps, and of the confidence of their values, on another grid or in another unit.
///
/// Pixel centers are at half-integers. A depth value is valid when it is finite and above 0, no more than `maxRange`, and at least as
/// reliable as `minConfidence`. Values are computed in Float64 and rounded once.
package struct DepthResampling: Sendable {
  /// The way in which a new value is computed from old ones.
  package enum Method: String, OptionChoice {
    /// The old pixel that the center of the new one is in.
    case nearest
    /// The mean of the valid old pixels that the new one overlaps, weighted by the overlap; invalid where less than half of it is valid.
    case area
    /// Linear interpolation between the valid ones of the four old pixels around the center; invalid where the one that the center is in
    /// is invalid.
    case bilinear
    /// The same as `bilinear`, without old pixels whose depth differs too much from that of the one that the center is in.
    case edgeAware = "edge-aware"
  }

  package var method = Method.nearest
  /// The largest difference in depth, relative to the pixel that the center is in, across which `edgeAware` interpolates.
  package var edge = 0.05
  /// The least confidence of a valid depth value; maps whose confidence is unknown are then invalid.
  package var minConfidence: UInt8?
  /// The greatest depth of a valid value, in meters.
  package var maxRange: Double?
  let old, new: ImageSize
  /// The axes that give the column and the row of an old pixel.
  let columns, rows: ResampledAxis
  /// Whether the columns of the old grid follow the rows of the new one: the grids are rotated by 90 degrees against each other.
  package let isTransposed: Bool
  /// Float32 in meters or UInt16 in millimeters.
  package var source = ScalarType.float32
  package var target = ScalarType.float32

  package init(from old: ImageSize, to new: ImageSize, oldFromNew map: Affine) {
    (self.old, self.new) = (old, new)
    isTransposed = map.xx == 0 && map.yy == 0
    isPossible =
      (isTransposed || map.xy == 0 && map.yx == 0) && (map.xx * map.yy - map.xy * map.yx).isNormal && map.x0.isFinite && map.y0.isFinite
    let along = isTransposed ? new.transposed : new
    columns = ResampledAxis(old: old.width, new: along.width, scale: isTransposed ? map.xy : map.xx, offset: map.x0)
    rows = ResampledAxis(old: old.height, new: along.height, scale: isTransposed ? map.yx : map.yy, offset: map.y0)
  }

  /// The resampling to another number of pixels over the same field of view.
  init(from old: ImageSize, to new: ImageSize) { self.init(from: old, to: new, oldFromNew: .scale(from: new, to: old)) }

  /// Whether the map only scales, shifts and rotates by multiples of 90 degrees.
  package let isPossible: Bool

  package var keepsGrid: Bool { columns.isIdentity && rows.isIdentity && !isTransposed }

  /// Whether depth maps stay as they are.
  package var keepsDepth: Bool { keepsGrid && source == target && minConfidence == nil && maxRange == nil }

  /// Whether each confidence depends on depth values.
  package var confidenceNeedsDepth: Bool { method != .nearest && !keepsGrid }

  /// Units of `source` in a meter.
  var sourceScale: Double { source == .uint16 ? 1000 : 1 }

  /// The largest valid depth in units of `source`.
  var limit: Double {
    let largest = Double(Float.greatestFiniteMagnitude)
    guard let maxRange else { return largest }
    // A range that is stored as the nearest 32-bit number is within itself.
    guard source == .uint16 else { return min(Double(Float(maxRange)), largest) }
    // Whole millimeters, compared as the quotient in meters is.
    let millimeters = (min(maxRange, 100) * 1000).rounded(.down)
    return (millimeters + 1) / 1000 <= maxRange ? millimeters + 1 : millimeters / 1000 <= maxRange ? millimeters : millimeters - 1
  }
}
