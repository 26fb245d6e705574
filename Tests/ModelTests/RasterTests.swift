import Model
import Simulate
import Testing

@Suite struct RasterTests {
  private func size(_ width: Int, _ height: Int) -> ImageSize { ImageSize(width: width, height: height) }

  private func window(_ own: ImageSize, _ other: ImageSize) throws -> (x: Int, y: Int, size: ImageSize) {
    guard case .window(let x, let y, let size) = own.centered(other) else { throw NoWindow() }
    return (x, y, size)
  }
  private struct NoWindow: Error {}

  // MARK: Sizes

  @Test(arguments: [
    ((640, 480), (320, 240), (320, 240)), ((1920, 1080), (320, 240), (427, 240)), ((1080, 1920), (320, 240), (320, 569)),
    ((4, 3), (8, 8), (11, 8)), ((3, 4), (8, 8), (8, 11)), ((7, 5), (7, 5), (7, 5)), ((8000, 1), (2, 2), (16000, 2)),
    ((1, 1), (5, 3), (5, 5)),
  ]) func coversABox(own: (Int, Int), box: (Int, Int), expected: (Int, Int)) {
    #expect(size(own.0, own.1).covering(size(box.0, box.1)) == size(expected.0, expected.1))
  }

  @Test func coversEveryBoxAsTightlyAsWholePixelsAllow() {
    var generator = SplitMix(seed: 1)
    for _ in 0..<500 {
      let own = size(.random(in: 1...300, using: &generator), .random(in: 1...300, using: &generator))
      let box = size(.random(in: 1...300, using: &generator), .random(in: 1...300, using: &generator))
      let covering = own.covering(box)
      #expect(covering.width >= box.width && covering.height >= box.height)
      #expect(covering.width == box.width || covering.height == box.height, "\(own) over \(box) is \(covering)")
      // The other side is that of the aspect ratio, to half a pixel.
      if covering.width == box.width, covering.height > box.height {
        #expect(abs(2 * covering.height * own.width - 2 * own.height * box.width) <= own.width)
      }
      if covering.height == box.height, covering.width > box.width {
        #expect(abs(2 * covering.width * own.height - 2 * own.width * box.height) <= own.height)
      }
    }
  }

  @Test(arguments: [
    ((8, 6), (4, 2), 2, 2), ((8, 6), (8, 6), 0, 0), ((7, 5), (4, 2), 1, 1), ((8, 6), (3, 5), 2, 0), ((4, 2), (8, 6), -2, -2),
    ((4, 2), (7, 5), -1, -1), ((5, 9), (4, 12), 0, -1),
  ]) func centersAWindowWithTheOddPixelAtTheEnd(own: (Int, Int), other: (Int, Int), x: Int, y: Int) throws {
    let found = try window(size(own.0, own.1), size(other.0, other.1))
    #expect((found.x, found.y) == (x, y))
    #expect(found.size == size(other.0, other.1))
  }

  // MARK: Maps

  /// The first two rows of the product of the 3x3 matrices of two maps, by the definition.
  private func product(_ a: Affine, _ b: Affine) -> [Double] {
    let last: [Double] = [0, 0, 1]
    let (m, n) = (elements(a) + last, elements(b) + last)
    var product: [Double] = []
    for row in 0..<2 {
      for column in 0..<3 {
        var sum = 0.0
        for inner in 0..<3 { sum += m[3 * row + inner] * n[3 * inner + column] }
        product.append(sum)
      }
    }
    return product
  }

  private func elements(_ map: Affine) -> [Double] { [map.xx, map.xy, map.x0, map.yx, map.yy, map.y0] }

  private let maps: [RasterMap] = [
    .resize(ImageSize(width: 5, height: 9)), .resize(ImageSize(width: 16, height: 12)), .rotate(.none), .rotate(.right), .rotate(.half),
    .rotate(.left), .window(x: 2, y: 1, size: ImageSize(width: 3, height: 4)), .window(x: -3, y: 7, size: ImageSize(width: 11, height: 2)),
  ]

  @Test func oneMapAfterAnotherIsTheProductOfTheirMatrices() {
    let old = size(8, 6)
    for first in maps {
      for second in maps {
        let (a, b) = (first.newFromOld(old), second.newFromOld(first.size(from: old)))
        #expect(zip(elements(b.after(a)), product(b, a)).allSatisfy { abs($0 - $1) < 1e-12 })
        // And to a point, one is applied after the other.
        let (once, twice) = (a(1.25, 4.5), b.after(a)(1.25, 4.5))
        let apart = b(once.x, once.y)
        #expect(abs(apart.x - twice.x) < 1e-12 && abs(apart.y - twice.y) < 1e-12)
      }
    }
  }

