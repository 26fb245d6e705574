import Model
import Simulate
import Testing
import TestSupport

@testable import Rasters

@Suite struct FieldOfViewTests {
  private let full = ImageSize(width: 40, height: 24)

  private func stream(
    _ kind: StreamKind, _ size: ImageSize, of camera: CameraName = .phone, sample: (Int, Int) -> [UInt8] = { _, _ in [0] }
  ) -> SampleStream {
    let raster = Raster(camera: camera, size: size, covering: full)
    let spec = StreamSpec(
      raster: raster, kind: kind, type: .uint8, channels: kind == .image ? 3 : 1, unit: "1", clock: .deviceUptime)
    let pixels = (0..<size.height).flatMap { y in (0..<size.width).flatMap { x in sample(x, y) } }
    let times = [Timestamp(nanoseconds: 0)]
    return SampleStream(spec: spec, source: CountingSource([pixels]), timestamps: times, sourceIndex: [0], rows: [Row(0)])
  }

  private func episode(_ streams: [StreamName: SampleStream]) -> Episode {
    var episode = Episode(
      id: "views", sourceFrames: 1,
      frames: Episode.Frames(timestamps: [Timestamp(nanoseconds: 0)], sourceIndex: [0], clock: .deviceUptime), streams: streams)
    episode.cameras[.phone] = Camera(size: full)
    return episode
  }

  private func read(_ stream: SampleStream?) throws -> [UInt8] {
    var bytes: [UInt8] = []
    var cursor = try #require(stream).source.makeCursor(SampleRequest())
    try cursor.read(0, into: &bytes)
    return bytes
  }

  private func floor(_ a: Int, _ b: Int) -> Int { (a - ((a % b) + b) % b) / b }

  /// The window that a depth map of `own` pixels across must have, in integers: outward to whole pixels, and never empty.
  private func outward(_ start: Int, _ length: Int, of image: Int, on own: Int) -> (start: Int, length: Int) {
    let low = floor(start * own, image)
    return (low, max(1, -floor(-(start + length) * own, image) - low))
  }

