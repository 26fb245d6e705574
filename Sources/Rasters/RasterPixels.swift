import Foundation
import Media
package import Model

/// Applies a `RasterMap` to pixels. Images are resized with antialiasing; for depth and confidence, each new pixel takes the old pixel that
/// its center falls in, so that values are never blended with each other or with holes.
struct RasterPixels: SampleMap {
  let map: RasterMap
  /// Size before the change, according to the stream's spec.
  let size: ImageSize
  let pixelBytes: Int
  let isImage: Bool

  init(_ map: RasterMap, of spec: StreamSpec, size: ImageSize) {
    (self.map, self.size, pixelBytes, isImage) = (map, size, spec.pixelBytes, spec.kind == .image)
  }

  func request(_ request: SampleRequest) -> SampleRequest {
    var request = request
    switch map {
    case .resize(let target): request.minimumSize = isImage ? target : nil
    case .rotate(let rotation): request.minimumSize = request.minimumSize.map(rotation.size)
    // The wanted pixels are only known at the full size.
    case .window: request.minimumSize = nil
    }
    return request
  }

  func makeMapper(from decoded: ImageSize?) -> (any SampleMapper)? {
    let decoded = decoded ?? size
    switch map {
    case .resize(let target):
      if decoded == target { return nil }
      return isImage ? ResizedPixels(from: decoded, to: target) : NearestPixels(from: decoded, to: target, pixelBytes: pixelBytes)
    case .rotate(let rotation): return RotatedPixels(rotation: rotation, from: decoded, pixelBytes: pixelBytes)
    case .window(let x, let y, let size): return WindowPixels(x: x, y: y, size: size, from: decoded, pixelBytes: pixelBytes)
    }
  }
}

private struct ResizedPixels: SampleMapper {
  private let resizer: ImageResizer

  init(from: ImageSize, to: ImageSize) { resizer = ImageResizer(from: from, to: to) }

  var size: ImageSize? { resizer.target }
  func map(_ sample: [UInt8], into output: inout [UInt8]) { resizer.resize(sample, into: &output) }
}

/// Selected pixels of a grid.
struct NearestPixels: SampleMapper {
  let size: ImageSize?
  private let pixelBytes: Int
  private let oldWidth: Int
  private let columns: [Int]
  private let rows: [Int]

  init(from old: ImageSize, to new: ImageSize, pixelBytes: Int) {
    (size, self.pixelBytes, oldWidth) = (new, pixelBytes, old.width)
    columns = Self.nearest(from: old.width, to: new.width)
    rows = Self.nearest(from: old.height, to: new.height)
  }

  /// Old position whose pixel contains the center of each new one: floor((i + 1/2) * old / new), in integers.
  static func nearest(from old: Int, to new: Int) -> [Int] {
    (0..<new).map { (2 * $0 + 1) * old / (2 * new) }
  }

  func map(_ sample: [UInt8], into output: inout [UInt8]) {
    output.resize(to: rows.count * columns.count * pixelBytes)
    sample.withUnsafeBytes { old in
      output.withUnsafeMutableBytes { new in
        var target = 0
        for row in rows {
          for column in columns {
            let source = (row * oldWidth + column) * pixelBytes
            for byte in 0..<pixelBytes { new[target + byte] = old[source + byte] }
            target += pixelBytes
          }
        }
      }
    }
  }
}

/// The pixels of a window of a grid; those outside the grid are 0.
private struct WindowPixels: SampleMapper {
  let size: ImageSize?
  private let rows: Int
  private let rowBytes: Int
  /// Row length of the whole grid, in bytes.
  private let stride: Int
  /// Rows of the window that the grid has, and the bytes of each of them.
  private let filled: Range<Int>
  private let filledBytes: Range<Int>
  /// Offset in the grid of the first byte of the window, which may lie outside.
  private let start: Int
  private let isInside: Bool