  @Test func theInverseUndoesAMapFromBothSides() {
    for map in maps {
      let forward = map.newFromOld(size(8, 6))
      for both in [product(forward.inverse, forward), product(forward, forward.inverse)] {
        #expect(zip(both, [1, 0, 0, 0, 1, 0]).allSatisfy { abs($0 - $1) < 1e-12 }, "\(map)")
      }
    }
  }

  @Test func aWindowMovesTheOriginToItsCorner() {
    let raster = Raster(camera: "wrist", size: size(8, 6), covering: size(80, 60))
    let cropped = raster.applying(.window(x: 3, y: 1, size: size(4, 2)))
    #expect(cropped.size == size(4, 2) && cropped.camera == "wrist")
    // The window's corner is at (30, 10) of the full image, and its end at (70, 30).
    #expect(cropped.rasterFromFull(30, 10) == (0, 0))
    #expect(cropped.rasterFromFull(70, 30) == (4, 2))
    let intrinsics = Intrinsics(fx: 100, fy: 110, cx: 41, cy: 29).applying(cropped.rasterFromFull)
    #expect(abs(intrinsics.fx - 10) < 1e-12 && abs(intrinsics.fy - 11) < 1e-12)
    #expect(abs(intrinsics.cx - 1.1) < 1e-12 && abs(intrinsics.cy - 1.9) < 1e-12)
  }

  @Test func aWindowMayLieOutside() {
    let raster = Raster(size: size(4, 2), covering: size(4, 2))
    let padded = raster.applying(.window(x: -1, y: -2, size: size(7, 5)))
    #expect(padded.size == size(7, 5))
    #expect(padded.rasterFromFull(0, 0) == (1, 2))
    #expect(raster.applying(.window(x: 100, y: 50, size: size(1, 1))).rasterFromFull(100, 50) == (0, 0))
  }

  @Test func aWindowOfAWindowIsOne() {
    let raster = Raster(size: size(20, 10), covering: size(40, 20))
    let twice = raster.applying(.window(x: 3, y: -2, size: size(10, 9))).applying(.window(x: -1, y: 4, size: size(5, 3)))
    #expect(twice == raster.applying(.window(x: 2, y: 2, size: size(5, 3))))
  }

  /// Corners of the image move to the corners that a sheet of paper would show.
  @Test func rotatesClockwise() {
    let (w, h) = (8.0, 6.0)
    func corners(_ rotation: Rotation90) -> [[Double]] {
      let map = RasterMap.rotate(rotation).newFromOld(size(8, 6))
      return [(0, 0), (w, 0), (w, h), (0, h)].map { [map($0.0, $0.1).x, map($0.0, $0.1).y] }
    }
    // Top left, top right, bottom right, bottom left of the image before.
    #expect(corners(.none) == [[0, 0], [w, 0], [w, h], [0, h]])
    #expect(corners(.right) == [[h, 0], [h, w], [0, w], [0, 0]])
    #expect(corners(.half) == [[w, h], [0, h], [0, 0], [w, 0]])
    #expect(corners(.left) == [[0, w], [0, 0], [h, 0], [h, w]])
    #expect(RasterMap.rotate(.right).size(from: size(8, 6)) == size(6, 8))
    #expect(RasterMap.rotate(.left).size(from: size(8, 6)) == size(6, 8))
    #expect(RasterMap.rotate(.half).size(from: size(8, 6)) == size(8, 6))
  }

  @Test func turnsAddUp() {
    let raster = Raster(size: size(7, 5), covering: size(21, 10))
    func turned(_ turns: [Rotation90]) -> Raster { turns.reduce(raster) { $0.applying(.rotate($1)) } }
    #expect(turned([.right, .right]) == turned([.half]))
    #expect(turned([.right, .half]) == turned([.left]))
    #expect(turned([.left, .right]) == raster)
    #expect(turned([.right, .right, .right, .right]) == raster)
    #expect(turned([.half, .half]) == raster)
  }

  @Test func aResizeKeepsTheFieldOfView() {
    let raster = Raster(size: size(7, 5), covering: size(7, 5)).applying(.window(x: 1, y: 1, size: size(5, 3)))
    let resized = raster.applying(.resize(size(10, 9)))
    for (corner, new) in [((1.0, 1.0), (0.0, 0.0)), ((6, 4), (10, 9))] {
      let found = resized.rasterFromFull(corner.0, corner.1)
      #expect(abs(found.x - new.0) < 1e-12 && abs(found.y - new.1) < 1e-12)
    }
  }
}
