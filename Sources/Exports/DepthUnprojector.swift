import Model

/// A depth map with the pose and the intrinsics of its own time.
struct PosedDepthMap: Sendable {
  /// A camera at one time.
  struct View: Sendable {
    var cameraFromWorld: Pose
    var intrinsics: Intrinsics
  }

  var row: Int
  /// Camera-to-world, OpenCV's camera axes.
  var pose: Pose
  /// Intrinsics in pixels of the depth map.
  var intrinsics: Intrinsics
  /// The view of the row's image, where it was taken at another time than the map.
  var image: View?
}

/// The numbers of depth values that were used and left out, by reason.
struct FusionCounts: Sendable {
  /// Maps that could be read, and their values.
  var maps = 0, valid = 0
  /// Values that are left out.
  var unsure = 0, outOfRange = 0, edges = 0, uncolored = 0, beyondGrid = 0

  static func += (a: inout FusionCounts, b: FusionCounts) {
    a.maps += b.maps
    a.valid += b.valid
    a.unsure += b.unsure
    a.outOfRange += b.outOfRange
    a.edges += b.edges
    a.uncolored += b.uncolored
    a.beyondGrid += b.beyondGrid
  }

  /// The reasons for which values are left out, in words.
  var reasons: String {
    let parts = [
      (unsure, "have too low a confidence"), (outOfRange, "are out of range"), (edges, "are at edges"),
      (uncolored, "are outside of the image"), (beyondGrid, "are too many voxels from the origin"),
    ]
    let found = parts.filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
    return "of \(valid) depth values in \(maps) maps, " + (found.isEmpty ? "none is left" : found.joined(separator: ", "))
  }
}

/// Turns depth maps into colored points of the world, with the memory for one thread.
struct DepthUnprojector {
  /// The points of the maps so far.
  var points: VoxelBatch
  private let settings: FusionSettings
  private let minimum: UInt8
  private var depth: RasterReader
  private var confidence, image: RasterReader?
  /// The image's pixel that the center of each depth pixel is in, -1 outside of the image.
  private let imagePixels: [Int32]
  private var values: [UInt8] = []
  private var certainty: [UInt8] = []
  private var colors: [UInt8] = []

  init(
    _ episode: ExportedEpisode, depth: StreamName, confidence: StreamName?, image: StreamName?, _ settings: FusionSettings
  ) throws {
    self.settings = settings
    minimum = confidence == nil ? 0 : UInt8(clamping: settings.confidence ?? 2)
    points = VoxelBatch(size: settings.voxel)
    let (depth, image) = (try RasterReader(depth, of: episode), try image.map { try RasterReader($0, of: episode) })
    (self.depth, self.image) = (depth, image)
    self.confidence = minimum > 0 ? try confidence.map { try RasterReader($0, of: episode) } : nil
    imagePixels = image?.stream.spec.raster.flatMap { depth.stream.spec.raster?.pixels(of: $0) } ?? []
  }

  /// Adds a map's points.
  mutating func unproject(_ map: PosedDepthMap) throws -> FusionCounts {
    var counts = FusionCounts()
    guard try depth.read(map.row, into: &values), try confidence?.read(map.row, into: &certainty) ?? true,
      try image?.read(map.row, into: &colors) ?? true
    else { return counts }
    counts.maps = 1
    depth.stream.spec.meters(values).withUnsafeBufferPointer { meters in
      certainty.withUnsafeBufferPointer { certainty in
        colors.withUnsafeBufferPointer { colors in
          imagePixels.withUnsafeBufferPointer { unproject(map, meters, certainty, colors, $0, &counts) }
        }
      }
    }
    return counts
  }

  private mutating func unproject(
    _ map: PosedDepthMap, _ meters: UnsafeBufferPointer<Float>, _ certainty: UnsafeBufferPointer<UInt8>,
    _ colors: UnsafeBufferPointer<UInt8>, _ imagePixels: UnsafeBufferPointer<Int32>, _ counts: inout FusionCounts
  ) {
    let (size, settings, minimum) = (depth.stream.spec.gridSize, settings, minimum)
    let (camera, origin, axes) = (map.intrinsics, map.pose.position, map.pose.axes)
    let colors = image.map { PointColors(imagePixels, colors, $0.stream.spec.gridSize, map.image) }
    for y in 0..<size.height {
      let down = (Double(y) + 0.5 - camera.cy) / camera.fy
      for x in 0..<size.width {
        let index = y * size.width + x
        let near = meters[index]
        // NaN is not above 0.
        guard near > 0 else { continue }
        counts.valid += 1
        if minimum > 0, certainty[index] < minimum {
          counts.unsure += 1
          continue
        }
        guard near >= settings.least, near <= settings.greatest else {
          counts.outOfRange += 1
          continue
        }
        if settings.edge > 0, Self.isEdge(x, y, index, near, meters, size, settings.edge) {
          counts.edges += 1
          continue
        }
        let z = Double(near)
        let (a, b) = ((Double(x) + 0.5 - camera.cx) / camera.fx * z, down * z)
        let point = origin + axes.x * a + axes.y * b + axes.z * z
        guard let color = colors == nil ? 0 : colors?.color(at: index, point) else {
          counts.uncolored += 1
          continue
        }
        if !points.add(point.x, point.y, point.z, color: color) { counts.beyondGrid += 1 }
      }
    }
  }

  /// Whether one of the four neighbors is another surface.
  @inline(__always)
  private static func isEdge(
    _ x: Int, _ y: Int, _ index: Int, _ near: Float, _ meters: UnsafeBufferPointer<Float>, _ size: ImageSize, _ limit: Float
  ) -> Bool {
    func differs(_ neighbor: Int) -> Bool {
      let other = meters[neighbor]
      return other > 0 && abs(other - near) > limit * min(other, near)
    }
    return x > 0 && differs(index - 1) || x + 1 < size.width && differs(index + 1) || y > 0 && differs(index - size.width)
      || y + 1 < size.height && differs(index + size.width)
  }
}

/// The colors that points have in an image.
private struct PointColors {
  private let imagePixels: UnsafeBufferPointer<Int32>
  private let colors: UnsafeBufferPointer<UInt8>
  private let size: ImageSize
  private let view: PosedDepthMap.View?

  /// - Parameter imagePixels: The image's pixel of each depth pixel, which counts if there is no `view`.
  init(_ imagePixels: UnsafeBufferPointer<Int32>, _ colors: UnsafeBufferPointer<UInt8>, _ size: ImageSize, _ view: PosedDepthMap.View?) {
    (self.imagePixels, self.colors, self.size, self.view) = (imagePixels, colors, size, view)
  }

  /// The color 0xRRGGBB of a depth pixel or its point; `nil` outside of the image.
  @inline(__always)
  func color(at index: Int, _ point: SIMD3<Double>) -> UInt32? {
    var pixel = Int(imagePixels[index])
    if let view {
      let seen = view.cameraFromWorld.rotate(point) + view.cameraFromWorld.position
      let camera = view.intrinsics
      guard seen.z > 0,
        let other = size.pixel(seen.x / seen.z * camera.fx + camera.cx, seen.y / seen.z * camera.fy + camera.cy)
      else { return nil }
      pixel = other
    }
    guard pixel >= 0 else { return nil }
    return UInt32(colors[3 * pixel]) << 16 | UInt32(colors[3 * pixel + 1]) << 8 | UInt32(colors[3 * pixel + 2])
  }
}

extension Raster {
  /// Returns, for each pixel of this grid, row after row, the number of the pixel of another grid of the same camera that its center is in;
  /// -1 where it is in none.
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
