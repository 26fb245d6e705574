package import Datasets
import Evidence
import Foundation
package import Model
package import Steps
import Synchronization

/// A writer that keeps episodes in memory, row by row, for tests without files.
package struct MemoryWriter: Writer {
  package var storage = SampleStorage()
  package static let name = "memory"
  package static let summary = "Keeps episodes in memory, for tests"

  package init() {}

  /// The data written under a path.
  package struct Shard: Sendable {
    package var episode: String
    package var reader: String
    /// Bytes of each row by stream; empty for a row that could not be read.
    package var rows: [StreamName: [[UInt8]]] = [:]
  }

  private static let store = Mutex<[String: Shard]>([:])

  /// Returns the shard that was written under a path; `nil` without one.
  package static func shard(at path: String) -> Shard? { store.withLock { $0[path] } }

  /// Returns one array per stream that is paired with the frames, in name order.
  package func plan(_ episode: Episode) throws -> [ArrayRecord] {
    episode.streams.filter { $0.value.rows != nil }.sorted { $0.key < $1.key }.map { name, stream in
      ArrayRecord(
        path: "/\(name)", dtype: stream.spec.type.numpyName, shape: [episode.frames.count] + stream.spec.shape, chunk: nil, filters: [])
    }
  }

  package func blocks(_ episode: Episode) -> RowBlocks { Writing.blocks(episode) }

  package func open(_ episode: Episode, identity: ShardIdentity, at path: String) throws -> any ShardWriter {
    Writing(episode: episode, reader: identity.reader, path: path, name: DatasetFiles.shard(of: episode.id.text), arrays: try plan(episode))
  }

  package func publish(
    _ members: [DatasetMember], normalization: (any NormalizationRule)?, identity: ShardIdentity, in directory: String
  ) throws -> PublishedIndex {
    PublishedIndex(path: DatasetFiles.index, bytes: 0, digest: Digest.of(members.map(\.id).joined()), statistics: [:], findings: [])
  }

  private final class Writing: ShardWriter {
    let episode: Episode
    let blocks: RowBlocks
    let path, name, reader: String
    let arrays: [ArrayRecord]
    let shard: Mutex<Shard>

    init(episode: Episode, reader: String, path: String, name: String, arrays: [ArrayRecord]) {
      (self.episode, self.reader, self.path, self.name, self.arrays) = (episode, reader, path, name, arrays)
      blocks = Self.blocks(episode)
      shard = Mutex(Shard(episode: episode.id.text, reader: reader))
    }

    static func blocks(_ episode: Episode) -> RowBlocks {
      let rasters = episode.streams.sorted { $0.key < $1.key }.map(\.value).filter { $0.spec.kind.isRaster && $0.rows != nil }
      return RowBlocks(rasters, count: episode.frames.count, isPart: episode.id.part != nil)
    }

    func publish() {}
    func makeWorker() throws -> any ShardWorker { try Worker(self) }
    func abandon() {}

    func close() throws -> ShardSummary {
      var rows = RowReader(episode)
      for (name, stream) in episode.streams where stream.rows != nil && !stream.spec.kind.isRaster {
        let values = try (0..<rows.count).map { try rows.values(of: name, at: $0).withUnsafeBytes { Array($0) } }
        shard.withLock { $0.rows[name] = values }
      }
      let written = shard.withLock(\.self)
      MemoryWriter.store.withLock { $0[path] = written }
      let output = OutputRecord(
        path: name, bytes: 0, samples: episode.frames.count, arrays: arrays, structureDigest: Digest.of(""), attributesDigest: Digest.of("")
      )
      return ShardSummary(output: output, findings: rows.findings, measures: try Measures(episode))
    }
  }

  private final class Worker: ShardWorker {
    private let writing: Writing
    private var cursors: [(name: StreamName, rows: [Row?], cursor: any SampleCursor)]

    init(_ writing: Writing) throws {
      self.writing = writing
      cursors = try writing.episode.streams.sorted { $0.key < $1.key }.compactMap { name, stream in
        guard stream.spec.kind.isRaster, let rows = stream.rows else { return nil }
        return (name, rows, try stream.source.makeCursor(SampleRequest(isStandalone: writing.blocks.isStandalone)))
      }
    }

    func prepare(_ block: Int) throws -> PreparedBlock {
      let range = writing.blocks.blocks[block]
      var prepared: [StreamName: [[UInt8]]] = [:]
      for index in cursors.indices {
        prepared[cursors[index].name] = try range.map { row in
          guard let sample = cursors[index].rows[row]?.sample else { return [] }
          var bytes: [UInt8] = []
          do { try cursors[index].cursor.read(sample, into: &bytes) } catch is SampleFailure { return [] }
          return bytes
        }
      }
      let (writing, rows) = (writing, prepared)
      return PreparedBlock(rows: range.count, bytes: 0) {
        writing.shard.withLock { shard in for (name, values) in rows { shard.rows[name, default: []] += values } }
      }
    }
  }
}
