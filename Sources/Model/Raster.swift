/// A width and height in pixels.
package struct ImageSize: Hashable, Sendable, CustomStringConvertible {
  package var width: Int
  package var height: Int
  package init(width: Int, height: Int) {
    self.width = width
    self.height = height
  }
  package var description: String { "\(width)x\(height)" }

  /// The largest size with the same aspect ratio that fits within `box` and is no larger than this one.
  ///
  /// - Parameter enlarging: Whether it may be larger than this one.
  package func fitted(within box: ImageSize, enlarging: Bool = false) -> ImageSize {
    let largest = min(Double(box.width) / Double(width), Double(box.height) / Double(height))
    let scale = enlarging ? largest : min(largest, 1)
    return ImageSize(
      width: max(1, Int((Double(width) * scale).rounded())), height: max(1, Int((Double(height) * scale).rounded())))
  }

  /// The smallest size with the same aspect ratio that covers `box`.
  package func covering(_ box: ImageSize) -> ImageSize {
    let scale = max(Double(box.width) / Double(width), Double(box.height) / Double(height))
    return ImageSize(
      width: max(box.width, Int((Double(width) * scale).rounded())), height: max(box.height, Int((Double(height) * scale).rounded())))
  }

  /// The window of `size` at the center; where it cannot be exact, the odd pixel is at the end.
  package func centered(_ size: ImageSize) -> RasterMap {
    func start(_ own: Int, _ other: Int) -> Int { own >= other ? (own - other) / 2 : -((other - own) / 2) }
    return .window(x: start(width, size.width), y: start(height, size.height), size: size)
  }

  /// The size with width and height swapped.
  package var transposed: ImageSize { ImageSize(width: height, height: width) }
}

/// A rotation of an image by a multiple of 90 degrees, clockwise.
package enum Rotation90: Int, Sendable {
  case none = 0
  case right = 90
  case half = 180
  case left = 270

  package var swapsSides: Bool { self == .right || self == .left }

  /// Returns the size of an image of `size` after the turn: sides are swapped by a quarter turn.
  package func size(of size: ImageSize) -> ImageSize { swapsSides ? size.transposed : size }
}

/// A map between pixel coordinates: [x y] to [xx xy; yx yy] [x y] + [x0 y0]. The origin is the outer corner of the top-left pixel. The
/// matrix only scales and rotates by multiples of 90 degrees, so that one of each row's elements is 0.
///
///     let half = Affine.scale(from: ImageSize(width: 640, height: 480), to: ImageSize(width: 320, height: 240))
///     half(100, 50)                                                        // (50, 25)
package struct Affine: Equatable, Sendable {
  package var xx, xy, yx, yy, x0, y0: Double

  package init(xx: Double, xy: Double = 0, yx: Double = 0, yy: Double, x0: Double = 0, y0: Double = 0) {
    (self.xx, self.xy, self.yx, self.yy, self.x0, self.y0) = (xx, xy, yx, yy, x0, y0)
  }

  package static let identity = Affine(xx: 1, yy: 1)

  /// The map from a grid of `size` to one of `target` with the same field of view.
  package static func scale(from size: ImageSize, to target: ImageSize) -> Affine {
    Affine(xx: Double(target.width) / Double(size.width), yy: Double(target.height) / Double(size.height))
  }

  /// The map that applies `first`, then this one.
  package func after(_ first: Affine) -> Affine {
    Affine(
      xx: xx * first.xx + xy * first.yx, xy: xx * first.xy + xy * first.yy, yx: yx * first.xx + yy * first.yx,
      yy: yx * first.xy + yy * first.yy, x0: xx * first.x0 + xy * first.y0 + x0, y0: yx * first.x0 + yy * first.y0 + y0)
  }

  /// Returns the point's place after the map. Both are in pixels, column first; the center of the first pixel is (0.5, 0.5).
  package func callAsFunction(_ x: Double, _ y: Double) -> (x: Double, y: Double) { (xx * x + xy * y + x0, yx * x + yy * y + y0) }

  /// The inverse map.
  package var inverse: Affine {
    let determinant = xx * yy - xy * yx
    let (a, b, c, d) = (yy / determinant, -xy / determinant, -yx / determinant, xx / determinant)
    return Affine(xx: a, xy: b, yx: c, yy: d, x0: -(a * x0 + b * y0), y0: -(c * x0 + d * y0))
  }
}

/// A camera's pixel grid: the camera, the size in pixels, and the map from the camera's full-size image.
///
/// Its intrinsics are derived from the camera's and never edited.
///
///     Raster(size: size, covering: size).applying(.rotate(.right)).size    // the sides of `size`, swapped
package struct Raster: Equatable, Sendable {
  package var camera: CameraName
  package var size: ImageSize
  package var rasterFromFull: Affine

  package init(camera: CameraName, size: ImageSize, rasterFromFull: Affine) {
    (self.camera, self.size, self.rasterFromFull) = (camera, size, rasterFromFull)
  }

  /// Makes a grid that covers all of a camera's image of `full` size.
  package init(camera: CameraName = .phone, size: ImageSize, covering full: ImageSize) {
    self.init(camera: camera, size: size, rasterFromFull: .scale(from: full, to: size))
  }

  /// Returns the grid after a change of its pixels, still of the same camera.
  package func applying(_ map: RasterMap) -> Raster {
    Raster(camera: camera, size: map.size(from: size), rasterFromFull: map.newFromOld(size).after(rasterFromFull))
  }
}

/// A change of a pixel grid. The same change applies to the images, depth and confidence of a camera, each on its own grid.
package enum RasterMap: Equatable, Sendable {
  /// A different number of pixels over the same field of view.
  case resize(ImageSize)
  case rotate(Rotation90)
  /// A rectangle of `size` pixels, from column `x` and row `y` on: a crop where it lies within the grid; pixels outside are 0.
  case window(x: Int, y: Int, size: ImageSize)

  /// Returns the size in pixels after the change of a grid of size `old`.
  package func size(from old: ImageSize) -> ImageSize {
    switch self {
    case .resize(let size): size
    case .rotate(let rotation): rotation.size(of: old)
    case .window(_, _, let size): size
    }
  }

  /// The map from coordinates before the change to those after it.
  package func newFromOld(_ old: ImageSize) -> Affine {
    let (width, height) = (Double(old.width), Double(old.height))
    switch self {
    case .resize(let size): return .scale(from: old, to: size)
    case .rotate(.none): return .identity
    case .rotate(.right): return Affine(xx: 0, xy: -1, yx: 1, yy: 0, x0: height)
    case .rotate(.half): return Affine(xx: -1, yy: -1, x0: width, y0: height)
    case .rotate(.left): return Affine(xx: 0, xy: 1, yx: -1, yy: 0, y0: width)
    case .window(let x, let y, _): return Affine(xx: 1, yy: 1, x0: -Double(x), y0: -Double(y))
    }
  }
}
