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

  /// Renders an RGB image, with noise of a few levels like a phone's, which determines how well JPEG and deflate compress it.
  func image(from camera: Camera, seed: UInt64) -> [UInt8] {
    var pixels = [UInt8](repeating: 0, count: camera.size.width * camera.size.height * 3)
    let rays = Rays(camera)
    var noise = UInt32(truncatingIfNeeded: seed ^ (seed >> 32)) | 1
    @inline(__always)
    func next() -> Float {
      noise ^= noise << 13
      noise ^= noise >> 17
      noise ^= noise << 5
      return Float(noise & 15) - 7.5 + Float((noise >> 8) & 7) - 3.5
    }
    pixels.withUnsafeMutableBufferPointer { pixels in
      var index = 0
      for y in 0..<camera.size.height {
        for x in stride(from: 0, to: camera.size.width, by: Lanes.scalarCount) {
          let color = trace(rays, x, y).color
          let lanes = min(Lanes.scalarCount, camera.size.width - x)
          var grain = Lanes()
          if lanes == Lanes.scalarCount {
            grain = Lanes(next(), next(), next(), next(), next(), next(), next(), next())
          } else {
            for lane in 0..<lanes { grain[lane] = next() }
          }
          let (red, green, blue) = (levels(color.0 * 255 + grain), levels(color.1 * 255 + grain), levels(color.2 * 255 + grain))
          for lane in 0..<lanes {
            (pixels[index], pixels[index + 1], pixels[index + 2]) = (red[lane], green[lane], blue[lane])
            index += 3
          }
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
      for x in stride(from: 0, to: camera.size.width, by: Lanes.scalarCount) {
        let depth = trace(rays, x, y).depth
        for lane in 0..<min(Lanes.scalarCount, camera.size.width - x) { meters.append(depth[lane]) }
      }
    }
    return meters
  }

  /// The number of neighboring rays that are traced together. Integers and masks are computed in words of all lanes: comparisons of
  /// integers and `any` are loops over single lanes, and take longer than the rest.
  private typealias Lanes = SIMD8<Float>
  private typealias Vectors = (x: Lanes, y: Lanes, z: Lanes)

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

    /// The directions of a pixel's ray and of those to its right; their component along the optical axis is 1.
    @inline(__always)
    func directions(x: Int, y: Int) -> Vectors {
      let steps = Lanes(0, 1, 2, 3, 4, 5, 6, 7)
      let u = (Float(x) + steps + 0.5 - center.x) * scale
      let rise = up * ((center.y - Float(y) - 0.5) * scale)
      return (forward.x + right.x * u + rise.x, forward.y + right.y * u + rise.y, forward.z + right.z * u + rise.z)
    }
  }

  /// The first intersections of the rays of a pixel and those to its right: their depth, and red, green and blue.
  @inline(__always)
  private func trace(_ rays: Rays, _ x: Int, _ y: Int) -> (depth: Lanes, color: (Lanes, Lanes, Lanes)) {
    let origin = rays.origin
    var (dx, dy, dz) = rays.directions(x: x, y: y)
    // A ray parallel to a wall never meets it; a tiny slope instead of zero avoids infinities.
    dx.replace(with: 1e-12, where: dx .== 0)
    dy.replace(with: 1e-12, where: dy .== 0)
    dz.replace(with: 1e-12, where: dz .== 0)
    let (ix, iy, iz) = (1 / dx, 1 / dy, 1 / dz)
    // From inside, a ray leaves the room through the nearest of the three walls in its direction.
    var depth = (Lanes(repeating: low.x).replacing(with: high.x, where: dx .> 0) - origin.x) * ix
    let wy = (Lanes(repeating: low.y).replacing(with: high.y, where: dy .> 0) - origin.y) * iy
    let wz = (Lanes(repeating: low.z).replacing(with: high.z, where: dz .> 0) - origin.z) * iz
    let isLevel = wy .< depth
    depth.replace(with: wy, where: isLevel)
    let isBack = wz .< depth
    depth.replace(with: wz, where: isBack)
    var color = wall((origin.x + dx * depth, origin.y + dy * depth, origin.z + dz * depth), isLevel, isBack)

    let a = (dx * dx + dy * dy) + dz * dz
    for ball in balls {
      let offset = origin - ball.center
      let b = (offset.x * dx + offset.y * dy) + offset.z * dz
      let discriminant = b * b - a * ((offset * offset).sum() - ball.radius * ball.radius)
      guard hasAny(discriminant .> 0 .& (b .< 0)) else { continue }
      let near = (-b - discriminant.squareRoot()) / a
      let isMet = discriminant .> 0 .& (near .> 0) .& (near .< depth)
      depth.replace(with: near, where: isMet)
      let height = (offset.y + dy * near) / ball.radius
      let shade = 0.55 + 0.45 * height.replacing(with: 0, where: height .< 0)
      color.0.replace(with: ball.color.x * shade, where: isMet)
      color.1.replace(with: ball.color.y * shade, where: isMet)
      color.2.replace(with: ball.color.z * shade, where: isMet)
    }

    let (nx, fx) = sorted((crateLow.x - origin.x) * ix, (crateHigh.x - origin.x) * ix)
    let (ny, fy) = sorted((crateLow.y - origin.y) * iy, (crateHigh.y - origin.y) * iy)
    let (nz, fz) = sorted((crateLow.z - origin.z) * iz, (crateHigh.z - origin.z) * iz)
    let first = sorted(sorted(nx, ny).1, nz).1, last = sorted(sorted(fx, fy).0, fz).0
    let isMet = first .> 0 .& (first .< last) .& (first .< depth)
    if hasAny(isMet) {
      depth.replace(with: first, where: isMet)
      let shade = Lanes(repeating: 1).replacing(with: 0.8, where: mask(parity((origin.y + dy * first) * 12)))
      color.0.replace(with: 0.62 * shade, where: isMet)
      color.1.replace(with: 0.45 * shade, where: isMet)
      color.2.replace(with: 0.28 * shade, where: isMet)
    }
    return (depth, color)
  }

  @inline(__always)
  private func hasAny(_ mask: SIMDMask<SIMD8<Int32>>) -> Bool {
    let bits = unsafeBitCast(mask, to: SIMD4<UInt64>.self)
    return bits.x | bits.y | bits.z | bits.w != 0
  }

  @inline(__always)
  private func sorted(_ a: Lanes, _ b: Lanes) -> (Lanes, Lanes) {
    let isSwapped = b .< a
    return (a.replacing(with: b, where: isSwapped), b.replacing(with: a, where: isSwapped))
  }

  /// Numbers as bytes, rounded down.
  @inline(__always)
  private func levels(_ value: Lanes) -> SIMD8<UInt8> {
    let inside = value.replacing(with: 0, where: value .< 0).replacing(with: 255, where: value .> 255)
    let moved = inside + 12_582_912
    let isRaised = unsafeBitCast(moved - 12_582_912 .> inside, to: SIMD8<Int32>.self)
    return SIMD8<UInt8>(truncatingIfNeeded: unsafeBitCast(moved, to: SIMD8<Int32>.self) &+ isRaised)
  }

  /// The last bit of numbers that are rounded down. A float of 1.5 times 2^23 more has a whole number in its last bits.
  @inline(__always)
  private func parity(_ value: Lanes) -> SIMD8<Int32> {
    let moved = value + 12_582_912
    let isRaised = unsafeBitCast(moved - 12_582_912 .> value, to: SIMD8<Int32>.self)
    return (unsafeBitCast(moved, to: SIMD8<Int32>.self) &+ isRaised) & 1
  }

  /// The lanes with a bit.
  @inline(__always)
  private func mask(_ bit: SIMD8<Int32>) -> SIMDMask<SIMD8<Int32>> { unsafeBitCast(0 &- bit, to: SIMDMask<SIMD8<Int32>>.self) }

  /// Color of a checkered floor, striped walls, or a plain ceiling.
  @inline(__always)
  private func wall(_ point: Vectors, _ isLevel: SIMDMask<SIMD8<Int32>>, _ isBack: SIMDMask<SIMD8<Int32>>) -> (Lanes, Lanes, Lanes) {
    // The walls at the sides.
    let shade = Lanes(repeating: 0.8).replacing(with: 0.72, where: mask(parity(point.z * 4))) + 0.08 * point.y
    var color = (0.95 * shade, 0.9 * shade, 0.8 * shade)
    if hasAny(isLevel) {
      let isDark = mask(parity(point.x * 2.5) ^ parity(point.z * 2.5)), isCeiling = point.y .> 0
      @inline(__always)
      func level(_ light: Float, _ dark: Float, _ ceiling: Float) -> Lanes {
        Lanes(repeating: light).replacing(with: dark, where: isDark).replacing(with: ceiling, where: isCeiling)
      }
      color.0.replace(with: level(0.75, 0.55, 0.9), where: isLevel)
      color.1.replace(with: level(0.72, 0.5, 0.9), where: isLevel)
      color.2.replace(with: level(0.66, 0.45, 0.88), where: isLevel)
    }
    if hasAny(isBack) {
      let shade = Lanes(repeating: 0.74).replacing(with: 0.62, where: mask(parity(point.x * 3) ^ parity(point.y * 3)))
      color.0.replace(with: 0.8 * shade, where: isBack)
      color.1.replace(with: 0.9 * shade, where: isBack)
      color.2.replace(with: 0.95 * shade, where: isBack)
    }
    return color
  }
}
