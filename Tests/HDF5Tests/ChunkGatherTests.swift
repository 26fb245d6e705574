import Foundation
import Testing

@testable import HDF5

@Suite struct ChunkGatherTests {
  private let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)

  init() throws { try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true) }

  private func path(_ name: String) -> String { directory.appendingPathComponent(name).path }
  private func remove() { try? FileManager.default.removeItem(at: directory) }

  /// 200 rows of a large array and of a small one, which HDF5 puts elsewhere; more chunks than wait at a time.
  private let rows = (0..<200).map { row in
    (large: [UInt8](repeating: UInt8(row), count: 5000), small: [UInt8](repeating: UInt8(255 - row), count: 71))
  }

  private func arrays(of file: File) throws -> (large: HDF5Array, small: HDF5Array) {
    (
      try file.root.createDataset("large", Layout(type: .uint8, dims: [200, 5000], chunk: [1, 5000])),
      try file.root.createDataset("small", Layout(type: .uint8, dims: [200, 71], chunk: [1, 71]))
    )
  }

  private func write(_ bytes: [UInt8], _ row: Int, _ array: HDF5Array) throws {
    try bytes.withUnsafeBytes { try array.writeChunk($0, at: [row, 0], skipped: 0) }
  }

  private func writeRows(_ arrays: (large: HDF5Array, small: HDF5Array)) throws {
    for (index, row) in rows.enumerated() {
      try write(row.large, index, arrays.large)
      try write(row.small, index, arrays.small)
    }
  }

  @Test func aFileHasTheSameBytesWithAndWithout() throws {
    defer { remove() }
    let one = try File.create(at: path("one"))
    try writeRows(arrays(of: one))
    try one.close()
    let other = try File.create(at: path("other"))
    let arrays = try arrays(of: other)
    try gatheringChunks(of: "other") { try writeRows(arrays) }
    try other.close()
    let bytes = try Data(contentsOf: URL(fileURLWithPath: path("one")))
    #expect(bytes.count > 200 * 5071)
    #expect(try bytes == Data(contentsOf: URL(fileURLWithPath: path("other"))))
  }

  @Test func chunksThatWaitAreReadAndReplaced() throws {
    defer { remove() }
    let file = try File.create(at: path("file"))
    let arrays = try arrays(of: file)
    try gatheringChunks(of: "file") {
      try write(rows[7].large, 0, arrays.large)
      #expect(try arrays.large.read(rows: 0..<1) == rows[7].large)
      try write(rows[8].large, 0, arrays.large)
      try write(rows[9].large, 0, arrays.large)
      try write(rows[1].large, 1, arrays.large)
    }
    #expect(try arrays.large.read(rows: 0..<2) == rows[9].large + rows[1].large)
    try file.close()
  }

  @Test func chunksOfTwoFilesInTurnReachTheirOwn() throws {
    defer { remove() }
    let files = try ["one", "other"].map { try File.create(at: path($0)) }
    let both = try files.map { try arrays(of: $0) }
    try gatheringChunks(of: "both") {
      for row in 0..<200 { for index in 0..<2 { try write(rows[index == 0 ? row : 199 - row].large, row, both[index].large) } }
    }
    #expect(try both[0].large.readAll() == rows.flatMap(\.large))
    #expect(try both[1].large.readAll() == rows.reversed().flatMap(\.large))
    for file in files { try file.close() }
  }

  @Test func whatWaitedIsWrittenBeforeAnErrorIsThrown() throws {
    defer { remove() }
    struct Stop: Error {}
    let file = try File.create(at: path("file"))
    let arrays = try arrays(of: file)
    #expect(throws: Stop.self) {
      try gatheringChunks(of: "file") {
        try write(rows[3].large, 3, arrays.large)
        throw Stop()
      }
    }
    #expect(try arrays.large.read(rows: 3..<4) == rows[3].large)
    try file.close()
  }
}
