import Foundation
import HDF5
import TestSupport
import Testing

@testable import Datasets
@testable import Model

/// Statistics that are read from a shard, which somebody may have changed.
struct ShardStatisticsTests {
  private static let channel = #"{"count":3,"mean":1.5,"m2":0.5,"min":1,"max":2,"histogram":[-4,1,7,2]}"#

  private static func stream(_ channels: String = channel, bucket: String = "integer") -> String {
    #"[{"name":"pose","unit":"m","type":"float32","axes":null,"shape":[1],"bucket":"\#(bucket)","channels":[\#(channels)]}]"#
  }

  private func read(_ text: String) throws -> ShardStatistics {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/shard.h5"
    let file = try File.create(at: path)
    let parts = ShardNames.statisticsPath.split(separator: "/").map(String.init)
    let group = try parts.dropLast().reduce(file.root) { try $0.createGroup($1) }
    let bytes = Array(text.utf8)
    let dataset = try group.createDataset(parts[parts.count - 1], Layout(type: .uint8, dims: [bytes.count], isCompact: true))
    try bytes.withUnsafeBytes { try dataset.write($0) }
    try file.close()
    let again = try File.open(path)
    defer { try? again.close() }
    return try ShardStatistics(from: again.root)
  }

  @Test func `What was written is read`() throws {
    let entry = try #require(try read(Self.stream() + " ").entries.first)
    #expect(entry.name == "pose" && entry.shape == [1] && entry.meaning.unit == "m" && entry.meaning.axes == nil)
    #expect(entry.statistics.moments == [Moments(count: 3, mean: 1.5, m2: 0.5, min: 1, max: 2)])
    #expect(entry.statistics.histograms[0].counts == [-4: 1, 7: 2])
    #expect(try read(Self.stream(#"{"count":0}"#)).entries[0].statistics.moments == [Moments()])
  }

  static let damaged: [String] =
    ["count", "mean", "m2", "min", "max", "histogram"].map { stream(channel.replacing("\"\($0)\"", with: "\"other\"")) }
    + ["name", "unit", "type", "shape", "bucket", "channels"].map { stream().replacing("\"\($0)\"", with: "\"other\"") }
    + [
      stream(channel.replacing("1.5", with: "\"x\"")), stream(channel.replacing("1.5", with: "NaN")),
      stream(channel.replacing("\"count\":3", with: "\"count\":3.5")), stream(channel.replacing("\"count\":3", with: "\"count\":-3")),
      stream(channel.replacing("\"count\":3", with: "\"count\":9223372036854775807")),
      stream(channel.replacing("[-4,1,7,2]", with: "[1,2,3]")),
      stream(channel.replacing("[-4,1,7,2]", with: "[7,2,7,4611686018427387904]")),
      stream(channel.replacing("[-4,1,7,2]", with: "[7,2,7,2]")),
      stream(channel.replacing("[-4,1,7,2]", with: "[7,-2]")), stream(bucket: "other"), "{}", "[3]", "[null]", "[", "",
    ]

  @Test(arguments: damaged)
  func `Damage is an error that names the array`(text: String) throws {
    let error = #expect(throws: HDF5Error.self) { try read(text.isEmpty ? " " : text) }
    #expect(error?.target.hasSuffix(ShardNames.statisticsPath) == true && error?.message.hasPrefix("expected statistics as JSON") == true)
  }
}
