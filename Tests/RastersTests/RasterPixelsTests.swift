import Media
import Model
import Testing
import TestSupport

@testable import Rasters

@Suite struct RasterPixelsTests {
  private let size = ImageSize(width: 3, height: 2)
  /// 0 1 2 / 3 4 5
  private let image: [UInt8] = [0, 1, 2, 3, 4, 5]

  @Test func turnsClockwise() {
    func rotated(_ rotation: Rotation90) -> [UInt8] {
      var output: [UInt8] = []
      RotatedPixels(rotation: rotation, from: size, pixelBytes: 1).map(image, into: &output)
      return output
    }
    #expect(rotated(.none) == image)
    #expect(rotated(.right) == [3, 0, 4, 1, 5, 2])
    #expect(rotated(.half) == [5, 4, 3, 2, 1, 0])
    #expect(rotated(.left) == [2, 5, 1, 4, 0, 3])
  }

  @Test(arguments: [1, 3, 4]) func fourTurnsAreNone(bytes: Int) {
    var now = (0..<(70 * 45 * bytes)).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    let before = now
    var size = ImageSize(width: 70, height: 45)
    for _ in 0..<4 {
      var next: [UInt8] = []
      RotatedPixels(rotation: .right, from: size, pixelBytes: bytes).map(now, into: &next)
      (now, size) = (next, Rotation90.right.size(of: size))
    }
    #expect(now == before && size == ImageSize(width: 70, height: 45))
  }

  /// A point of the scene stays on its pixel: the projection rotates with the image.
  @Test(arguments: [Rotation90.none, .right, .half, .left]) func intrinsicsRotateAlong(turn: Rotation90) {
    let size = ImageSize(width: 640, height: 480)
    let camera = Intrinsics(fx: 500, fy: 510, cx: 315, cy: 250)
    let rotated = camera.applying(RasterMap.rotate(turn).newFromOld(size))
    let (x, y, z) = (0.3, -0.2, 2.0)
    let pixel = (camera.fx * x / z + camera.cx, camera.fy * y / z + camera.cy)
    let (width, height) = (Double(size.width), Double(size.height))
    let (expected, direction) =
      switch turn {
      case .none: (pixel, (x, y))
      case .right: ((height - pixel.1, pixel.0), (-y, x))
      case .half: ((width - pixel.0, height - pixel.1), (-x, -y))
      case .left: ((pixel.1, width - pixel.0), (y, -x))
      }
    #expect(abs(rotated.fx * direction.0 / z + rotated.cx - expected.0) < 1e-9)
    #expect(abs(rotated.fy * direction.1 / z + rotated.cy - expected.1) < 1e-9)
  }

  @Test func rotatesACameraWholeWithItsPoses() throws {
    let before = SyntheticEpisode().episode
    let episode = before.rotating(.phone, by: .right)
    let depth = try #require(episode.streams[.depth])
    #expect(depth.spec.shape == [4, 3, 1] && depth.spec.rotationApplied == 90 && episode.streams[.image]?.spec.shape == [8, 6, 3])
    var bytes: [UInt8] = []
    var cursor = try depth.source.makeCursor(SampleRequest())
    try cursor.read(1, into: &bytes)
    #expect(bytes.count == 48)
    // Held the other way round, the camera's right is what was up: a rotation about its own z axis.
    var rows = RowReader(episode)
    let pose = try rows.values(of: .pose, at: 2)
    #expect(pose[0] == 2 && abs(pose[5] - Float(0.5).squareRoot()) < 1e-6 && abs(pose[6] - Float(0.5).squareRoot()) < 1e-6)
    var back = RowReader(episode.rotating(.phone, by: .left))
    #expect(zip(try back.values(of: .pose, at: 2), [2, 0, 0, 0, 0, 0, 1]).allSatisfy { abs($0 - $1) < 1e-6 })
  }

  @Test(arguments: [
    RasterMap.resize(ImageSize(width: 5, height: 9)), .rotate(.left), .window(x: 2, y: 1, size: ImageSize(width: 3, height: 4)),
  ])
  func mapsHaveAWayBack(map: RasterMap) {
    let raster = Raster(size: ImageSize(width: 8, height: 6), covering: ImageSize(width: 80, height: 60)).applying(map)
    let (x, y) = raster.rasterFromFull.inverse(1.25, 2.5)
    let again = raster.rasterFromFull(x, y)
    #expect(abs(again.x - 1.25) < 1e-12 && abs(again.y - 2.5) < 1e-12)
  }

  @Test func cropsWholePixelsAndTheirIntrinsics() throws {
    let episode = SyntheticEpisode().episode
    var stream = try #require(episode.streams[.image])
    stream.source = CountingSource([(0..<144).map { UInt8($0) }])
    let cropped = stream.applying(.window(x: 2, y: 1, size: ImageSize(width: 3, height: 2)))
    var cursor = try cropped.source.makeCursor(SampleRequest())
    var bytes: [UInt8] = []
    try cursor.read(0, into: &bytes)
    #expect(bytes == (30..<39).map { UInt8($0) } + (54..<63).map { UInt8($0) })
    #expect(episode.intrinsics(of: cropped, at: Row(0)) == Intrinsics(fx: 8, fy: 8, cx: 2, cy: 2))
  }

  /// Whatever the buffer held before: buffers are used again.
  @Test(
    arguments: [
      (-1, -1, [0, 0, 0, 1]), (7, 5, [48, 0, 0, 0]), (-1, 0, [0, 1, 0, 9]), (7, 2, [24, 0, 32, 0]), (2, -1, [0, 0, 3, 4]),
      (9, 9, [0, 0, 0, 0]),
    ] as [(Int, Int, [UInt8])])
  func pixelsBeyondTheEdgeAreZero(x: Int, y: Int, expected: [UInt8]) throws {
    var stream = try #require(SyntheticEpisode().episode.streams[.image])
    (stream.spec.type, stream.spec.shape) = (.uint8, [6, 8, 1])
    // 1 to 8 in the first row, 41 to 48 in the last.
    stream.source = CountingSource([(1...48).map { UInt8($0) }])
    let window = stream.applying(.window(x: x, y: y, size: ImageSize(width: 2, height: 2)))
    var cursor = try window.source.makeCursor(SampleRequest())
    var bytes = [UInt8](repeating: 77, count: 4)
    try cursor.read(0, into: &bytes)
    #expect(bytes == expected)
  }
}
