import Testing

@testable import Exports

@Suite struct VoxelGridTests {
  private func points(_ grid: VoxelGrid) throws -> (points: [VoxelGrid.Point], bounds: VoxelGrid.Bounds) {
    var found: [VoxelGrid.Point] = []
    let bounds = try grid.forEach { found.append($0) }
    return (found.sorted { $0.x < $1.x }, bounds)
  }

  @Test func aCubeHasTheMeanOfItsPoints() throws {
    let grid = VoxelGrid(size: 0.5)
    var batch = VoxelBatch(size: 0.5)
    // The macro cannot call what changes the batch.
    let added = [
      batch.add(0.1, -0.2, 1.1, color: 0x00_10_FF), batch.add(-3.1, 0, 0, color: 0xFF_FF_FF), batch.add(0.3, -0.4, 1.3, color: 0x03_20_00),
    ]
    #expect(added == [true, true, true])
    grid.add(&batch)
    #expect(grid.count == 2)
    let (found, bounds) = try points(grid)
    #expect(abs(found[1].x - 0.2) < 1e-5 && abs(found[1].y + 0.3) < 1e-5 && abs(found[1].z - 1.2) < 1e-5)
    // Halves are rounded up.
    #expect([found[1].red, found[1].green, found[1].blue] == [2, 0x18, 0x80])
    #expect(abs(found[0].x + 3.1) < 1e-5 && found[0].red == 255)
    #expect(bounds.points == 2 && bounds.minimum.x == found[0].x && bounds.maximum.x == found[1].x)
    #expect(grid.count == 0)
  }

  /// An entry of the table counts up to 65535 points; more are added up elsewhere.
  @Test(arguments: [65535, 65536, 200_000]) func aCubeMayHaveAnyNumberOfPoints(_ count: Int) throws {
    let grid = VoxelGrid(size: 1)
    var batch = VoxelBatch(size: 1)
    for index in 0..<count {
      _ = batch.add(0.999_99, Double(index % 2) * 0.5 + 0.25, 0.5, color: index % 4 == 0 ? 0xFF_FF_FF : 0xFF_00_00)
      // Another cube in between, so that batches are flushed.
      if index % 1000 == 0 { _ = batch.add(5.5, 5.5, 5.5, color: 0) }
      if index % 7000 == 0 { grid.add(&batch) }
    }
    grid.add(&batch)
    let found = try points(grid).points
    #expect(found.count == 2 && abs(found[0].x - 0.999_99) < 1e-4 && abs(found[0].y - 0.5) < 1e-4)
    #expect([found[0].red, found[0].green, found[0].blue] == [255, 64, 64])
  }

  @Test func theOrderOfPointsDoesNotMatter() throws {
    func cloud(_ order: [Int]) throws -> [SIMD3<Float>] {
      let grid = VoxelGrid(size: 0.01)
      for start in stride(from: 0, to: order.count, by: 97) {
        var batch = VoxelBatch(size: 0.01)
        for index in order[start..<min(start + 97, order.count)] {
          let (x, y) = (Double(index) * 0.618_033_988_7, Double(index) * 0.414_213_56)
          _ = batch.add(x.truncatingRemainder(dividingBy: 0.2), y.truncatingRemainder(dividingBy: 0.2), 0, color: 0)
        }
        grid.add(&batch)
      }
      var found: [SIMD3<Float>] = []
      try grid.forEach { found.append($0.position) }
      return found
    }
    let order = Array(0..<5000)
    let first = try cloud(order)
    #expect(first.count > 300)
    #expect(try cloud(order.reversed()) == first)
    #expect(try cloud(order.map { $0 * 7 % 5000 }) == first)
  }

  @Test(arguments: [1_048_576.0, -1_048_576.1, .nan, .infinity, 1e300]) func pointsBeyondTheGridAreRefused(_ x: Double) {
    var batch = VoxelBatch(size: 1)
    let added = [
      batch.add(x, 0, 0, color: 0), batch.add(0, x, 0, color: 0), batch.add(0, 0, x, color: 0),
      batch.add(1_048_575.9, -1_048_576, 0, color: 0),
    ]
    #expect(added == [false, false, false, true])
  }
}
