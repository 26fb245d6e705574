import Model

extension Raster {
  /// For each pixel of this grid, row after row, the number of the pixel of another grid of the same camera that its center is in; -1 where
  /// it is in none.
  func pixels(of other: Raster) -> [Int32] {
    let otherFromOwn = other.rasterFromFull.after(rasterFromFull.inverse)
    return (0..<size.height).flatMap { y in
      (0..<size.width).map { x in
        let point = otherFromOwn(Double(x) + 0.5, Double(y) + 0.5)
        return Int32(clamping: other.size.pixel(point.x, point.y) ?? -1)
      }
    }
  }
}

extension ImageSize {
  /// The number of the pixel that a point is in, row after row; `nil` outside of the image.
  @inline(__always)
  func pixel(_ x: Double, _ y: Double) -> Int? {
    // NaN is in no range.
    guard x >= 0, y >= 0, x < Double(width), y < Double(height) else { return nil }
    return Int(y) * width + Int(x)
  }
}
