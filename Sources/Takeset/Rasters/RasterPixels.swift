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
    case .resize(let target): request.enough = isImage ? target : nil
    case .rotate(let rotation): request.enough = request.enough.map(rotation.size)
    // The wanted pixels are only known at the full size.
    case .crop: request.enough = nil
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
    case .crop(let x, let y, let size): return CroppedPixels(x: x, y: y, size: size, width: decoded.width, pixelBytes: pixelBytes)
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

private struct CroppedPixels: SampleMapper {
  let x, y: Int
  let size: ImageSize?
  let rows: Int
  let rowBytes: Int
  /// Row length of the full image, in bytes.
  let stride: Int
  let start: Int

  init(x: Int, y: Int, size: ImageSize, width: Int, pixelBytes: Int) {
    (self.x, self.y, self.size, rows) = (x, y, size, size.height)
    (rowBytes, stride, start) = (size.width * pixelBytes, width * pixelBytes, (y * width + x) * pixelBytes)
  }

  func map(_ sample: [UInt8], into output: inout [UInt8]) {
    output.resize(to: rows * rowBytes)
    sample.withUnsafeBytes { old in
      output.withUnsafeMutableBytes { new in
        for row in 0..<rows {
          UnsafeMutableRawBufferPointer(rebasing: new[(row * rowBytes)..<((row + 1) * rowBytes)])
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: old[(start + row * stride)..<(start + row * stride + rowBytes)]))
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
  mutating func resize(to count: Int) {
    if self.count != count { self = [UInt8](repeating: 0, count: count) }
  }
}

extension SampleStream {
  /// The stream on another grid: samples and raster change together, and the source's encoding no longer applies.
  func applying(_ map: RasterMap) -> SampleStream {
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

extension Episode {
  /// The episode with all images, depth and confidence of a camera rotated clockwise, and its poses along with them: they are then those of
  /// a camera held in the rotated orientation.
  package func rotating(_ camera: CameraName, by rotation: Rotation90) -> Episode {
    var rotated = self
    for (name, stream) in streams where stream.spec.raster?.camera == camera {
      if rotation != .none { rotated.streams[name] = stream.applying(.rotate(rotation)) }
      rotated.streams[name]?.spec.rotationApplied = ((stream.spec.rotationApplied ?? 0) + rotation.rawValue) % 360
    }
    guard rotation != .none, let name = cameras[camera]?.pose, let pose = streams[name],
      let oldFromNew = pose.spec.kind.poseFrame?.oldFromNew(rotation)
    else { return rotated }
    rotated.streams[name]?.source = MappedSource(pose.source, RotatedPoses(oldFromNew: oldFromNew))
    return rotated
  }
}

extension PoseFrame {
  /// The rotation, as a quaternion, from the axes of a camera whose images were rotated clockwise to its own; `nil` for axes that are not a
  /// camera's.
  fileprivate func oldFromNew(_ rotation: Rotation90) -> SIMD4<Double>? {
    // After a rotation to the right, the new right is the old up.
    let half = Double(rotation.rawValue) / 2 * .pi / 180
    switch cameraAxes {
    case .arkit: return [0, 0, sin(half), cos(half)]
    case .opencv: return [0, 0, -sin(half), cos(half)]
    case .arbitrary: return nil
    }
  }
}

/// Poses of a camera whose axes were rotated.
private struct RotatedPoses: SampleMap {
  let oldFromNew: SIMD4<Double>

  func request(_ request: SampleRequest) -> SampleRequest { request }
  func makeMapper(from size: ImageSize?) -> (any SampleMapper)? { Mapper(oldFromNew: oldFromNew) }

  private struct Mapper: SampleMapper {
    let oldFromNew: SIMD4<Double>
    var size: ImageSize? { nil }

    func map(_ sample: [UInt8], into output: inout [UInt8]) {
      let pose = Pose(floats: sample.withUnsafeBytes { Array($0.bindMemory(to: Float.self)) }).rotated(by: oldFromNew)
      pose.floats.withUnsafeBytes { output = Array($0) }
    }
  }
}
