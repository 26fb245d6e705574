import Evidence
import Foundation
import Model
import Simulate
import TestSupport

@testable import Datasets
@testable import Runs
@testable import Transforms

/// Datasets in a directory of their own.
struct PublishedTakes {
  private let directory: TemporaryDirectory
  private static let tool = ToolIdentity(version: "test", revision: "test")
  var path: String { directory.path + "/out" }

  init() throws { directory = try TemporaryDirectory() }

  /// A dataset with these records of takes that were rejected, so that there are no shards.
  func publish(_ records: [TakeRecord]) throws -> Dataset {
    let pipeline = Pipeline(readers: .auto, join: nil, transforms: [], writer: HDF5Writer())
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    let journal = try Journal(path: path + "/" + DatasetFiles.journal)
    let entries = records.map {
      Journal.Entry(
        .init(
          id: $0.id, location: "/in", pipeline: pipeline.digest().description, toolVersion: "test", outcome: $0.outcome,
          inputDigest: $0.inputDigest?.description))
    }
    for (entry, record) in zip(entries, records) { try journal.append(entry, record: record.canonicalBytes) }
    _ = try Publication(pipeline: pipeline, tool: Self.tool, started: Date(), commandLine: []).write(entries, of: journal, to: path)
    return try Dataset(directory: path)
  }

  /// A dataset with the take `session_a`, in episodes of 0.2 seconds.
  func convertSplit() throws -> Dataset {
    var session = SimulatedSession()
    (session.variant, session.seconds) = (.v3SLAM, 0.5)
    (session.size, session.depthSize) = (ImageSize(width: 32, height: 24), ImageSize(width: 8, height: 6))
    try session.write(to: directory.path + "/in/session_a")
    var split = SplitEpisodes()
    split.at = .every(seconds: 0.2)
    let pipeline = Pipeline(readers: .auto, join: nil, transforms: [Align(), split], writer: HDF5Writer())
    _ = try Run(inputs: [directory.path + "/in"], output: path, pipeline: pipeline, tool: Self.tool).execute { _ in }
    return try Dataset(directory: path)
  }
}

extension TakeRecord {
  /// A take that was rejected.
  static func rejected(_ id: EpisodeID, digest: String? = nil, _ findings: [Finding] = []) -> TakeRecord {
    var record = TakeRecord(id: id, reader: nil, outcome: .rejected, reason: "because", findings: findings)
    record.inputDigest = digest.map { Digest.of($0) }
    return record
  }
}
