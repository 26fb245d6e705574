package import HDF5

/// Writes episodes, each into a shard of its own.
package protocol Writer: Step {
  /// The datasets an episode would be written as; nothing is read or written.
  func plan(_ episode: Episode) throws -> [PlannedDataset]
  /// Starts a shard under a temporary name beside `path`.
  func open(_ episode: Episode, identity: ShardIdentity, at path: String) throws -> any ShardWriter
}

/// What a shard says of itself besides its data.
package struct ShardIdentity: Sendable {
  package var reader: String
  package var toolVersion: String
  package var pipelineDigest: String
  package init(reader: String, toolVersion: String, pipelineDigest: String) {
    self.reader = reader
    self.toolVersion = toolVersion
    self.pipelineDigest = pipelineDigest
  }
}

/// One dataset of a shard: path from the root, layout, and attributes.
package struct PlannedDataset: Sendable {
  package enum Attribute: Sendable, Equatable {
    case text(String)
    case integer(Int64)
  }
  package var path: String
  package var layout: Layout
  package var attributes: [String: Attribute] = [:]
}

/// A shard being written. Blocks of rows are prepared by workers, at the same time and in any order, and stored by one
/// at a time, in order, so that the bytes do not depend on timing.
package protocol ShardWriter: AnyObject, Sendable {
  var blockCount: Int { get }
  var rowCount: Int { get }
  /// Whether each block has to be fetched before it is prepared: in order, one at a time.
  var fetchesInOrder: Bool { get }
  func fetch(_ block: Int) throws
  /// One thread's means to prepare blocks.
  func makeWorker() throws -> any ShardWorker
  /// Stores the next block. Throws `TakeFailure` when too much of the take is unreadable.
  func store(_ block: PreparedBlock) throws
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
  package var block: Int
  var rows: [PreparedRow]
}

/// What the manifest says of a finished shard.
package struct ShardSummary: Sendable {
  package struct DatasetRecord: Sendable {
    package var path: String
    package var layout: Layout
    package var digest: Digest
  }
  package var bytes: Int64
  package var digest: Digest
  package var samples: Int
  package var datasets: [DatasetRecord]
  /// What turned out while samples were read.
  package var findings: [Finding]
}

extension Layout {
  /// How plans and manifests describe a dataset.
  func json(path: String) -> [String: JSONValue] {
    [
      "path": .string("/" + path), "dtype": .string(type.numpyName), "shape": .array(dims.map { JSONValue($0) }),
      "chunk": chunk.map { .array($0.map { JSONValue($0) }) } ?? .null, "filters": .array(filters.map { .string($0) }),
    ]
  }
}
