import CKernels
import Foundation
import Model
import Testing

@testable import Rasters

/// The shifts of blocks that a camera sees, which follow from its poses and the distance of each block by projection, and what is found in them.
struct ImageLagTests {
  let grid = MotionGrid(ImageSize(width: 640, height: 480))!

  /// A hand that turns and moves. The camera looks along z; x is right, y down.
  static func pose(_ time: Double) -> Pose {
    func turn(_ axis: SIMD3<Double>, _ angle: Double) -> Pose {
      let half = axis * sin(angle / 2)
      return Pose(position: .zero, quaternion: SIMD4(half, cos(angle / 2)))
    }
    let yaw = turn([0, 1, 0], 0.25 * sin(2 * .pi * 0.6 * time) + 0.05 * sin(2 * .pi * 1.1 * time))
    let pitch = turn([1, 0, 0], 0.2 * sin(2 * .pi * 0.5 * time + 1))
    var pose = yaw.composed(with: pitch).composed(with: turn([0, 0, 1], 0.1 * sin(2 * .pi * 0.7 * time + 2)))
    pose.position = [0.15 * sin(3.8 * time), 0.1 * sin(3.1 * time), 0.15 * cos(2.5 * time)]
    return pose
  }

  /// Pairs of images that are late, and whose lines are read one after the other, of a scene at 1 to 4 m.
  func pairs(
    late lag: Double, readout: Double = 0, focal: Double = 48, center: SIMD2<Double> = .zero, seconds: Double = 3,
    pose: (Double) -> Pose = ImageLagTests.pose
  ) -> [ImageLag.Pair] {
    (0..<Int(seconds * 30)).map { number in
      let (start, end) = (1 + Double(number) / 30, 1 + Double(number + 1) / 30)
      var shifts = [Float](repeating: 0, count: 5 * grid.blocks)
      for block in 0..<grid.blocks {
        let place = SIMD2(
          (Double(block % grid.columns) - Double(grid.columns - 1) / 2) * 8, (Double(block / grid.columns) - Double(grid.rows - 1) / 2) * 8)
        let late = lag - readout * place.y / 48
        let ray = (place - center) / focal
        let distance = 2.5 + 1.5 * sin(Double(block) * 1.7)
        let (a, b) = (pose(start - late), pose(end - late))
        let world = a.rotate(SIMD3(ray.x, ray.y, 1) * distance) + a.position
        let seen = Pose(position: .zero, quaternion: b.quaternion).inverse.rotate(world - b.position)
        let shift = SIMD2(seen.x, seen.y) / seen.z * focal + center - place
        shifts[block] = Float(shift.x)
        shifts[grid.blocks + block] = Float(shift.y)
        shifts[2 * grid.blocks + block] = 400
        shifts[4 * grid.blocks + block] = 400
      }
      return ImageLag.Pair(start: start, end: end, shifts: shifts)
    }
  }

  func poses(rate: Double = 60, _ pose: (Double) -> Pose = ImageLagTests.pose) -> ImageLag.Poses {
    var poses = ImageLag.Poses()
    for number in 0..<Int(5 * rate) {
      poses.times.append(Double(number) / rate)
      poses.poses.append(pose(Double(number) / rate))
    }
    return poses
  }

  func lens(focal: Double, center: SIMD2<Double>) -> ImageLag.Lens? {
    let cell = grid.cell
    return ImageLag.Lens(
      Intrinsics(fx: focal * cell, fy: focal * cell, cx: 320 + center.x * cell, cy: 240 + center.y * cell),
      ImageSize(width: 640, height: 480), on: grid)
  }

  @Test(arguments: [-0.1, -0.033, 0, 0.0125, 0.05, 0.1], [30.0, 60])
  func `The lag is that of the images`(lag: Double, rate: Double) throws {
    let found = try #require(ImageLag(pairs(late: lag), on: grid, poses: poses(rate: rate), lens: nil))
    #expect(abs(found.lag - lag) < 0.001 && found.correlation > 0.98, "\(found.lag - lag) \(found.correlation)")
  }

