import Foundation
import Simulate
import Testing

@testable import HDF5

@Suite struct FileTests {
  let path = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).h5").path

  private func remove() { try? FileManager.default.removeItem(atPath: path) }

  @Test func readsBackChunksThatWereMadeOutsideTheLibrary() throws {
    defer { remove() }
    let rows = (0..<5).map { row in (0..<64).map { Float(row * 100 + $0) } }
    let file = try File.create(at: path)
    let dataset = try file.root.createDataset("a", Layout(type: .float32, dims: [5, 64], chunk: [1, 64], deflate: 4))
    let encoder = try ChunkEncoder(level: 4)
    for (row, values) in rows.enumerated() {
      var encoded: [UInt8] = []
      let skipped = values.withUnsafeBytes { encoder.encode($0, elementSize: 4, into: &encoded) }
      #expect(skipped == 0)
      #expect(encoded.count < 256)
      try encoded.withUnsafeBytes { try dataset.writeChunk($0, at: [row, 0], skipped: skipped) }
    }
    try file.close()

    let reopened = try File.open(path)
    let read = try reopened.root.dataset("a").readAll(as: Float.self)
    #expect(read == rows.flatMap(\.self))
  }

  @Test func storesAChunkThatDoesNotShrinkAsItIs() throws {
    defer { remove() }
    var generator = SplitMix(seed: 1)
    let noise = (0..<4096).map { _ in UInt8.random(in: 0...255, using: &generator) }
    var encoded: [UInt8] = []
    let skipped = try noise.withUnsafeBytes { try ChunkEncoder(level: 4).encode($0, elementSize: 1, into: &encoded) }
    #expect(skipped == 1)
    #expect(encoded == noise)

    let file = try File.create(at: path)
    let dataset = try file.root.createDataset("a", Layout(type: .uint8, dims: [1, 4096], chunk: [1, 4096], deflate: 4))
    try encoded.withUnsafeBytes { try dataset.writeChunk($0, at: [0, 0], skipped: skipped) }
    try file.close()
    let reopened = try File.open(path)
    #expect(try reopened.root.dataset("a").readAll() == noise)
    try reopened.close()
  }

  @Test func keepsAttributesAndNamesMembersInOrder() throws {
    defer { remove() }
    let file = try File.create(at: path)
    let group = try file.root.createGroup("g")
    try group.setAttribute("text", "Zürich, 3 °C")
    try group.setAttribute("number", 1 << 60)
    _ = try group.createDataset("b", Layout(type: .int64, dims: [0, 2]))
    _ = try group.createGroup("a")
    try group.link("c", toFile: "other.h5", object: "/x")
    try file.close()

    let whole = try File.open(path)
    defer { try? whole.close() }
    let reopened = try whole.root.group("g")
    #expect(try reopened.textAttribute("text") == "Zürich, 3 °C")
    #expect(try reopened.integerAttribute("number") == 1 << 60)
    #expect(try reopened.textAttribute("missing") == nil)
    let members = try reopened.members()
    #expect(members.map(\.name) == ["a", "b", "c"])
    #expect(members.map(\.kind) == [.group, .dataset, .external])
  }

  @Test func givesTheSameBytesForTheSameCalls() throws {
    defer { remove() }
    func make() throws -> Data {
      remove()
      let file = try File.create(at: path)
      let group = try file.root.createGroup("g")
      try group.setAttribute("k", "v")
      let dataset = try group.createDataset("d", Layout(type: .uint8, dims: [3, 2], chunk: [1, 2]))
      for row in 0..<3 { try [UInt8(row), 7].withUnsafeBytes { try dataset.writeChunk($0, at: [row, 0], skipped: 0) } }
      try file.close()
      return try Data(contentsOf: URL(fileURLWithPath: path))
    }
    let first = try make()
    let second = time(nil)  // object times count whole seconds
    while time(nil) == second { usleep(20_000) }
    #expect(try make() == first)
  }

  @Test func saysWhichCallFailedOnWhat() throws {
    let error = #expect(throws: HDF5Error.self) { try File.open("/nowhere/at/all.h5") }
    #expect(error?.call == "H5Fopen")
    #expect(error?.message.contains("No such file or directory") == true)
    #expect(error?.code == ENOENT)
  }

  @Test(arguments: [1, 2, 4, 8]) func shufflesAsTheFilterIsDefined(size: Int) {
    let source = (0..<(size * 37)).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    var target = [UInt8](repeating: 0, count: source.count)
    source.withUnsafeBytes { source in target.withUnsafeMutableBytes { shuffle(source, elementSize: size, into: $0) } }
    for plane in 0..<size {
      for element in 0..<37 { #expect(target[plane * 37 + element] == source[element * size + plane]) }
    }
  }
}
