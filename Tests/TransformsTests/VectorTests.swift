import Evidence
import Foundation
import Model
import Testing
import TestSupport

@testable import Steps
@testable import Transforms

/// Steps compared with `Tests/vectors/transforms.json`, which SciPy computed.
@Suite struct VectorTests {
  private struct Vectors: Decodable {
    var poses: [[Double]]
    var joints: [[Float]]
    var times: [Int64]
    var actions: [ActionCase]
    var resampled: [ResampledCase]
  }

  struct ActionCase: Decodable {
    var kind, joints, angle, rotationLayout: String
    var rows: [[Double]]

    enum CodingKeys: String, CodingKey {
      case kind, joints, angle, rows
      case rotationLayout = "rotation-layout"
    }
  }

  struct ResampledCase: Decodable {
    var rate: Double
    var times: [Int64]
    var poses, joints: [[Double]]
  }

  private static let vectors: Vectors = {
    let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("../vectors/transforms.json")
    do { return try JSONDecoder().decode(Vectors.self, from: Data(contentsOf: file)) } catch { fatalError("\(file.path): \(error)") }
  }()

  /// The poses and joints of the vectors, a sample of each at every frame.
  private var episode: Episode {
    let vectors = Self.vectors
    var episode = Episode.posed(vectors.poses.map { Pose(position: [$0[0], $0[1], $0[2]], quaternion: [$0[3], $0[4], $0[5], $0[6]]) })
    episode.frames.timestamps = vectors.times.map { Timestamp(nanoseconds: $0) }
    episode.streams[.pose]?.timestamps = episode.frames.timestamps
    episode.streams[.joints] = SampleStream(
      spec: StreamSpec(kind: .angles, type: .float32, shape: [vectors.joints[0].count], unit: "degree", clock: .deviceUptime),
      source: VectorSource(width: vectors.joints[0].count, values: vectors.joints.flatMap(\.self)), timestamps: episode.frames.timestamps,
      sourceIndex: episode.frames.sourceIndex, rows: vectors.joints.indices.rows)
    return episode
  }

  /// The largest difference of what is stored of the first rows of a stream from what is expected of them.
  private func difference(_ name: StreamName, of episode: Episode, from expected: [[Double]]) throws -> Double {
    var reader = RowReader(episode)
    return try expected.indices.map { row in
      let values = try reader.values(of: name, at: row)
      #expect(values.count == expected[row].count)
      return zip(values, expected[row]).map { abs(Double($0) - $1) }.max() ?? .infinity
    }.max() ?? .infinity
  }

  @Test(arguments: vectors.actions.indices) func actionsAreScipys(index: Int) throws {
    let vector = Self.vectors.actions[index]
    let options: JSONValue = [
      "kind": .string(vector.kind), "joints": .string(vector.joints), "angle": .string(vector.angle),
      "rotation-layout": .string(vector.rotationLayout),
    ]
    let acting = try Options.decode(Actions.self, over: options, at: "actions").apply(to: episode)
    // Angles of up to 180 degrees are exact to a part in ten million.
    #expect(try difference(.actions, of: acting, from: vector.rows) < (vector.joints == "none" ? 2e-6 : 2e-5))
  }

  @Test(arguments: vectors.resampled.indices) func resampledRowsAreScipys(index: Int) throws {
    let vector = Self.vectors.resampled[index]
    let resampled = try Options.decode(Resample.self, over: ["rate": .number(vector.rate)], at: "resample").apply(to: episode)
    #expect(resampled.frames.timestamps.map(\.nanoseconds) == vector.times)
    #expect(try difference(.pose, of: resampled, from: vector.poses) < 2e-6)
    #expect(try difference(.joints, of: resampled, from: vector.joints) < 2e-5)
  }
}