  @Test(arguments: [-0.03, -0.01, 0.008, 0.016, 0.03])
  func `A rolling shutter does not change the lag of the middle`(readout: Double) throws {
    let found = try #require(ImageLag(pairs(late: 0.02, readout: readout), on: grid, poses: poses(), lens: nil))
    #expect(abs(found.lag - 0.02) < 0.001)
  }

  @Test func `Images may be cropped where their intrinsics are known`() throws {
    let center = SIMD2(24.0, -18)
    let late = pairs(late: 0.05, focal: 70, center: center)
    let found = try #require(ImageLag(late, on: grid, poses: poses(), lens: lens(focal: 70, center: center)))
    #expect(abs(found.lag - 0.05) < 0.0005)
    #expect(lens(focal: 0, center: .zero) == nil && lens(focal: .nan, center: .zero) == nil && lens(focal: 48, center: [500, 0]) == nil)
  }

  @Test(arguments: [-0.1, 0, 0.05])
  func `The curves of images and poses differ by the lag`(lag: Double) throws {
    // Turning alone: how fast the middle of the picture slides is how fast the camera turns.
    func turning(_ time: Double) -> Pose { Pose(position: .zero, quaternion: Self.pose(time).quaternion) }
    let found = try #require(
      ImageLag(pairs(late: lag, pose: turning), on: grid, poses: poses(turning), lens: lens(focal: 48, center: .zero)))
    let points = found.curves.stretches.joined()
    #expect(found.curves.isAcross && found.curves.stretches.count == 1 && points.count == 90)
    for point in points {
      func rate(_ time: Double) -> Double {
        let step = turning(time - 1.0 / 60).inverse.composed(with: turning(time + 1.0 / 60))
        return -30 * 180 / .pi * step.rotationVector.y
      }
      #expect(
        abs(point.poses - rate(point.time)) < 1.2 && abs((point.images ?? .nan) - rate(point.time - lag)) < 1.2,
        "\(point) \(rate(point.time))")
    }
  }

  @Test func `Images that fit no lag are left out of the curves`() throws {
    var late = pairs(late: 0.05)
    for number in [20, 41, 42] { for block in 0..<grid.blocks { late[number].shifts[block] = 5 - late[number].shifts[block] } }
    let curves = try #require(ImageLag(late, on: grid, poses: poses(), lens: nil)).curves
    let points = Array(curves.stretches.joined())
    #expect(points.indices.filter { points[$0].images == nil } == [20, 41, 42])
  }

  @Test(arguments: [22.0, 27, 35, 65])
  func `The focal length need not be known`(focal: Double) throws {
    let found = try #require(ImageLag(pairs(late: -0.04, focal: focal), on: grid, poses: poses(), lens: nil))
    #expect(abs(found.lag + 0.04) < 0.001)
  }

  @Test func `Motion that does not tell has no lag`() {
    let still = pairs(late: 0) { _ in .identity }
    #expect(ImageLag(still, on: grid, poses: poses { _ in .identity }, lens: nil) == nil)
    func even(_ time: Double) -> Pose { Pose(position: .zero, quaternion: [0, sin(0.3 * time), 0, cos(0.3 * time)]) }
    #expect(ImageLag(pairs(late: 0.05, pose: even), on: grid, poses: poses(even), lens: nil) == nil)
    // One frequency, of which two lags in reach are the same.
    func shaken(_ time: Double) -> Pose {
      let half = 0.015 * sin(2 * .pi * 6 * time)
      return Pose(position: .zero, quaternion: [0, sin(half), 0, cos(half)])
    }
    for lag in stride(from: -0.058, through: -0.04, by: 0.002) {
      let found = ImageLag(pairs(late: lag, pose: shaken), on: grid, poses: poses(rate: 120, shaken), lens: nil)
      #expect(found.map { abs($0.lag - lag) < 0.003 } ?? true, "\(lag): \(found?.lag ?? 0)")
    }
    // A view of upright stripes alone.
    let stripes = pairs(late: 0.05).map { pair in
      var pair = pair
      for block in 0..<grid.blocks { (pair.shifts[2 * grid.blocks + block], pair.shifts[4 * grid.blocks + block]) = (700, 100) }
      return pair
    }
    #expect(ImageLag(stripes, on: grid, poses: poses(), lens: nil) == nil)
    // Poses of something else, too few images, and too few poses.
    #expect(ImageLag(pairs(late: 0), on: grid, poses: poses { Self.pose(1.3 * $0 + 7) }, lens: nil) == nil)
    #expect(ImageLag(pairs(late: 0, seconds: 1.5), on: grid, poses: poses(), lens: nil) == nil)
    #expect(ImageLag(pairs(late: 0), on: grid, poses: poses(rate: 5), lens: nil) == nil)
    #expect(
      ImageLag([], on: grid, poses: poses(), lens: nil) == nil && ImageLag(pairs(late: 0), on: grid, poses: .init(), lens: nil) == nil)
  }

  /// A picture of waves, moved by whole pixels.
  func image(_ size: ImageSize, movedBy dx: Int, _ dy: Int) -> [UInt8] {
    (0..<size.height).flatMap { y in
      (0..<size.width).flatMap { x -> [UInt8] in
        // In cells: nothing in it repeats within a quarter of the picture.
        let cell = Double(max(size.width, size.height)) / 64, (u, v) = (Double(x - dx) / cell, Double(y - dy) / cell)
        let light = 127 + 45 * sin(u / 4 + v / 7) + 40 * sin(v / 3.3 - u / 11) + 30 * sin(u / 2.7 + 1)
        return [UInt8](repeating: UInt8(light), count: 3)
      }
    }
  }

  @Test(arguments: [(640, 480), (480, 640), (1280, 720), (131, 97)], [(5, -3), (0, 0), (-12, 7), (20, 10)])
  func `Blocks shift as the picture does`(size: (Int, Int), moved: (Int, Int)) throws {
    let size = ImageSize(width: size.0, height: size.1)
    let grid = try #require(MotionGrid(size))
    // Tenths of cells, in whole pixels.
    let (dx, dy) = (Int((Double(moved.0) * grid.cell / 10).rounded()), Int((Double(moved.1) * grid.cell / 10).rounded()))
    let (a, b) = try (#require(grid.image(image(size, movedBy: 0, 0))), #require(grid.image(image(size, movedBy: dx, dy))))
    let shifts = a.shifts(to: b, lens: nil)
    let known = (0..<grid.blocks).filter { shifts[2 * grid.blocks + $0] + shifts[4 * grid.blocks + $0] > 20 }
    #expect(known.count * 4 >= grid.blocks)
    for block in known {
      let error = hypot(Double(shifts[block]) - Double(dx) / grid.cell, Double(shifts[grid.blocks + block]) - Double(dy) / grid.cell)
      #expect(error < 0.35, "block \(block)")
    }
  }

  /// Images on 48 or 56 cells have lines of halves and quarters that are not filled by lanes of eight.
  @Test(arguments: [(64, 48), (48, 64), (56, 64), (32, 64)])
  func `What memory held before does not count`(size: (Int, Int)) throws {
    let (width, height) = size
    func prepared(_ movedBy: Int, in memory: UInt8) -> [Float] {
      let cells = (0..<(width * height)).map { index in
        let (x, y) = (Double(index % width - movedBy), Double(index / width))
        return Float(127 + 45 * sin(x / 4 + y / 7) + 40 * sin(y / 3.3 - x / 11) + 30 * sin(x / 2.7 + 1))
      }
      var image = [Float](repeating: Float(bitPattern: UInt32(memory) * 0x0101_0101), count: (cmotion_image_size() + 3) / 4)
      cmotion_prepare(cells, UInt32(width), UInt32(height), &image)
      return image
    }
    let lens = cmotion_lens(across: 48, down: 48, x: 0, y: 0)
    // Zeros, and numbers that are none.
    let found = [UInt8(0), 0xFF].map { memory in
      var shifts = [Float](repeating: 0, count: 5 * width * height / 64)
      cmotion_pair(prepared(0, in: memory), prepared(1, in: memory), lens, &shifts)
      return shifts
    }
    #expect(found[0] == found[1] && found[0].allSatisfy(\.isFinite))
  }

  @Test func `Images that are too small or narrow have no grid`() {
    for (width, height) in [(63, 63), (640, 24), (100, 8000), (1, 1)] {
      #expect(MotionGrid(ImageSize(width: width, height: height)) == nil)
    }
    #expect(grid.image([1, 2, 3]) == nil, "bytes of another image")
  }
}
