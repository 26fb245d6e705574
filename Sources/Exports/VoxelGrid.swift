import Synchronization

/// A point cloud reduced to one point in each cube of a grid: the mean position and color of all points that fall into it.
///
/// Sums are integers, so the result does not depend on the order in which threads add points. Memory grows with the number of cubes that
/// have a point, about 50 bytes each, and not with the number of points.
final class VoxelGrid: Sendable {
  struct Point {
    var x, y, z: Float
    var red, green, blue: UInt8
    /// The cube, numbered along x, then y, then z.
    fileprivate var key: UInt64

    var position: SIMD3<Float> { [x, y, z] }
  }

  /// Length of a cube's edge in meters.
  let size: Double
  private let shards = (0..<VoxelEntry.shards).map { _ in Shard() }

  private final class Shard: Sendable {
    let table = Mutex(VoxelTable())
  }

  init(size: Double) { self.size = size }

  /// Number of cubes with a point.
  var count: Int { shards.reduce(0) { $0 + $1.table.withLock(\.count) } }

  /// Adds a batch of points, and empties it.
  func add(_ batch: inout VoxelBatch) {
    batch.flush()
    for shard in shards.indices where !batch.entries[shard].isEmpty {
      shards[shard].table.withLock { $0.add(batch.entries[shard]) }
      batch.entries[shard].removeAll(keepingCapacity: true)
    }
  }

  /// The number of points, and the box around them.
  struct Bounds: Sendable {
    var points = 0
    var minimum = SIMD3<Float>(repeating: .infinity)
    var maximum = SIMD3<Float>(repeating: -.infinity)
  }

  /// Calls `body` for each cube's point and empties the grid. The order depends on the cubes alone.
  @discardableResult
  func forEach(_ body: (Point) throws -> Void) throws -> Bounds {
    var bounds = Bounds()
    for shard in shards {
      var table = shard.table.withLock { table in
        defer { table = VoxelTable() }
        return table
      }
      let points = table.points(size)
      table = VoxelTable()
      for point in points {
        bounds.points += 1
        bounds.minimum = pointwiseMin(bounds.minimum, point.position)
        bounds.maximum = pointwiseMax(bounds.maximum, point.position)
        try body(point)
      }
    }
    return bounds
  }
}

/// Points that one thread prepares for a grid.
struct VoxelBatch {
  /// Cubes per meter.
  private let scale: Double
  fileprivate var entries = [[VoxelEntry]](repeating: [], count: VoxelEntry.shards)
  /// The cube of the last points: neighboring pixels are often in the same one.
  private var last = VoxelEntry()

  init(size: Double) { scale = 1 / size }

  /// Adds a point, its color as 0xRRGGBB. `false` for a point that is more than 2^20 cubes from the origin along some axis.
  @inline(__always)
  mutating func add(_ x: Double, _ y: Double, _ z: Double, color: UInt32) -> Bool {
    // Counted from the grid's corner, where truncation is rounding down.
    let (u, v, w) = (x * scale + VoxelEntry.reach, y * scale + VoxelEntry.reach, z * scale + VoxelEntry.reach)
    let end = 2 * VoxelEntry.reach
    // NaN is in no range.
    guard u >= 0, u < end, v >= 0, v < end, w >= 0, w < end else { return false }
    let (i, j, k) = (UInt64(u), UInt64(v), UInt64(w))
    let entry = VoxelEntry(
      i << 42 | j << 21 | k, UInt64((u - Double(i)) * 65536), UInt64((v - Double(j)) * 65536), UInt64((w - Double(k)) * 65536),
      color)
    if entry.bits.x == last.bits.x, last.count < VoxelEntry.countLimit {
      last.add(entry)
    } else {
      flush()
      last = entry
    }
    return true
  }

  @inline(__always)
  fileprivate mutating func flush() {
    guard last.bits.x != 0 else { return }
    entries[last.shard].append(last)
    last = VoxelEntry()
  }
}

/// A cube with the sums of up to 65535 points. Positions within the cube are in 65536ths of its size.
private struct VoxelEntry {
  /// Cubes from the origin to the end of the grid, along each axis.
  static let reach = 1_048_576.0
  static let countLimit: UInt64 = 65535
  static let shards = 64

  /// The cube's number plus 1, so that 0 is no cube; x (32 bits), y (32); z (32), red (32); green (24), blue (24), count (16). No sum
  /// overflows into the next, so an addition of all bits adds all sums.
  var bits = SIMD4<UInt64>.zero

  init() {}

