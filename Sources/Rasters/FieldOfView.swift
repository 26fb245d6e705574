package import Model

extension Episode {
  /// The episode with an image reduced or padded to a window of its pixels, and the depth and confidence of its camera to the same field of
  /// view: on their own grid, outward to whole pixels.
  package func windowing(_ image: StreamName, to window: RasterMap) -> Episode {
    guard let stream = streams[image], let raster = stream.spec.raster else { return self }
    var episode = self
    episode.streams[image] = stream.applying(window)
    let view = raster.applying(window)
    for (name, other) in streams where name != image && [.depth, .confidence, .segmentation].contains(other.spec.kind) {
      guard let grid = other.spec.raster, grid.camera == raster.camera else { continue }
      let map = grid.rasterFromFull.after(view.rasterFromFull.inverse)
      let (a, b) = (map(0, 0), map(Double(view.size.width), Double(view.size.height)))
      let (left, right) = Self.outward(a.x, b.x)
      let (top, bottom) = Self.outward(a.y, b.y)
      let size = ImageSize(width: right - left, height: bottom - top)
      if left == 0, top == 0, size == grid.size { continue }
      episode.streams[name] = other.applying(.window(x: left, y: top, size: size))
    }
    return episode
  }

  /// The whole pixels that a range of coordinates touches; less than a millionth of a pixel is rounding.
  private static func outward(_ a: Double, _ b: Double) -> (Int, Int) {
    let low = Int((min(a, b) + 1e-6).rounded(.down))
    return (low, max(low + 1, Int((max(a, b) - 1e-6).rounded(.up))))
  }
}
