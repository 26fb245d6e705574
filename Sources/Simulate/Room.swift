import Foundation
import Media
import Model

/// A simple scene whose images and depth can be computed exactly: a textured room of 6 x 2.8 x 5 m seen from inside, with
/// three balls and a crate.
///
/// The room is enlarged for trajectories that leave it.
struct Room {
  private var low = SIMD3<Float>(-3, -1.2, -2.5)
  private var high = SIMD3<Float>(3, 1.6, 2.5)

  private struct Ball {
    var center: SIMD3<Float>
    var radius: Float
    var color: SIMD3<Float>
  }

  private let balls = [
    Ball(center: [1.9, -0.7, -1.4], radius: 0.5, color: [0.85, 0.25, 0.2]),
    Ball(center: [-1.8, -0.8, 1.2], radius: 0.4, color: [0.2, 0.55, 0.85]),
    Ball(center: [0.3, 0.9, 1.9], radius: 0.3, color: [0.95, 0.8, 0.25]),
  ]
  private let crateLow = SIMD3<Float>(-2.2, -1.2, -1.9)
  private let crateHigh = SIMD3<Float>(-1.3, -0.3, -1.1)

  /// - Parameter path: Camera positions, each of which must be at least 0.8 m from every wall.
  init(enclosing path: [SIMD3<Float>]) {
    for position in path {
      low = pointwiseMin(low, position - 0.8)
      high = pointwiseMax(high, position + 0.8)
    }
  }

  /// A pinhole camera; ARKit axes: x right, y up, looking along -z.
  struct Camera {
    var size: ImageSize
    /// 4x4 row-major camera-to-world.
    var matrix: [Double]
    var zoom: Float = 1
    /// Focal length in pixels, 1.2 times the half diagonal of a 4:3 image at zoom 1, about that of a phone's wide camera.
    var focalLength: Float { Float(size.width) * 0.75 * zoom }
  }

  /// The first intersection of a camera ray.
  private struct Hit {
    /// Distance in units of the ray, whose component along the optical axis is 1, and thus the depth.
    var depth: Float
    var color: SIMD3<Float>
  }

  /// Renders an RGB image, with noise of a few levels like a phone's, which determines how well JPEG and deflate compress it.
  func image(from camera: Camera, seed: UInt64) -> [UInt8] {
    var pixels = [UInt8](repeating: 0, count: camera.size.width * camera.size.height * 3)
    let rays = Rays(camera)
    var noise = UInt32(truncatingIfNeeded: seed ^ (seed >> 32)) | 1
    pixels.withUnsafeMutableBufferPointer { pixels in
      var index = 0
      for y in 0..<camera.size.height {
        for x in 0..<camera.size.width {
          let color = trace(rays.origin, rays.direction(x: x, y: y)).color * 255
          noise ^= noise << 13
          noise ^= noise >> 17
          noise ^= noise << 5
          let grain = Float(noise & 15) - 7.5 + Float((noise >> 8) & 7) - 3.5
          for channel in 0..<3 { pixels[index + channel] = UInt8(max(0, min(255, color[channel] + grain))) }
          index += 3
        }
      }
    }
    return pixels
  }

  /// Exact depth values along the optical axis in meters.
  func depth(from camera: Camera) -> [Float] {
    let rays = Rays(camera)
    var meters: [Float] = []
    meters.reserveCapacity(camera.size.width * camera.size.height)
    for y in 0..<camera.size.height {
      for x in 0..<camera.size.width { meters.append(trace(rays.origin, rays.direction(x: x, y: y)).depth) }
    }
    return meters
  }

  private struct Rays {
    let origin: SIMD3<Float>
    private let right, up, forward: SIMD3<Float>
    private let center: SIMD2<Float>
    private let scale: Float

    init(_ camera: Camera) {
      let m = camera.matrix.map { Float($0) }
      origin = [m[3], m[7], m[11]]
      right = [m[0], m[4], m[8]]
      up = [m[1], m[5], m[9]]
      forward = [-m[2], -m[6], -m[10]]
      center = [Float(camera.size.width) / 2, Float(camera.size.height) / 2]
      scale = 1 / camera.focalLength
    }

    @inline(__always)
    func direction(x: Int, y: Int) -> SIMD3<Float> {
      let u = (Float(x) + 0.5 - center.x) * scale
      let v = (center.y - Float(y) - 0.5) * scale
      return forward + right * u + up * v
    }
  }

  @inline(__always)
  private func trace(_ origin: SIMD3<Float>, _ direction: SIMD3<Float>) -> Hit {
    // A ray parallel to a wall never meets it; a tiny slope instead of zero avoids infinities.
    let direction = direction.replacing(with: 1e-12, where: direction .== 0)
    let inverse = 1 / direction
    // From inside, a ray leaves the room through the nearest of the three walls in its direction.
    let walls = ((direction .> 0).select(high, low) - origin) * inverse
    var (depth, axis) = (walls.x, 0)
    if walls.y < depth { (depth, axis) = (walls.y, 1) }
    if walls.z < depth { (depth, axis) = (walls.z, 2) }
    var color: SIMD3<Float>?

    for ball in balls {
      let offset = origin - ball.center
      let a = (direction * direction).sum()
      let b = (offset * direction).sum()
      let discriminant = b * b - a * ((offset * offset).sum() - ball.radius * ball.radius)
      guard discriminant > 0 else { continue }
      let near = (-b - discriminant.squareRoot()) / a
      guard near > 0, near < depth else { continue }
      depth = near
      let normal = (offset + direction * near) / ball.radius
      color = ball.color * (0.55 + 0.45 * max(0, normal.y))
    }

    let near = (crateLow - origin) * inverse, far = (crateHigh - origin) * inverse
    let enter = pointwiseMin(near, far), leave = pointwiseMax(near, far)
    let (first, last) = (enter.max(), leave.min())
    if first > 0, first < last, first < depth {
      depth = first
      let point = origin + direction * first
      let plank = (point.y * 12).rounded(.down)
      color = SIMD3(0.62, 0.45, 0.28) * (plank.truncatingRemainder(dividingBy: 2) == 0 ? 1 : 0.8)
    }
    return Hit(depth: depth, color: color ?? wall(origin + direction * depth, axis))
  }

  /// Color of a checkered floor, striped walls, or a plain ceiling.
  @inline(__always)
  private func wall(_ point: SIMD3<Float>, _ axis: Int) -> SIMD3<Float> {
    func isOdd(_ value: Float) -> Bool { Int(value.rounded(.down)) & 1 != 0 }
    switch axis {
    case 1:
      if point.y > 0 { return [0.9, 0.9, 0.88] }
      return isOdd(point.x * 2.5) != isOdd(point.z * 2.5) ? [0.55, 0.5, 0.45] : [0.75, 0.72, 0.66]
    case 0:
      let shade: Float = isOdd(point.z * 4) ? 0.72 : 0.8
      return SIMD3(0.95, 0.9, 0.8) * (shade + 0.08 * point.y)
    default:
      let shade: Float = isOdd(point.x * 3) != isOdd(point.y * 3) ? 0.62 : 0.74
      return SIMD3(0.8, 0.9, 0.95) * shade
    }
  }
}

extension SIMDMask where Storage == SIMD3<Int32> {
  fileprivate func select(_ a: SIMD3<Float>, _ b: SIMD3<Float>) -> SIMD3<Float> { b.replacing(with: a, where: self) }
}
