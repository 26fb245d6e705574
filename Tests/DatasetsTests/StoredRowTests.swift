import HDF5
import Model
import Testing
import TestSupport

@testable import Datasets
@testable import Steps
@testable import Transforms

@Suite struct StoredRowTests {
  private let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  /// An episode as a file, whose IMU is read at these times in nanoseconds, on a clock.
  private func write(imu times: [Int64], _ clock: Clock) throws -> File {
    var episode = SyntheticEpisode().episode
    var imu = try #require(episode.streams[.imu])
    imu.spec.clock = clock
    (imu.timestamps, imu.sourceIndex) = (times.map { Timestamp(nanoseconds: $0) }, times.indices.map { Int64($0) })
    imu.source = VectorSource(width: 6, values: times.indices.flatMap { [Float($0), 0, 9, 0, Float($0) / 2, 0] })
    episode.streams[.imu] = imu
    let (writer, path) = (HDF5Writer(), directory.path + "/row.h5")
    episode.streams[.depth] = nil
    episode.streams[.joints] = nil
    let shard = try writer.open(episode, identity: ShardIdentity(reader: "r", toolVersion: "t", pipelineDigest: ""), at: path)
    let worker = try shard.makeWorker()
    for block in writer.blocks(episode).blocks.indices { try worker.prepare(block).store() }
    _ = try shard.close()
    try shard.publish()
    return try File.open(path)
  }

  @Test func theNearestReadingIsNamedWithItsDelay() throws {
    // Rows are at 0, 16.667 and 33.333 ms, and so on.
    let file = try write(imu: [2_000_000, 15_000_000, 40_000_000], .deviceUptime)
    defer { try? file.close() }
    func reading(_ row: Int) throws -> StoredRow.Reading {
      try #require(StoredRow(row, of: "demo_0", in: file, recorded: nil).readings.first)
    }
    let (after, before) = (try reading(0), try reading(1))
    #expect(after.name == .imu && after.index == 0 && after.delay == 2_000_000 && after.values == [0, 0, 9, 0, 0, 0])
    #expect(before.index == 1 && before.delay == -1_666_667 && before.values == [1, 0, 9, 0, 0.5, 0])
    #expect(try reading(5).index == 2 && reading(5).delay == -43_333_333)
  }

  @Test func readingsOfAnotherClockBelongToNoRow() throws {
    let file = try write(imu: [2_000_000, 15_000_000], .phoneUnix)
    defer { try? file.close() }
    let row = try StoredRow(1, of: "demo_0", in: file, recorded: nil)
    #expect(row.readings.isEmpty && row.integer("meta/timestamp_ns") == 16_666_667)
  }
}
