package import Evidence
import Foundation
package import Model
package import Steps

/// Writes each episode into its own shard, `DatasetFiles.shard(of:)`, and the index over them.
package protocol Writer: Step {
  var storage: SampleStorage { get }
  /// Throws `OptionError` when an option cannot be combined with a transform of the pipeline.
  func check(_ transforms: [any Transform]) throws
  /// The arrays an episode would be written as; nothing is read or written.
  func plan(_ episode: Episode) throws -> [ArrayRecord]
  /// The blocks in which the rows of an episode are written.
  func blocks(_ episode: Episode) -> RowBlocks
  /// Starts a shard under a temporary name next to `path`.
  func open(_ episode: Episode, identity: ShardIdentity, at path: String) throws -> any ShardWriter
  /// Writes the index over all shards, merges their statistics, and derives the parameters that normalize them.
  func publish(
    _ members: [DatasetMember], normalization: (any NormalizationRule)?, identity: ShardIdentity, in directory: String
  ) throws -> PublishedIndex
}

extension Writer {
  /// Accepts every pipeline.
  package func check(_ transforms: [any Transform]) throws {}

  /// The bytes of an episode's shard, at most: its arrays before compression, images as pixels, and what holds them together.
  package func bytesNeeded(by episode: Episode) -> Double {
    let arrays = (try? plan(episode)) ?? []
    let encoded = episode.streams.values.filter { $0.spec.kind == .image }.reduce(0.0) { sum, stream in
      let size = stream.spec.gridSize
      return sum + 3 * Double(size.width) * Double(size.height) * Double(episode.frames.count)
    }
    return arrays.reduce(100_000 + encoded) { $0 + Double($1.rawBytes) }
  }
}

/// Identity that a shard or an index declares besides its data.
package struct ShardIdentity: Sendable {
  /// Reader of a shard's take; for an index, that of all takes if there is only one, or else the program's name.
  package var reader: String
  package var toolVersion: String
  package var pipelineDigest: String
  package init(reader: String, toolVersion: String, pipelineDigest: String) {
    self.reader = reader
    self.toolVersion = toolVersion
    self.pipelineDigest = pipelineDigest
  }

  /// The identity of an index.
  package init(ofIndex readers: some Sequence<String?>, toolVersion: String, pipelineDigest: String) {
    let readers = Set(readers.map { $0 ?? "" })
    self.init(reader: readers.count == 1 ? readers.first ?? "" : "takeset", toolVersion: toolVersion, pipelineDigest: pipelineDigest)
  }
}

/// A shard being written. Workers prepare blocks of rows concurrently and in any order; blocks are stored one at a time, in order, so that
/// the bytes do not depend on timing.
package protocol ShardWriter: AnyObject, Sendable {
  /// Makes a worker that prepares blocks on one thread.
  func makeWorker() throws -> any ShardWorker
  /// Writes the rest, once every block is stored, and closes and checks the file, which keeps its temporary name.
  func close() throws -> ShardSummary
  /// Puts the closed file in place.
  func publish() throws
  /// Removes the file, unless it is in place.
  func abandon()
}

/// One thread's part of writing a shard, with its cursors and buffers.
package protocol ShardWorker: AnyObject {
  func prepare(_ block: Int) throws -> PreparedBlock
}

/// Rows ready to be stored.
package struct PreparedBlock: Sendable {
  package var rows: Int
  package var bytes: Int
  /// Stores them; called once all previous blocks have been stored. Throws `TakeFailure` when too much of the take is unreadable.
  package var store: @Sendable () throws -> Void

  package init(rows: Int, bytes: Int, store: @escaping @Sendable () throws -> Void) {
    (self.rows, self.bytes, self.store) = (rows, bytes, store)
  }
}

/// Result of a finished shard.
package struct ShardSummary: Sendable {
  package var output: OutputRecord
  /// Findings from reading the samples.
  package var findings: [Finding]
  package var measures: Measures

  package init(output: OutputRecord, findings: [Finding], measures: Measures) {
    (self.output, self.findings, self.measures) = (output, findings, measures)
  }
}

/// A take in the index.
package struct DatasetMember: Sendable {
  package var id: String
  package var samples: Int
  package var part: SplitPart
  /// The streams that were added to its shard, whose statistics the shard does not carry.
  package var added: [StreamName]

  package var labels: Labels?

  package init(id: String, samples: Int, part: SplitPart, added: [StreamName] = [], labels: Labels? = nil) {
    (self.id, self.samples, self.part, self.added, self.labels) = (id, samples, part, added, labels)
  }
}

/// Result of publishing the index.
package struct PublishedIndex: Sendable {
  package var path: String
  package var bytes: Int64
  package var digest: Digest
  /// Statistics by key; keys that have different meanings in different takes have the unit appended.
  package var statistics: [String: Statistics]
  /// Parameters that normalize keys of `statistics`.
  package var normalizations: [String: Normalization] = [:]
  /// Findings about the dataset as a whole.
  package var findings: [Finding]

  var json: JSONValue { ["path": .string(path), "bytes": .integer(bytes), "sha256": .string(digest.description)] }

  package init(path: String, bytes: Int64, digest: Digest, statistics: [String: Statistics], findings: [Finding]) {
    (self.path, self.bytes, self.digest, self.statistics, self.findings) = (path, bytes, digest, statistics, findings)
  }
}
