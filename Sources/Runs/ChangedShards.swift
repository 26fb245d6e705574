import Datasets
import Model
import Steps

/// The shards of a take that are other files than a run has put there, compared with their records: changed, copied or gone; and the streams
/// that `takeset add` has added.
struct ChangedShards {
  /// Sentences about the streams.
  private let added: [String]
  let reports: [EpisodeID: Result<Verification, any Error>]

  /// Compares those of these episodes whose file has another stamp.
  ///
  /// - Parameter record: The canonical JSON of an episode's record.
  init(
    of entries: [Journal.Entry], in directory: String, _ checks: Verification.ExternalChecks, record: (EpisodeID) throws -> [UInt8]
  ) {
    var reports: [EpisodeID: Result<Verification, any Error>] = [:]
    for entry in entries where entry.outcome == .written {
      let path = directory + "/" + DatasetFiles.shard(of: entry.id.text)
      guard entry.shard != UpToDateCheck.stamp(of: path) else { continue }
      reports[entry.id] = Result {
        var report = Verification(checks, of: directory)
        report.checkShard(of: try TakeRecord(json: record(entry.id)), pipelineDigests: [entry.pipeline])
        return report
      }
    }
    self.reports = reports
    added = entries.filter { !$0.added.isEmpty }.sorted { $0.id < $1.id }.map {
      "takeset add has added \($0.added.map(\.rawValue).joined(separator: ", ")) to \(DatasetFiles.shard(of: $0.id.text))"
    }
  }

  /// The reason why these shards are not deleted: takeset add or another program has added to them. `nil` where none has.
  var additions: String? {
    let notes =
      added
      + reports.sorted { $0.key < $1.key }.flatMap { id, result -> [String] in
        let path = DatasetFiles.shard(of: id.text)
        switch result {
        case .failure(let error): return ["\(path) was changed and cannot be compared (\(error))"]
        case .success(let report) where report.added.isEmpty: return []
        case .success(let report) where report.isSound: return report.notes
        case .success(let report): return ["\(report.added.joined(separator: ", ")) was added by another program, and \(path) is damaged"]
        }
      }
    guard !notes.isEmpty else { return nil }
    return "\(notes.joined(separator: "; ")); the episode is kept as it is, and --replace gives up what was added"
  }
}

extension [String: Journal.Entry] {
  /// Throws `UsageError` where some of these takes have episodes to which `takeset add` has added streams, which cannot be made of the takes.
  func refuseAdditions(to takes: some Sequence<String>, of output: String) throws {
    let takes = Set(takes)
    let entries = values.filter { !$0.added.isEmpty && takes.contains($0.id.take) }.sorted { $0.id < $1.id }
    if entries.isEmpty { return }
    let streams = Set(entries.flatMap(\.added)).sorted().map(\.rawValue).joined(separator: ", ")
    throw UsageError(
      """
      \(output) has what takeset add has added: \(streams) to \(entries.map(\.id.text).abridged); convert new takes into another directory \
      and merge both, or give --replace to make these takes again without it
      """)
  }
}
