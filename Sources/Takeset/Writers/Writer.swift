package import Model

/// Writes episodes, each into a shard of its own, and the index over them; and checks what it has written.
package protocol Writer: Step {
  /// Throws `OptionError` when an option cannot be combined with a transform of the pipeline.
  func check(_ transforms: [any Transform]) throws
  /// The arrays an episode would be written as; nothing is read or written.
  func plan(_ episode: Episode) throws -> [ArrayRecord]
  /// Where a take's shard is, relative to the dataset's directory.
  func shardPath(_ id: String) -> String
  /// Where the index is, likewise.
  var indexPath: String { get }
  /// Starts a shard under a temporary name beside `path`.
  func open(_ episode: Episode, identity: ShardIdentity, at path: String) throws -> any ShardWriter
  /// Writes the index over all shards and merges their statistics.
  func publish(_ members: [DatasetMember], identity: ShardIdentity, in directory: String) throws -> PublishedIndex
  /// Compares a shard with its record, and names what differs.
  func check(_ take: TakeRecord, in directory: String, pipelineDigest: String, into report: inout Verification)
  /// The same of the index.
  func checkIndex(_ manifest: ManifestRecord, in directory: String, into report: inout Verification)
  /// Whether a file is a shard of ours, of this take.
  func isShard(_ path: String, of id: String) -> Bool
  /// Opens a shard as the episode that it holds.
  func episode(_ take: TakeRecord, in directory: String) throws -> Episode
}

extension Writer {
  package func check(_ transforms: [any Transform]) throws {}
}

/// What a shard or an index says of itself besides its data.
package struct ShardIdentity: Sendable {
  /// The reader of a shard's take; of an index, that of all takes, or else the program.
  package var reader: String
  package var toolVersion: String
  package var pipelineDigest: String
  package init(reader: String, toolVersion: String, pipelineDigest: String) {
    self.reader = reader
    self.toolVersion = toolVersion
    self.pipelineDigest = pipelineDigest
  }
}

/// A shard being written. Blocks of rows are prepared by workers, at the same time and in any order, and stored by one
/// at a time, in order, so that the bytes do not depend on timing.
package protocol ShardWriter: AnyObject, Sendable {
  var blockCount: Int { get }
  /// What has to be fetched before blocks are prepared.
  var prefetch: Prefetch? { get }
  /// One thread's means to prepare blocks.
  func makeWorker() throws -> any ShardWorker
  /// Writes what is left, closes, checks and puts the shard in place.
  func seal() throws -> ShardSummary
  /// Removes the unfinished file.
  func abandon()
}

package protocol ShardWorker: AnyObject {
  func prepare(_ block: Int) throws -> PreparedBlock
}

/// Rows ready to be stored.
package struct PreparedBlock: Sendable {
  package var rows: Int
  package var bytes: Int
  /// Stores them; called once all blocks before have been stored. Throws `TakeFailure` when too much of the take is unreadable.
  package var store: @Sendable () throws -> Void

  package init(rows: Int, bytes: Int, store: @escaping @Sendable () throws -> Void) {
    (self.rows, self.bytes, self.store) = (rows, bytes, store)
  }
}

/// What became of a finished shard.
package struct ShardSummary: Sendable {
  package var output: OutputRecord
  /// What turned out while samples were read.
  package var findings: [Finding]
  package init(output: OutputRecord, findings: [Finding]) { (self.output, self.findings) = (output, findings) }
}

/// A take in the index.
package struct DatasetMember: Sendable {
  package var id: String
  package var samples: Int
  package var part: SplitPart

  package init(id: String, samples: Int, part: SplitPart) { (self.id, self.samples, self.part) = (id, samples, part) }
}

/// What became of the index.
package struct PublishedIndex: Sendable {
  package var path: String
  package var bytes: Int64
  package var digest: Digest
  /// By key; keys of which takes mean different things have the unit appended.
  package var statistics: [String: Statistics]
  /// Of the dataset as a whole.
  package var findings: [Finding]

  package init(path: String, bytes: Int64, digest: Digest, statistics: [String: Statistics], findings: [Finding]) {
    (self.path, self.bytes, self.digest, self.statistics, self.findings) = (path, bytes, digest, statistics, findings)
  }
}

/// The names of a dataset's files that do not depend on the writer.
package enum DatasetFiles {
  package static let manifest = "manifest.json"
  package static let journal = "journal.jsonl"
  package static let episodes = "episodes"

  /// Whether a directory has the files of a dataset.
  package static func isDataset(_ directory: String) -> Bool {
    [manifest, journal].allSatisfy { (try? Directory.kind(at: directory + "/" + $0)) == .file }
  }
}