  @Test(arguments: [Rotation90.none, .right, .half, .left]) func depthKeepsEveryPixelThatTheWindowTouchesAndNoOther(turn: Rotation90) throws
  {
    var generator = SplitMix(seed: 5)
    func random(_ range: ClosedRange<Int>) -> Int { .random(in: range, using: &generator) }
    for _ in 0..<200 {
      let (image, depth) = (
        ImageSize(width: random(1...40), height: random(1...24)), ImageSize(width: random(1...40), height: random(1...24))
      )
      let before = episode([.image: stream(.image, image), .depth: stream(.depth, depth), .confidence: stream(.confidence, depth)])
        .rotating(.phone, by: turn)
      let (seen, grid) = (turn.size(of: image), turn.size(of: depth))
      let (x, y, size) = (random(-9...45), random(-9...30), ImageSize(width: random(1...50), height: random(1...30)))
      let after = before.windowing(.image, to: .window(x: x, y: y, size: size))
      let (columns, rows) = (
        outward(x, size.width, of: seen.width, on: grid.width), outward(y, size.height, of: seen.height, on: grid.height)
      )
      for name in [StreamName.depth, .confidence] {
        let (old, new) = (try #require(before.streams[name]?.spec.raster), try #require(after.streams[name]?.spec.raster))
        #expect(new.size == ImageSize(width: columns.length, height: rows.length), "\(seen) \(grid) window \(x) \(y) \(size)")
        // The offset is in whole pixels: what was at the window's corner is now at 0, 0.
        let corner = new.rasterFromFull.after(old.rasterFromFull.inverse)(Double(columns.start), Double(rows.start))
        #expect(abs(corner.x) < 1e-9 && abs(corner.y) < 1e-9)
        #expect(after.streams[name]?.spec.shape == [rows.length, columns.length, 1])
      }
      #expect(after.streams[.image]?.spec.raster?.size == size)
    }
  }

  /// 320 pixels across an image of 1920, and a depth map of 256: every fifth column is exactly every fourth of the map.
  @Test func roundingOfCoordinatesAddsNoPixel() throws {
    let (image, depth, whole) = (
      ImageSize(width: 320, height: 240), ImageSize(width: 256, height: 192), ImageSize(width: 1920, height: 1440)
    )
    var (color, map) = (stream(.image, ImageSize(width: 1, height: 1)), stream(.depth, ImageSize(width: 1, height: 1)))
    color.spec.raster = Raster(size: image, covering: whole)
    map.spec.raster = Raster(size: depth, covering: whole)
    for step in 0..<60 {
      let window = RasterMap.window(x: 5 * step, y: 5 * (step / 2), size: ImageSize(width: 15, height: 10))
      let raster = try #require(episode([.image: color, .depth: map]).windowing(.image, to: window).streams[.depth]?.spec.raster)
      #expect(raster.size == ImageSize(width: 12, height: 8), "step \(step)")
    }
  }

  @Test func theSubpixelOffsetStaysInTheIntrinsics() throws {
    var before = episode([
      .image: stream(.image, ImageSize(width: 20, height: 12)), .depth: stream(.depth, ImageSize(width: 10, height: 6)),
    ])
    before.cameras[.phone]?.intrinsicsTrack = IntrinsicsTrack(Intrinsics(fx: 40, fy: 36, cx: 21, cy: 11))
    let after = before.windowing(.image, to: .window(x: 3, y: 1, size: ImageSize(width: 4, height: 4)))
    // The depth map begins at column 1 and row 0; the image at columns 3 and row 1 of 20 x 12.
    #expect(after.intrinsics(of: try #require(after.streams[.image]), at: Row(0)) == Intrinsics(fx: 20, fy: 18, cx: 7.5, cy: 4.5))
    #expect(after.intrinsics(of: try #require(after.streams[.depth]), at: Row(0)) == Intrinsics(fx: 10, fy: 9, cx: 4.25, cy: 2.75))
    #expect(after.streams[.depth]?.spec.raster?.size == ImageSize(width: 3, height: 3))
  }

  @Test func paddingIsZeroInImagesAndDepth() throws {
    let before = episode([
      .image: stream(.image, ImageSize(width: 4, height: 2)) { x, y in Array(repeating: UInt8(10 * y + x + 1), count: 3) },
      .depth: stream(.depth, ImageSize(width: 2, height: 1)) { x, _ in [UInt8(x + 7)] },
    ])
    let after = before.windowing(.image, to: .window(x: -1, y: 1, size: ImageSize(width: 6, height: 3)))
    let rows: [[UInt8]] = [[0, 11, 12, 13, 14, 0], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]
    #expect(try read(after.streams[.image]) == rows.joined().flatMap { [$0, $0, $0] })
    // Columns -1 to 2, rows 0 and 1.
    #expect(try read(after.streams[.depth]) == [0, 7, 8, 0, 0, 0, 0, 0])
  }

  @Test func aWindowOutsideIsEmptyThroughout() throws {
    let before = episode([
      .image: stream(.image, ImageSize(width: 4, height: 2)) { _, _ in [9, 9, 9] },
      .depth: stream(.depth, ImageSize(width: 4, height: 2)) { _, _ in [9] },
    ])
    for (x, y) in [(4, 0), (-2, 0), (0, 2), (0, -2), (1000, 1000), (-1000, -1000)] {
      let after = before.windowing(.image, to: .window(x: x, y: y, size: ImageSize(width: 2, height: 2)))
      #expect(try read(after.streams[.image]) == Array(repeating: 0, count: 12), "\(x) \(y)")
      #expect(try read(after.streams[.depth]) == Array(repeating: 0, count: 4), "\(x) \(y)")
    }
  }

  @Test func otherCamerasAndOtherImagesStay() throws {
    let size = ImageSize(width: 20, height: 12)
    var before = episode([
      .image: stream(.image, size), "second_image": stream(.image, size), .depth: stream(.depth, size),
      "wrist_depth": stream(.depth, size, of: "wrist"),
    ])
    before.streams[.pose] = Episode.posed([nil]).streams[.pose]
    let after = before.windowing(.image, to: .window(x: 1, y: 1, size: ImageSize(width: 5, height: 5)))
    for name in ["second_image", "wrist_depth", "pose"] as [StreamName] {
      #expect(after.streams[name]?.spec == before.streams[name]?.spec, "\(name)")
    }
    #expect(after.streams["wrist_depth"]?.source is CountingSource && !(after.streams[.depth]?.source is CountingSource))
    #expect(before.windowing("no_image", to: .window(x: 0, y: 0, size: size)).streams[.image]?.source is CountingSource)
  }

  @Test func aDepthMapThatLosesNothingIsLeftAlone() throws {
    // Two columns less of the image are less than a pixel of the map.
    let before = episode([
      .image: stream(.image, ImageSize(width: 20, height: 12)), .depth: stream(.depth, ImageSize(width: 4, height: 3)),
    ])
    let after = before.windowing(.image, to: .window(x: 1, y: 1, size: ImageSize(width: 18, height: 10)))
    #expect(after.streams[.depth]?.source is CountingSource && after.streams[.image]?.spec.shape == [10, 18, 3])
  }
}