  init(x: Int, y: Int, size: ImageSize, from grid: ImageSize, pixelBytes: Int) {
    func overlap(_ offset: Int, _ length: Int, _ all: Int) -> Range<Int> {
      let low = min(max(-offset, 0), length)
      return low..<max(low, min(length, all - offset))
    }
    (self.size, rows) = (size, size.height)
    (rowBytes, stride, start) = (size.width * pixelBytes, grid.width * pixelBytes, (y * grid.width + x) * pixelBytes)
    filled = overlap(y, size.height, grid.height)
    let columns = overlap(x, size.width, grid.width)
    filledBytes = (columns.lowerBound * pixelBytes)..<(columns.upperBound * pixelBytes)
    isInside = filled.count == size.height && columns.count == size.width
  }

  func map(_ sample: [UInt8], into output: inout [UInt8]) {
    output.resize(to: rows * rowBytes)
    sample.withUnsafeBytes { old in
      output.withUnsafeMutableBytes { new in
        if !isInside { new.initializeMemory(as: UInt8.self, repeating: 0) }
        guard !filledBytes.isEmpty else { return }
        for row in filled {
          let target = row * rowBytes
          let source = start + row * stride
          UnsafeMutableRawBufferPointer(rebasing: new[(target + filledBytes.lowerBound)..<(target + filledBytes.upperBound)])
            .copyMemory(
              from: UnsafeRawBufferPointer(rebasing: old[(source + filledBytes.lowerBound)..<(source + filledBytes.upperBound)]))
        }
      }
    }
  }
}

/// Pixels of an image rotated by a multiple of 90 degrees.
package struct RotatedPixels: SampleMapper {
  let rotation: Rotation90
  /// Size before rotation.
  let from: ImageSize
  let pixelBytes: Int

  package init(rotation: Rotation90, from: ImageSize, pixelBytes: Int) {
    (self.rotation, self.from, self.pixelBytes) = (rotation, from, pixelBytes)
  }

  package var size: ImageSize? { rotation.size(of: from) }

  /// Moves each pixel of a row-major sample to its place after the rotation; `output` has the same number of bytes.
  package func map(_ sample: [UInt8], into output: inout [UInt8]) {
    output.resize(to: sample.count)
    let (width, height) = (from.width, from.height)
    // The pixel at (x, y) moves to origin + x * alongX + y * alongY.
    let (origin, alongX, alongY) =
      switch rotation {
      case .none: (0, 1, width)
      case .right: (height - 1, height, -1)
      case .half: (width * height - 1, -1, -width)
      case .left: ((width - 1) * height, -height, 1)
      }
    // Tiles keep both the rows read and the rows written in the cache.
    let tile = 32
    sample.withUnsafeBufferPointer { sample in
      output.withUnsafeMutableBufferPointer { output in
        for top in stride(from: 0, to: height, by: tile) {
          for left in stride(from: 0, to: width, by: tile) {
            for y in top..<min(top + tile, height) {
              var source = (y * width + left) * pixelBytes
              for x in left..<min(left + tile, width) {
                let target = (origin + x * alongX + y * alongY) * pixelBytes
                for byte in 0..<pixelBytes { output[target + byte] = sample[source + byte] }
                source += pixelBytes
              }
            }
          }
        }
      }
    }
  }
}

extension [UInt8] {
  /// Resizes the array with undefined content; a buffer of the right length stays unchanged.
  package mutating func resize(to count: Int) {
    if self.count != count { self = [UInt8](repeating: 0, count: count) }
  }
}

extension SampleStream {
  /// The stream on another grid: samples and raster change together, and the source's encoding no longer applies.
  package func applying(_ map: RasterMap) -> SampleStream {
    guard let raster = spec.raster else { return self }
    let new = raster.applying(map)
    var changed = self
    changed.source = MappedSource(source, RasterPixels(map, of: spec, size: raster.size))
    changed.spec.raster = new
    changed.spec.shape = [new.size.height, new.size.width] + spec.shape.dropFirst(2)
    changed.spec.sourceEncoding = nil
    return changed
  }
}
