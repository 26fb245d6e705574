import HDF5
import Testing

@Suite struct FileMapTests {
  private static func number(_ value: Int, _ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) } }

  /// A superblock, and the header of a chunked array whose index starts at `tree`.
  private static func start(tree: Int) -> [UInt8] {
    let signature: [UInt8] = [0x89, 0x48, 0x44, 0x46, 0x0D, 0x0A, 0x1A, 0x0A, 2, 8, 8, 0]
    let superblock = signature + number(0, 24) + number(48, 8) + number(0, 4)
    let layout = [3, 2, 2] + number(tree, 8)
    return superblock + Array("OHDR".utf8) + [2, 0, UInt8(4 + layout.count)] + [8] + number(layout.count, 2) + [0] + layout + number(0, 24)
  }

  /// A node of an index of rows, whose entries all lead to one address.
  private static func node(level: UInt8, entries: Int, to child: Int) -> [UInt8] {
    let entry = number(8, 4) + number(0, 4 + 16) + number(child, 8)
    return Array("TREE".utf8) + [1, level] + number(entries, 2) + number(0, 16) + Array(repeatElement(entry, count: entries).joined())
  }

  private static func map(_ bytes: [UInt8]) throws -> FileMap {
    try FileMap(size: Int64(bytes.count)) { Array(bytes[Int($0.lowerBound)..<Int($0.upperBound)]) }
  }

  @Test func findsTheChunksOfAnIndex() throws {
    let tree = Self.start(tree: 0).count
    let map = try Self.map(Self.start(tree: tree) + Self.node(level: 0, entries: 3, to: 8))
    #expect(map.chunks[""]?.map(\.offset) == [8, 8, 8] && map.chunks[""]?.map(\.count) == [8, 8, 8])
  }

  /// Fifteen nodes of fifty entries that all lead to the next one are 50^15 ways through 25 kB.
  @Test(.timeLimit(.minutes(1))) func anIndexThatLeadsToItsNodesManyTimesIsDamaged() {
    let start = Self.start(tree: 0).count
    let length = Self.node(level: 0, entries: 50, to: 0).count
    var bytes = Self.start(tree: start)
    for level in 0..<15 { bytes += Self.node(level: UInt8(15 - level), entries: 50, to: start + (level + 1) * length) }
    bytes += Self.node(level: 0, entries: 0, to: 0)
    #expect(throws: FileMap.Damaged.self) { try Self.map(bytes) }
  }
}
