import Foundation
import HDF5
import Model
import Simulate
import Testing
import TestSupport

@testable import Datasets
@testable import Runs
@testable import Transforms

/// What is written reads back equal.
@Suite struct DatasetTests {
  private let tool = ToolIdentity(version: "test", revision: "test")
  private let directory: TemporaryDirectory
  private var output: String { directory.path + "/out" }

  init() throws {
    directory = try TemporaryDirectory()
    for (name, variant) in [("v1", SimulatedSession.Variant.v1), ("v2", .v2), ("v3", .v3SLAM)] {
      var session = SimulatedSession()
      (session.variant, session.seconds, session.size) = (variant, 0.5, ImageSize(width: 64, height: 48))
      session.depthSize = ImageSize(width: 16, height: 12)
      try session.write(to: directory.path + "/in/session_\(name)")
    }
    var scan = SimulatedStrayScan()
    (scan.seconds, scan.size, scan.depthSize) = (0.4, ImageSize(width: 64, height: 48), ImageSize(width: 16, height: 12))
    try scan.write(to: directory.path + "/in/scan")
  }

  private func convert(_ pipeline: Pipeline) throws -> Dataset {
    let summary = try Run(inputs: [directory.path + "/in"], output: output, pipeline: pipeline, tool: tool).execute { _ in }
    #expect(summary.written == 4)
    return try Dataset(directory: output)
  }

  @Test(arguments: [SampleStorage.ImageEncoding.raw, .jpeg, .png, .jpegSource]) func anEpisodeReadBackIsWrittenTheSame(
    image: SampleStorage.ImageEncoding
  ) throws {
    var writer = HDF5Writer()
    writer.storage.image = image
    if image == .jpegSource { try FileManager.default.removeItem(atPath: directory.path + "/in/scan") }
    let summary = try Run(
      inputs: [directory.path + "/in"], output: output,
      pipeline: Pipeline(readers: .auto, join: nil, transforms: [Align()], writer: writer),
      tool: tool
    ).execute { _ in }
    #expect(summary.written == (image == .jpegSource ? 3 : 4))
    let dataset = try Dataset(directory: output)
    for take in dataset.written {
      let episode = try dataset.episode(take)
      #expect(episode.id == take.id && episode.frames.count == take.framesOut)
      // Written once more, every array has the digest that it had.
      let path = directory.path + "/again.h5"
      let shard = try writer.open(
        episode, identity: ShardIdentity(reader: take.reader ?? "", toolVersion: "test", pipelineDigest: ""), at: path)
      let worker = try shard.makeWorker()
      for block in writer.blocks(episode).blocks.indices { try worker.prepare(block).store() }
      let again = try shard.close().output
      let before = Dictionary(uniqueKeysWithValues: (try dataset.record(of: take).output?.arrays ?? []).map { ($0.path, $0.digest) })
      let after = Dictionary(uniqueKeysWithValues: again.arrays.map { ($0.path, $0.digest) })
      #expect(before.keys.sorted() == after.keys.sorted())
      // Images read back as JPEG files are stored again without being decoded, so they have no statistics.
      let others = image == .jpeg ? ["/meta/demo_0/statistics", "/meta/demo_0/chunk_crc32"] : []
      for (path, digest) in before where after[path] != digest && !others.contains(path) {
        Issue.record("\(take.id): \(path) reads back other than it was written")
      }
    }
  }

  /// The map of a file agrees with the library about where every chunk is, and covers the rest.
  @Test func theMapOfAFileIsTheLibrarys() throws {
    let dataset = try convert(Pipeline(readers: .auto, join: nil, transforms: [Align()], writer: HDF5Writer()))
    for take in dataset.written {
      let path = output + "/" + (take.output?.path ?? "")
      let shard = try WrittenShard(path)
      let file = try File.open(path)
      var chunked = 0
      for array in try dataset.record(of: take).output?.arrays ?? [] {
        let inside = String(array.path.dropFirst())
        let places = try file.root.dataset(inside).chunkPlaces()
        let own = (shard.map.chunks[inside] ?? []).map { "\($0.row) \($0.offset) \($0.count) \($0.skipped)" }
        #expect(own == places.map { "\($0.row) \($0.offset) \($0.count) \($0.skipped)" })
        chunked += places.reduce(0) { $0 + $1.count }
      }
      try file.close()
      let rest = try shard.map.structure().reduce(0) { $0 + $1.count }
      #expect(rest + chunked == Int(shard.size))
    }
  }

  @Test func aFileCutShortOrOtherwiseDamagedHasNoMapAndDoesNotCrash() throws {
    let dataset = try convert(Pipeline(readers: .auto, join: nil, transforms: [Align()], writer: HDF5Writer()))
    let whole = try directory.read("out/" + (dataset.written[0].output?.path ?? ""))
    var random = SplitMix(seed: 5)
    var maps = 0
    for _ in 0..<400 {
      var bytes = whole
      for _ in 0..<(1 + random.next() % 4) {
        bytes[Int(random.next() % UInt64(min(bytes.count, 30_000)))] = UInt8(truncatingIfNeeded: random.next())
      }
      if random.next() % 4 == 0 { bytes.removeLast(Int(random.next() % UInt64(bytes.count))) }
      let damaged = bytes
      let map = try? FileMap(size: Int64(damaged.count)) { Array(damaged[Int($0.lowerBound)..<min(Int($0.upperBound), damaged.count)]) }
      if map != nil { maps += 1 }
      if let map { _ = try? map.structure() }
    }
    #expect(maps < 400)
  }
}
