/// The capture app's own depth preview: depth edges painted over the image, from cyan (near) to magenta (far).
///
/// The gradient is Sobel's 3x3, in meters and not normalized, so that a slope of s m per pixel gives 8 s; an edge is a pixel where its
/// magnitude exceeds 0.1 m. A neighbor without depth counts as the center; a center without depth is not an edge. Beyond the border, the
/// nearest pixel counts.
public enum EdgeOverlay {
  public static let threshold: Float = 0.1
  public static let opacity: Float = 0.8
  private static let near: Float = 0.5, far: Float = 5

  /// The color of the edge at each pixel of the depth map, in 0...1; `nil` where there is no edge.
  public static func colors(_ depth: [Float], width: Int, height: Int) -> [SIMD3<Float>?] {
    func isValid(_ meters: Float) -> Bool { meters > 0 && meters < .infinity }
    return depth.indices.map { index in
      let (x, y) = (index % width, index / width)
      let center = depth[index]
      guard isValid(center) else { return nil }
      func at(_ dx: Int, _ dy: Int) -> Float {
        let column = min(max(x + dx, 0), width - 1), row = min(max(y + dy, 0), height - 1)
        let meters = depth[row * width + column]
        return isValid(meters) ? meters : center
      }
      let across = (at(1, -1) + 2 * at(1, 0) + at(1, 1)) - (at(-1, -1) + 2 * at(-1, 0) + at(-1, 1))
      let down = (at(-1, 1) + 2 * at(0, 1) + at(1, 1)) - (at(-1, -1) + 2 * at(0, -1) + at(1, -1))
      guard (across * across + down * down).squareRoot() > threshold else { return nil }
      return color(center)
    }
  }

  /// Cyan at 0.5 m and nearer, magenta at 5 m and farther.
  public static func color(_ meters: Float) -> SIMD3<Float> {
    let t = min(max((meters - near) / (far - near), 0), 1)
    return [t, 1 - t, 1]
  }

  /// Paints the edges over an RGB image of the depth map's size, four parts edge to one part image.
  public static func draw(_ depth: [Float], width: Int, height: Int, over image: inout [UInt8]) {
    for (index, color) in colors(depth, width: width, height: height).enumerated() {
      guard let color else { continue }
      for channel in 0..<3 {
        let below = Float(image[index * 3 + channel])
        image[index * 3 + channel] = UInt8((color[channel] * 255 * opacity + below * (1 - opacity)).rounded())
      }
    }
  }
}