  @inline(__always)
  init(_ key: UInt64, _ x: UInt64, _ y: UInt64, _ z: UInt64, _ color: UInt32) {
    let color = UInt64(color)
    bits = [key + 1, x << 32 | y, z << 32 | color >> 16, (color >> 8 & 0xFF) << 40 | (color & 0xFF) << 16 | 1]
  }

  var count: UInt64 { bits.w & 0xFFFF }

  /// A number whose high bits are as good as random.
  var hash: UInt64 {
    let mixed = (bits.x ^ bits.x >> 31) &* 0x9E37_79B9_7F4A_7C15
    return (mixed ^ mixed >> 29) &* 0xBF58_476D_1CE4_E5B9
  }

  var shard: Int { Int(truncatingIfNeeded: (hash >> 8) % UInt64(Self.shards)) }

  @inline(__always)
  mutating func add(_ other: VoxelEntry) {
    bits &+= SIMD4(0, other.bits.y, other.bits.z, other.bits.w)
  }
}

/// A hash table of cubes with open addressing, between half and three quarters full once it is large.
private struct VoxelTable {
  private(set) var count = 0
  private var slots = [VoxelEntry](repeating: VoxelEntry(), count: 64)
  /// Sums of cubes with more points than an entry can count.
  private var full: [UInt64: VoxelSums] = [:]

  mutating func add(_ entries: [VoxelEntry]) {
    while count + entries.count > slots.count / 4 * 3 { grow() }
    slots.withUnsafeMutableBufferPointer { slots in
      for entry in entries {
        let slot = Self.slot(of: entry, in: slots)
        if slots[slot].bits.x == 0 {
          slots[slot] = entry
          count += 1
        } else if slots[slot].count + entry.count > VoxelEntry.countLimit {
          full[entry.bits.x, default: VoxelSums()].add(slots[slot])
          slots[slot] = entry
        } else {
          slots[slot].add(entry)
        }
      }
    }
  }

  private mutating func grow() {
    var larger = [VoxelEntry](repeating: VoxelEntry(), count: slots.count / 2 * 3)
    larger.withUnsafeMutableBufferPointer { larger in
      for entry in slots where entry.bits.x != 0 { larger[Self.slot(of: entry, in: larger)] = entry }
    }
    slots = larger
  }

  /// The slot that has the entry's cube, or the empty one where it belongs.
  @inline(__always)
  private static func slot(of entry: VoxelEntry, in slots: UnsafeMutableBufferPointer<VoxelEntry>) -> Int {
    // The high half of a product with the count maps hashes evenly to slots, without a division.
    var slot = Int(entry.hash.multipliedFullWidth(by: UInt64(slots.count)).high)
    while slots[slot].bits.x != 0, slots[slot].bits.x != entry.bits.x { slot = slot + 1 == slots.count ? 0 : slot + 1 }
    return slot
  }

  /// The points of all cubes, in the order of their numbers.
  func points(_ size: Double) -> [VoxelGrid.Point] {
    var points: [VoxelGrid.Point] = []
    points.reserveCapacity(count)
    for entry in slots where entry.bits.x != 0 {
      var sums = full[entry.bits.x] ?? VoxelSums()
      sums.add(entry)
      points.append(sums.point(entry.bits.x - 1, size))
    }
    points.sort { $0.key < $1.key }
    return points
  }
}

/// Sums over the points in a cube.
private struct VoxelSums {
  private var count: UInt64 = 0
  private var position = SIMD3<UInt64>.zero
  private var color = SIMD3<UInt64>.zero

  mutating func add(_ entry: VoxelEntry) {
    let bits = entry.bits
    count += entry.count
    position &+= [bits.y >> 32, bits.y & 0xFFFF_FFFF, bits.z >> 32]
    color &+= [bits.z & 0xFFFF_FFFF, bits.w >> 40, bits.w >> 16 & 0xFF_FFFF]
  }

  func point(_ key: UInt64, _ size: Double) -> VoxelGrid.Point {
    func coordinate(_ cube: UInt64, _ sum: UInt64) -> Float {
      // Positions were rounded down to 65536ths, by half of one on average.
      let within = (Double(sum) / Double(count) + 0.5) / 65536
      return Float((Double(cube) - VoxelEntry.reach + within) * size)
    }
    func mean(_ sum: UInt64) -> UInt8 { UInt8((sum + count / 2) / count) }
    return VoxelGrid.Point(
      x: coordinate(key >> 42, position.x), y: coordinate(key >> 21 & 0x1F_FFFF, position.y), z: coordinate(key & 0x1F_FFFF, position.z),
      red: mean(color.x), green: mean(color.y), blue: mean(color.z), key: key)
  }
}
