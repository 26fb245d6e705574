import EdgeOverlay

extension EdgeOverlay {
  /// Where there is no depth: a color that no distance has.
  static let hole: SIMD3<Float> = [0.9, 0.55, 0.1]

  /// The depth map as an RGB image: each value in the color of its distance, holes in theirs.
  static func painted(_ depth: [Float]) -> [UInt8] {
    depth.flatMap { meters -> [UInt8] in
      let color = meters > 0 && meters < .infinity ? color(meters) : hole
      return (0..<3).map { UInt8((color[$0] * 255).rounded()) }
    }
  }
}
