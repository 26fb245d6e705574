import Model

/// The capture app's own preview of depth: where the distance steps, pixels are painted over the picture, cyan near to magenta far.
///
/// Sobel's 3x3 gradient of metres, not normalised, so that a slope of s m a pixel gives 8 s; an edge is where its length exceeds
/// 0.1 m. Neighbours without a distance count as the centre; a centre without one is no edge. Beyond the border the nearest pixel
/// counts.
struct EdgeOverlay {
  static let threshold: Float = 0.1
  static let opacity: Float = 0.8
  private static let near: Float = 0.5, far: Float = 5

  /// For each pixel of the depth map the colour of its edge in 0...1, or `nil`.
  static func colours(_ depth: [Float], size: ImageSize) -> [SIMD3<Float>?] {
    func isValid(_ metres: Float) -> Bool { metres > 0 && metres < .infinity }
    return depth.indices.map { index in
      let (x, y) = (index % size.width, index / size.width)
      let centre = depth[index]
      guard isValid(centre) else { return nil }
      func at(_ dx: Int, _ dy: Int) -> Float {
        let column = min(max(x + dx, 0), size.width - 1), row = min(max(y + dy, 0), size.height - 1)
        let metres = depth[row * size.width + column]
        return isValid(metres) ? metres : centre
      }
      let across = (at(1, -1) + 2 * at(1, 0) + at(1, 1)) - (at(-1, -1) + 2 * at(-1, 0) + at(-1, 1))
      let down = (at(-1, 1) + 2 * at(0, 1) + at(1, 1)) - (at(-1, -1) + 2 * at(0, -1) + at(1, -1))
      guard (across * across + down * down).squareRoot() > threshold else { return nil }
      return colour(centre)
    }
  }

  /// Cyan at 0.5 m and nearer, magenta at 5 m and farther.
  static func colour(_ metres: Float) -> SIMD3<Float> {
    let t = min(max((metres - near) / (far - near), 0), 1)
    return [t, 1 - t, 1]
  }

  /// Paints the edges over an RGB picture of the depth map's size, four parts edge to one part picture.
  static func draw(_ depth: [Float], size: ImageSize, over picture: inout [UInt8]) {
    for (index, colour) in colours(depth, size: size).enumerated() {
      guard let colour else { continue }
      for channel in 0..<3 {
        let below = Float(picture[index * 3 + channel])
        picture[index * 3 + channel] = UInt8((colour[channel] * 255 * opacity + below * (1 - opacity)).rounded())
      }
    }
  }
}
